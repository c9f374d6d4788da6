"""The exported graphs in onnxruntime against the estimator they came from."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from hgkt import HGKTClassifier, HGKTNetworkClassifier, _files, load_dataset
from hgkt.estimators import METHODS
from hgkt.exceptions import DataError, ModelFolderError
from hgkt.export import export_onnx, load_onnx

DATA = load_dataset("digits")
X, Y = DATA.rows("train")
SEEN, UNSEEN = (DATA.attributes_of(part) for part in (DATA.seen_classes, DATA.unseen_classes))
ROWS = np.concatenate([DATA.rows("test_seen")[0][:40], DATA.rows("test_unseen")[0][:40]])
MODELS = {
    "closed form": HGKTClassifier(calibration=0.07),
    "power map, hubs": HGKTClassifier(feature_map=0.3, attribute_map="l2", norm_power=1.5),
    "quadratic": HGKTClassifier(kernel="quadratic", feature_map="l2", attribute_map="none"),
    "linear, euclidean": HGKTClassifier(inter=False, intra=False, metric="euclidean"),
    "knn": HGKTClassifier(kernel="knn", n_neighbors=3),
    "blocks": HGKTClassifier(attribute_blocks=[14, 6], block_weights=[0.7, 0.3]),
    "one block alone": HGKTClassifier(attribute_blocks=[14, 6], block_weights=[1.0, 0.0]),
    "relevance": HGKTClassifier(relevance=True),
    "members": HGKTClassifier(
        members=[
            {"norm_power": 1.2, "weight": 2.0},
            {"shrinkage": 0.9, "kernel": "quadratic", "observed": True},
            {"feature_map": 0.25, "kernel": "linear", "attribute_map": "l2", "weight": 0.5},
            {"feature_map": "l2", "relevance": True, "kernel_scale": 0.5, "ridge": 0.3},
        ],
        calibration=0.07,
    ),
    "members, euclidean": HGKTClassifier(
        members=[{"weight": 3.0, "observed": True}, {"kernel": "linear", "ridge": 0.3}],
        metric="euclidean",
    ),
}

_ZERO_SHOT = [
    {"prior": 0.6, "observed": True, "norm_power": 1.2},
    {"feature_map": "l2", "shrinkage": 0.9, "prior": 1.0, "kernel": "linear", "weight": 0.5},
    {"feature_map": "l2", "shrinkage": 0.3, "relevance": True},
    {"kernel": "zero-shot", "weight": 2.0},
]
ONE_SPACE = {
    "plain": {"shared_space": True},
    "prior": {"prior": 0.6, "shared_space": True, "calibration": 0.07},
    "prior, observed": {"prior": 1.0, "observed": True, "shared_space": True},
    "prior, euclidean": {"prior": 0.6, "metric": "euclidean", "shared_space": True},
    "prior, power map": {"prior": 0.3, "feature_map": 0.3, "relevance": True, "shared_space": True},
    "zero-shot": {"members": _ZERO_SHOT, "shared_space": True, "calibration": 0.07},
    "zero-shot, second block": {
        "members": _ZERO_SHOT,
        "attribute_blocks": [20, 64],
        "shared_space": 1,
    },
    "prior, second block alone": {
        "prior": 0.6,
        "attribute_blocks": [20, 64],
        "block_weights": [0.0, 1.0],
        "shared_space": 1,
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_export_onnx_scores_agree_before_and_after_adding(name, tmp_path):
    model = MODELS[name].fit(X, Y, class_attributes=SEEN)
    assert_alike(model, ROWS, UNSEEN, tmp_path, 1e-5)


@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-9)])
@pytest.mark.parametrize("name", ONE_SPACE)
def test_export_onnx_of_one_space_scores_alike(name, kind, tolerance, tmp_path):
    """Descriptions are noisy means; in blocks they come after the attributes."""
    texts = noisy_means()
    if ONE_SPACE[name]["shared_space"] is not True:
        texts = {c: np.concatenate([(SEEN | UNSEEN)[c], text]) for c, text in texts.items()}
    seen, unseen = ({c: texts[c] for c in part} for part in (SEEN, UNSEEN))
    model = HGKTClassifier(**ONE_SPACE[name]).fit(X.astype(kind), Y, class_attributes=seen)
    assert_alike(model, ROWS.astype(kind), unseen, tmp_path, tolerance)


def test_export_onnx_of_one_space_keeps_a_class_that_has_grown(tmp_path):
    table, (rows, labels) = noisy_means(), DATA.rows("test_unseen")
    model = HGKTClassifier(members=_ZERO_SHOT, shared_space=True, calibration=0.3)
    model.fit(X, Y, class_attributes={c: table[c] for c in SEEN})
    model.add_classes({c: table[c] for c in UNSEEN})
    model.partial_fit(rows[:5], labels[:5])
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    np.testing.assert_allclose(exported.score_classes(ROWS), model.score_classes(ROWS), atol=1e-5)


def noisy_means():
    """Return a description of each class (64,): one of the space of the features."""
    rng, means = np.random.default_rng(0), {}
    for rows, labels in (DATA.rows("train"), DATA.rows("test_unseen")):
        means |= {name: rows[labels == name].mean(axis=0) for name in np.unique(labels).tolist()}
    return {name: mean + rng.normal(size=64) for name, mean in means.items()}


def assert_alike(model, rows, unseen, tmp_path, tolerance):
    """A model and its export score alike, before and after classes are added to both."""
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    near = {"rtol": tolerance, "atol": tolerance}
    np.testing.assert_allclose(exported.score_classes(rows), model.score_classes(rows), **near)
    model.add_classes(unseen)
    exported.add_classes(unseen)
    columns = model.candidates()  # the exported table grows at its end
    assert exported.classes == model.classes_[columns].tolist()
    scores = model.score_classes(rows)[:, columns]
    np.testing.assert_allclose(exported.score_classes(rows), scores, **near)
    gap = np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0]
    clear = gap > 1e-4 * np.abs(scores).max()
    assert clear.mean() > 0.9
    assert (exported.predict(rows) == model.predict(rows))[clear].all()


def test_export_onnx_keeps_added_and_calibrated_classes(tmp_path):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN).add_classes(UNSEEN)
    plain = model.score_classes(ROWS, penalty=False)
    model.set_params(calibration=0.2)
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    np.testing.assert_allclose(exported.score_classes(ROWS), model.score_classes(ROWS), atol=1e-5)
    shift = plain - exported.score_classes(ROWS)
    np.testing.assert_allclose(shift[:, model.seen_mask_], 0.2, atol=1e-5)
    np.testing.assert_allclose(shift[:, ~model.seen_mask_], 0.0, atol=1e-5)


def test_export_onnx_grown_class_does_not_pay_calibration(tmp_path):
    model = HGKTClassifier(calibration=0.3).fit(X, Y, class_attributes=SEEN)
    model.add_classes(UNSEEN)
    rows, labels = DATA.rows("test_unseen")
    model.partial_fit(rows[:5], labels[:5])
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    np.testing.assert_allclose(exported.score_classes(ROWS), model.score_classes(ROWS), atol=1e-5)


def test_export_onnx_replaces_an_export_and_nothing_else(tmp_path):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN)
    folder = export_onnx(model, tmp_path / "onnx")
    assert export_onnx(model.add_classes(UNSEEN), folder) == folder
    assert len(load_onnx(folder).classes) == 10
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelFolderError, match="left alone"):
        export_onnx(model, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("exchanges", [True, False])
def test_export_onnx_crash_at_the_swap_leaves_the_old_export(tmp_path, monkeypatch, exchanges):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN)
    folder = export_onnx(model, tmp_path / "onnx")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    rename = os.rename

    def crash(first, second):
        """Die where the new folder would take its place; the old one may be moved."""
        if exchanges or (os.fspath(second) == os.fspath(folder) and "previous" not in str(first)):
            raise KeyboardInterrupt
        rename(first, second)

    with monkeypatch.context() as patch:
        if exchanges:
            patch.setattr(_files, "_exchange", crash)
        else:
            patch.setattr(_files, "_exchange", lambda first, second: False)
            patch.setattr(os, "rename", crash)
        with pytest.raises(KeyboardInterrupt):
            export_onnx(model.add_classes(UNSEEN), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert os.listdir(tmp_path) == ["onnx"]
    assert len(load_onnx(folder).classes) == 8


def test_export_onnx_refuses_other_methods_and_unfitted_models(tmp_path):
    ridge = METHODS.load("ridge")().fit(X, Y, class_attributes=SEEN)
    with pytest.raises(DataError, match="covers hgkt"):
        export_onnx(ridge, tmp_path / "onnx")
    with pytest.raises(DataError, match="covers hgkt"):
        export_onnx(HGKTNetworkClassifier(), tmp_path / "onnx")
    with pytest.raises(DataError, match="not fitted"):
        export_onnx(HGKTClassifier(), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


def test_onnx_classifier_refuses_bad_input_and_keeps_its_classes(tmp_path):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN)
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    with pytest.raises(DataError, match="64 columns"):
        exported.score_classes(ROWS[:, :5])
    with pytest.raises(DataError, match="NaN in row 1"):
        exported.score_classes(np.where(np.arange(len(ROWS))[:, None] == 1, np.nan, ROWS))
    with pytest.raises(DataError, match="'one' is there already"):
        exported.add_classes({"six": UNSEEN["six"], "one": SEEN["one"]})
    with pytest.raises(DataError, match="20 are expected"):
        exported.add_classes({"six": UNSEEN["six"], "seven and a half": [1.0, 2.0]})
    assert exported.classes == model.classes_.tolist()
    (tmp_path / "onnx" / "classes.json").write_text("{}")
    with pytest.raises(ModelFolderError, match="format"):
        load_onnx(tmp_path / "onnx")
    with pytest.raises(ModelFolderError, match="does not exist"):
        load_onnx(tmp_path / "nowhere")


@pytest.mark.endure
def test_onnx_classifier_needs_neither_estimators_nor_torch(tmp_path):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN)
    folder = export_onnx(model, tmp_path / "onnx")
    np.save(tmp_path / "rows.npy", ROWS)
    code = (
        "import sys, numpy as np; from hgkt.export import load_onnx\n"
        "print(*load_onnx(sys.argv[1]).predict(np.load(sys.argv[2])))\n"
        "assert not {'torch', 'sklearn', 'onnx', 'hgkt.estimators'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, folder, tmp_path / "rows.npy"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == model.predict(ROWS).tolist()


def test_export_onnx_is_as_sure_as_the_model(tmp_path):
    model = HGKTClassifier().fit(X, Y, class_attributes=SEEN)
    exported = load_onnx(export_onnx(model, tmp_path / "onnx")).add_classes(UNSEEN)
    model.add_classes(UNSEEN)
    columns = model.candidates()
    expected = model.predict_proba(ROWS)[:, columns]
    np.testing.assert_allclose(exported.predict_proba(ROWS), expected, atol=1e-4)
    np.testing.assert_allclose(exported.novelty(ROWS), model.novelty(ROWS), atol=1e-3)
    for one, other in zip(
        exported.predict_set(ROWS, 0.6), model.predict_set(ROWS, 0.6), strict=True
    ):
        assert one == other.tolist()
    np.testing.assert_array_equal(
        exported.predict(ROWS, reject=0.4), model.predict(ROWS, reject=0.4)
    )


def test_export_onnx_without_thresholds_refuses_to_be_sure(tmp_path):
    model = HGKTClassifier(calibration=0.1).fit(X, Y, class_attributes=SEEN)
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    with pytest.raises(DataError, match="cannot say how sure it is"):
        exported.predict_proba(ROWS)


def test_export_onnx_of_few_rows_of_many_features(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.abs(rng.normal(size=(30, 4_200))).astype(np.float32)
    labels, attributes = np.arange(20) % 5, {name: rng.random(4) for name in range(7)}
    model = HGKTClassifier(calibration=0.1).fit(rows[:20], labels, class_attributes=attributes)
    exported = load_onnx(export_onnx(model, tmp_path / "onnx"))
    np.testing.assert_allclose(exported.score_classes(rows), model.score_classes(rows), atol=1e-5)
