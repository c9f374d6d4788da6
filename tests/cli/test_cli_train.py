"""`hgkt train`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.io import savemat

from hgkt._plain import plain
from hgkt.data import load_dataset, load_digits, write_xlsa17
from hgkt.estimators import HGKTClassifier, HGKTNetworkClassifier, load_model
from hgkt.evaluation import ClassFoldSearch
from hgkt.exceptions import DataError, ModelFolderError

NETWORK = ["--preset", "exact", "--device", "cpu", "-p", "n_hidden=8"]


def read_config(folder):
    return json.loads((folder / "config.json").read_text())


def test_train_saves_what_a_fit_gives_and_what_it_was_made_with(hgkt, tmp_path):
    out = tmp_path / "sub" / "model"
    arguments = ["--no-calibrate", "-p", "ridge=0.2", "--with-unseen", "--json"]
    document = json.loads(hgkt("train", "--out", out, *arguments).stdout)
    assert document["n_seen_classes"] == 8
    assert document["n_added_classes"] == 2
    assert document["chosen"] == {}
    assert document["validation"] is None
    data = load_dataset("digits")
    X, y = data.rows("train")
    expected = HGKTClassifier(ridge=0.2, calibration=0.0)
    expected.fit(X, y, data.attributes_of(data.seen_classes))
    expected.add_classes(data.attributes_of(data.unseen_classes))
    model = load_model(out)
    rows = data.rows("test_unseen")[0]
    np.testing.assert_allclose(model.score_classes(rows), expected.score_classes(rows))
    about = read_config(out)["about"]
    assert about["data"] == "digits"
    assert about["fingerprint"] == data.fingerprint()
    assert about["attribute_names"] == list(data.attribute_names)
    assert about["features"] == "pixel intensities"
    assert about["attributes"] == "segments and shapes"
    assert about["selected"] is False


def test_train_calibrates_and_selects_as_class_fold_search_does(hgkt, tmp_path):
    out = tmp_path / "model"
    document = json.loads(hgkt("train", "--select", "--out", out, "--seed", 3, "--json").stdout)
    data = load_dataset("digits")
    X, y = data.rows("train")
    search = ClassFoldSearch(HGKTClassifier(), random_state=3)
    search.fit(X, y, data.attributes_of(data.seen_classes))
    chosen = {**search.best_params_, "calibration": search.calibration_.to_dict()}
    assert document["chosen"] == plain(chosen)
    assert document["validation"]["score"] == pytest.approx(search.best_score_)
    assert load_model(out).calibration_ == search.calibration_
    about = read_config(out)["about"]
    assert about["selected"] is True
    assert about["validation"]["folds"] == "random"


def test_train_says_what_added_classes_cost(hgkt, tmp_path):
    out = tmp_path / "model"
    shown = hgkt("train", "--out", out, "--with-unseen", "--device", "cpu").stdout
    costs = load_model(out).costs(0, 2)
    assert costs.sentence() in shown
    again = hgkt("train", "--out", out, "--with-unseen", "--device", "cpu", "--overwrite", "--json")
    assert json.loads(again.stdout)["costs"] == plain(costs)


def test_train_calibrates_other_methods_when_asked(hgkt, tmp_path):
    out = tmp_path / "model"
    arguments = ["--method", "ridge", "--calibrate", "--json"]
    document = json.loads(hgkt("train", "--out", out, *arguments).stdout)
    assert load_model(out).calibration == document["chosen"]["calibration"] != 0


def test_train_passes_attribute_blocks_of_the_data(hgkt, tmp_path):
    folder = tmp_path / "BLOCKS"
    data = load_digits()
    write_xlsa17(data, folder, features="pixels")
    sentences = np.random.default_rng(0).random((6, 10))
    savemat(folder / "sent_splits.mat", {"att": sentences})
    where = ["--data", folder, "--features", "pixels", "--attributes", "att+sent"]
    blocks = load_dataset(folder, features="pixels", attributes="att+sent").about[
        "attribute_blocks"
    ]
    assert len(blocks) == 2
    hgkt("train", "--out", tmp_path / "a", "--no-calibrate", *where)
    assert read_config(tmp_path / "a")["parameters"]["attribute_blocks"] == blocks
    own = f"attribute_blocks=[{sum(blocks)}]"
    hgkt("train", "--out", tmp_path / "b", "--no-calibrate", *where, "-p", own)
    assert read_config(tmp_path / "b")["parameters"]["attribute_blocks"] == [sum(blocks)]
    plain = json.loads(hgkt("evaluate", "--no-calibrate", "--json", *where).stdout)
    assert plain["parameters"]["attribute_blocks"] == blocks


def test_train_network_leaves_no_checkpoint_unless_asked(hgkt, tmp_path):
    steps = ["-p", "n_steps=3"]
    hgkt("train", "--out", tmp_path / "a", *NETWORK, *steps)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    kept = tmp_path / "kept"
    hgkt("train", "--out", tmp_path / "b", "--checkpoint", kept, *NETWORK, *steps)
    assert kept.is_file()
    assert read_config(tmp_path / "b")["parameters"]["n_steps"] == 3
    assert str(kept) not in (tmp_path / "b" / "config.json").read_text()
    # Kept at step 3, it is where a longer run starts.
    more = ["--checkpoint", kept, "-p", "n_steps=5", "--json"]
    longer = hgkt("train", "--out", tmp_path / "c", *NETWORK, *more)
    assert json.loads(longer.stdout)["resumed"] is True
    losses = [load_model(tmp_path / name).loss_curve_ for name in ("b", "c")]
    np.testing.assert_array_equal(losses[1][:3], losses[0])


def test_train_writes_the_checkpoint_of_the_final_fit_only(hgkt, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    score_grid = HGKTNetworkClassifier.score_grid

    def watched(*arguments, **options):
        for scored in score_grid(*arguments, **options):
            assert not kept.exists()
            yield scored

    monkeypatch.setattr(HGKTNetworkClassifier, "default_stages", lambda self: [{"mu": [0.1, 1.0]}])
    monkeypatch.setattr(HGKTNetworkClassifier, "score_grid", watched)
    arguments = ["--select", "--calibrate", "--checkpoint", kept, *NETWORK, "--json"]
    first = hgkt("train", "--out", tmp_path / "a", *arguments, "-p", "n_steps=3")
    assert json.loads(first.stdout)["method"] == "hgkt-network"
    assert "mu" in json.loads(first.stdout)["chosen"]
    # What the file holds is where a longer run starts: its losses are those of the file.
    arrays = load_file(kept)
    with safe_open(kept, framework="numpy") as file:
        metadata = file.metadata()
    # The file has them in the unit of training, the model in that of the features.
    units = load_model(tmp_path / "a").loss_curve_ / arrays["losses"][0]
    np.testing.assert_allclose(units, units[0])
    save_file(arrays | {"losses": arrays["losses"] + 7.0}, kept, metadata)
    monkeypatch.setattr(HGKTNetworkClassifier, "score_grid", score_grid)
    longer = hgkt("train", "--out", tmp_path / "b", *arguments, "-p", "n_steps=5")
    assert json.loads(longer.stdout)["resumed"] is True
    curve = load_model(tmp_path / "b").loss_curve_
    assert len(curve) == 5
    np.testing.assert_allclose(curve[:3], (arrays["losses"][0] + 7.0) * units[0])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--checkpoint", "x"], "--checkpoint is for .* methods that train a network"),
        (["--data", "nowhere"], "'nowhere' is no folder"),
        (["--param", "rigde=1"], "no parameter 'rigde'"),
        (["--preset", "papr"], "unknown preset 'papr'; choose from: default, paper"),
    ],
)
def test_train_refuses_with_one_sentence(hgkt, tmp_path, arguments, sentence):
    with pytest.raises((DataError, ValueError), match=sentence) as error:
        hgkt("train", "--out", tmp_path / "m", *arguments)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "m").exists()


def test_train_refuses_a_method_it_cannot_save_before_it_trains(hgkt, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from hgkt.baselines.ridge import RidgeClassMeanClassifier\n\n\n"
        "class Mine(RidgeClassMeanClassifier):\n"
        "    def fit(self, *arguments, **options):\n"
        "        raise AssertionError('it trained')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelFolderError, match="Mine is not a registered method, so") as error:
        hgkt("train", "--out", tmp_path / "m", "--method", "mine:Mine")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "m").exists()


def test_train_refuses_a_place_it_cannot_write_before_it_trains(hgkt, tmp_path, monkeypatch):
    monkeypatch.setattr(HGKTClassifier, "fit", lambda *a, **k: pytest.fail("it trained"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="file is no folder"):
        hgkt("train", "--out", tmp_path / "file" / "model")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(ModelFolderError, match="is not a model folder; it is left alone"):
        hgkt("train", "--out", tmp_path / "full")
    with pytest.raises(ModelFolderError, match="is not a model folder; it is left alone"):
        hgkt("train", "--out", tmp_path / "file")
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"
