"""`hgkt predict` and `hgkt explain`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from hgkt.data import load_dataset, load_digits, write_xlsa17
from hgkt.estimators import METHODS, HGKTClassifier, load_model
from hgkt.evaluation import per_class_accuracy
from hgkt.evaluation.confidence import use_device
from hgkt.exceptions import DataError


@pytest.fixture
def rows():
    return load_dataset("digits").rows("test_seen")[0][:7]


def write(path, rows):
    names = [f"f{i}" for i in range(rows.shape[1])]
    writers = {
        ".npy": lambda: np.save(path, rows),
        ".npz": lambda: np.savez(path, features=rows, other=np.ones((2, 2))),
        ".csv": lambda: pd.DataFrame(rows, columns=names).assign(id="x").to_csv(path, index=False),
        ".parquet": lambda: pd.DataFrame({"features": list(rows)}).to_parquet(path),
        ".mat": lambda: savemat(path, {"features": rows.T}),
    }
    writers[path.suffix]()
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".mat"])
def test_predict_reads_every_kind_of_file(hgkt, model_folder, tmp_path, rows, suffix):
    path = write(tmp_path / f"rows{suffix}", rows)
    document = json.loads(
        hgkt("predict", "--model", model_folder, "--input", path, "--json").stdout
    )
    model = load_model(model_folder)
    labels = [entry["label"] for entry in document["predictions"]]
    assert labels == model.predict(rows).tolist()
    scores = [entry["score"] for entry in document["predictions"]]
    np.testing.assert_allclose(scores, model.score_classes(rows).max(axis=1), rtol=1e-5)
    assert "accuracy" not in document


def test_predict_top_k_and_among_are_the_sorted_scores(hgkt, model_folder, tmp_path, rows):
    path = write(tmp_path / "rows.npy", rows)
    arguments = ["--model", model_folder, "--input", path, "--top", "5", "--json"]
    document = json.loads(hgkt("predict", *arguments, "--among", "one,four, nine").stdout)
    model = load_model(model_folder)
    columns = [model.classes_.tolist().index(name) for name in ("one", "four", "nine")]
    scores = model.score_classes(rows)[:, columns]
    for entry, values in zip(document["predictions"], scores, strict=True):
        top = entry["top"]
        assert [item["score"] for item in top] == pytest.approx(sorted(values, reverse=True))
        assert entry["label"] == top[0]["label"] == ("one", "four", "nine")[values.argmax()]


def test_predict_on_a_split_measures_accuracy_and_writes_tables(hgkt, model_folder, tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("test_seen")
    for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        out = tmp_path / "deep" / f"p{suffix}"
        arguments = ["--data", "digits", "--split", "test_seen", "--top", "2", "--out", out]
        result = hgkt("predict", "--model", model_folder, *arguments, "--json")
        document = json.loads(result.stdout)
        expected = load_model(model_folder).predict(X)
        assert document["accuracy"] == pytest.approx(100 * per_class_accuracy(y, expected))
        frame = read(out)
        assert list(frame) == ["row", "label", "score", "label_2", "score_2", "truth"]
        assert frame["label"].tolist() == expected.tolist()
        assert frame["truth"].tolist() == y.tolist()
    table = hgkt("predict", "--model", model_folder, "--data", "digits", "--split", "test_seen")
    assert "accuracy" in table.stdout
    assert "more rows" in table.stdout


def test_predict_says_which_classes_the_model_lacks(hgkt, model_folder):
    result = hgkt("predict", "--model", model_folder, "--data", "digits", "--json")
    assert json.loads(result.stdout)["accuracy"] == 0.0
    assert "lacks 2 of these classes (six, two)" in result.stderr


def test_predict_uses_the_features_the_model_was_trained_on(hgkt, tmp_path):
    folder = tmp_path / "MAT"
    data = load_digits()
    write_xlsa17(data, folder, features="pixels")
    np.save(folder / "noise.npy", np.random.default_rng(0).random((1797, 64), dtype=np.float32))
    model = tmp_path / "model"
    hgkt("train", "--data", folder, "--features", "pixels", "--out", model, "--no-calibrate")
    document = json.loads(
        hgkt("predict", "--model", model, "--data", folder, "--split", "test_seen", "--json").stdout
    )
    assert document["accuracy"] > 80
    with pytest.raises(DataError, match="trained on the features 'pixels'; 'noise' cannot be"):
        hgkt("predict", "--model", model, "--data", folder, "--features", "noise")


def test_predict_refuses_with_one_sentence(hgkt, model_folder, tmp_path, rows):
    def refused(sentence, *arguments):
        with pytest.raises(DataError, match=sentence) as error:
            hgkt("predict", "--model", model_folder, *arguments)
        assert "\n" not in str(error.value)

    narrow = write(tmp_path / "narrow.npy", rows[:, :63])
    refused("narrow.npy has 63 features a row; the model expects 64", "--input", narrow)
    holes = rows.copy()
    holes[3, 5] = np.nan
    path = write(tmp_path / "nan.npy", holes)
    refused("nan.npy contain NaN in row 3", "--input", path)
    refused("does not exist", "--input", tmp_path / "none.npy")
    refused("suffix '.txt'", "--input", tmp_path / "rows.txt")
    refused("either --input FILE or --data NAME")
    good = write(tmp_path / "rows.npy", rows)
    refused("among names class 'zebra'", "--input", good, "--among", "zebra")
    refused("no class has been added", "--input", good, "--among", "unseen")
    refused("must end in .csv or .parquet", "--input", good, "--out", tmp_path / "p.xls")
    (tmp_path / "file").write_text("")
    refused("cannot write", "--input", good, "--out", tmp_path / "file" / "p.csv")
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    refused("holds Python objects", "--input", objects)
    np.savez(tmp_path / "two.npz", a=rows, b=rows)
    refused("not a single matrix; it holds: a, b", "--input", tmp_path / "two.npz")


def test_explain_class_shows_the_weights(hgkt, model_folder):
    result = hgkt("explain", "--model", model_folder, "--class", "nine", "--top", 3, "--json")
    document = json.loads(result.stdout)
    expected = load_model(model_folder).explain_class("nine")
    assert document["seen"] is True
    assert document["sources"] == [
        {"label": s.label, "weight": s.weight} for s in expected.sources[:3]
    ]
    table = hgkt("explain", "--model", model_folder, "--class", "nine").stdout
    assert "nine (seen)" in table
    assert "█" in table


def test_explain_row_shows_runner_ups_and_pulls(hgkt, model_folder, tmp_path, rows):
    path = write(tmp_path / "rows.npy", rows)
    arguments = ["--model", model_folder, "--input", path, "--row", 2]
    document = json.loads(hgkt("explain", *arguments, "--top", 2, "--json").stdout)
    expected = load_model(model_folder).explain(rows[2:3], n_runner_ups=2)[0]
    assert document["label"] == expected.label
    assert document["margin"] == pytest.approx(expected.margin)
    assert [item["label"] for item in document["runner_ups"]] == [
        item.label for item in expected.runner_ups
    ]
    assert len(document["pulls"]) == 2
    assert "runner-ups" in hgkt("explain", *arguments).stdout


def test_explain_refuses_with_one_sentence(hgkt, model_folder, tmp_path, rows):
    path = write(tmp_path / "rows.npy", rows)
    with pytest.raises(DataError, match="rows 0 to 6"):
        hgkt("explain", "--model", model_folder, "--input", path, "--row", 7)
    with pytest.raises(DataError, match="class 'zebra' is unknown"):
        hgkt("explain", "--model", model_folder, "--class", "zebra")
    with pytest.raises(DataError, match="either --class NAME or --input FILE"):
        hgkt("explain", "--model", model_folder)
    hgkt("train", "--method", "ridge", "--out", tmp_path / "ridge")
    with pytest.raises(DataError, match="RidgeClassMeanClassifier does not explain itself"):
        hgkt("explain", "--model", tmp_path / "ridge", "--class", "one")


def test_predictions_hold_no_formula_and_appear_whole(hgkt, tmp_path, monkeypatch):
    X = np.random.default_rng(0).random((20, 3))
    table = {"=1+1": [1.0, 0.0], "-b": [0.0, 1.0]}
    HGKTClassifier().fit(X, np.repeat([*table], 10), table).save(tmp_path / "own")
    np.save(tmp_path / "rows.npy", -X)
    out = tmp_path / "predicted.csv"
    arguments = ("predict", "--model", tmp_path / "own", "--input", tmp_path / "rows.npy")
    hgkt(*arguments, "--out", out)
    labels = pd.read_csv(out)["label"]
    assert set(labels) <= {"'=1+1", "'-b"}
    before = out.read_bytes()

    def full_disk(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full_disk)
    with pytest.raises(DataError, match="No space left"):
        hgkt(*arguments, "--out", out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "predicted" in path.name] == [out.name]


def test_a_gpu_that_is_not_there_is_told_and_the_cpu_can_be_asked_for(
    hgkt, model_folder, tmp_path, rows
):
    torch = pytest.importorskip("torch")
    path = write(tmp_path / "rows.npy", rows)
    asked = ("predict", "--model", model_folder, "--input", path, "--json", "--device")
    expected = load_model(model_folder).predict(rows).tolist()
    found = json.loads(hgkt(*asked, "cpu").stdout)["predictions"]
    assert [row["label"] for row in found] == expected
    if not torch.cuda.is_available():
        with pytest.raises(DataError, match="torch finds no CUDA device"):
            hgkt(*asked, "cuda")


def test_a_model_computes_where_it_is_asked_to(monkeypatch):
    monkeypatch.setattr("hgkt.evaluation.confidence.torch_device", lambda name: name)
    model = HGKTClassifier(device="cuda")
    for device, where in (("auto", "cuda"), ("cpu", "cpu"), ("cuda", "cuda")):
        use_device(model, device)
        assert model.device == where
    use_device(METHODS.load("ridge")(), "cuda")  # has no choice, and no trouble
