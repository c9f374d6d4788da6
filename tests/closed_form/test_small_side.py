"""Few rows of many features: the same numbers from their span as from all D directions."""

from __future__ import annotations

import numpy as np
import pytest
from tests.folds import make_fold, matrix_fold

import hgkt.estimators.hgkt
from hgkt import load_model
from hgkt.closed_form import Ensemble, grid, transfer
from hgkt.estimators import HGKTClassifier
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics, SpannedStatistics, classes

D = 60
MEMBERS = [
    {"feature_map": "sqrt+l2", "shrinkage": 0.3, "weight": 2.0, "norm_power": 1.2},
    {"feature_map": "sqrt+l2", "shrinkage": "oas", "kernel": "linear", "relevance": True},
    {"feature_map": "l2", "shrinkage": 0.5, "ridge": 0.3, "observed": True, "weight": 0.5},
]
WAYS = {
    "plain": {},
    "nothing shrunk": {"shrinkage": 0.0, "norm_power": 1.3},
    "shrunk to nothing": {"shrinkage": 1.0, "relevance": True},
    "oas": {"shrinkage": "oas", "feature_map": "none"},
    "euclidean": {"metric": "euclidean"},
    "observed": {"observed": True},
    "ensemble": {"members": MEMBERS},
}


@pytest.fixture(name="wide")
def _wide(monkeypatch):
    """Have sixty features count as many."""
    monkeypatch.setattr(classes, "_LEAST_FEATURES", D)


def _never(monkeypatch):
    monkeypatch.setattr(classes, "_LEAST_FEATURES", 10**9)


def _rows(n_per_class=2, n_classes=7, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    attributes = {f"c{i}": rng.random(5) for i in range(n_classes)}
    y = np.repeat(list(attributes), n_per_class)
    X = np.abs(rng.normal(size=(n_classes, D)).repeat(n_per_class, axis=0))
    X += 0.3 * np.abs(rng.normal(size=X.shape))
    X[1] = X[0]  # rows that depend on each other
    new = {f"n{i}": rng.random(5) for i in range(3)}
    return X.astype(dtype), y, attributes, new, np.abs(rng.normal(size=(9, D))).astype(dtype)


def _scores(model, X):
    return model.score_classes(X, penalty=False)


@pytest.mark.parametrize("way", WAYS)
def test_scores_equal_those_of_all_directions(wide, monkeypatch, way):
    X, y, attributes, new, others = _rows()
    rows = np.concatenate([X, others, np.zeros((1, D))])
    parameters = {"calibration": 0.1, **WAYS[way]}
    small = HGKTClassifier(**parameters).fit(X, y, attributes).add_classes(new)
    n_others = 2 if way == "euclidean" else 0  # what distances take off
    assert (small.class_embeddings_.shape[1] - n_others) % (len(X) + 1) == 0
    _never(monkeypatch)
    whole = HGKTClassifier(**parameters).fit(X, y, attributes).add_classes(new)
    expected = _scores(whole, rows)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(_scores(small, rows), expected, rtol=0, atol=1e-8 * scale)
    np.testing.assert_array_equal(small.predict(rows), whole.predict(rows))
    check, same = small.check_class([0.5] * 5), whole.check_class([0.5] * 5)
    assert str(check) == str(same)


def test_a_calibration_and_its_confidence_are_the_same(wide, monkeypatch):
    X, y, attributes, _, others = _rows()
    small = HGKTClassifier().fit(X, y, attributes)
    _never(monkeypatch)
    whole = HGKTClassifier().fit(X, y, attributes)
    assert small.confidence_ is not None
    np.testing.assert_allclose(small.gamma_, whole.gamma_, rtol=1e-7)
    np.testing.assert_allclose(small.predict_proba(others), whole.predict_proba(others), rtol=1e-6)
    np.testing.assert_allclose(small.novelty(others), whole.novelty(others), atol=1e-6)


@pytest.mark.parametrize("way", ["plain", "ensemble"])
def test_a_saved_model_answers_and_grows_as_before(wide, tmp_path, way):
    X, y, attributes, new, others = _rows(dtype=np.float32)
    model = HGKTClassifier(calibration=0.1, **WAYS[way]).fit(X, y, attributes).add_classes(new)
    loaded = load_model(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.score_classes(others), model.score_classes(others))
    for each in (model, loaded):
        each.partial_fit(others[:1], ["n0"])
    np.testing.assert_array_equal(loaded.score_classes(others), model.score_classes(others))


@pytest.mark.parametrize("n_batches", [2, 5])
def test_batches_give_the_model_of_one_fit(wide, n_batches):
    X, y, attributes, _, others = _rows(n_per_class=4)  # 28 rows: more than a small side
    order = np.random.default_rng(1).permutation(len(X))
    parts = np.array_split(order, n_batches)
    model = HGKTClassifier(calibration=0.0)
    for part in parts:
        known = {name: attributes[name] for name in y[part]}
        model.partial_fit(X[part], y[part], class_attributes=known)
    whole = HGKTClassifier(calibration=0.0).fit(X, y, attributes)
    np.testing.assert_allclose(_scores(model, others), _scores(whole, others), atol=1e-8)


def test_classes_grow_and_go_on_the_small_side(wide, monkeypatch):
    X, y, attributes, new, others = _rows(n_per_class=1)

    def lived():
        model = HGKTClassifier(calibration=0.1).fit(X, y, attributes).add_classes(new)
        before = _scores(model, others)
        model.grow({"n0": model.example_sums(others[:2]), "c1": model.example_sums(others[2:3])})
        model.grow({"n0": model.example_sums(others[3:4])})
        grown = _scores(model, others)
        return before, grown, _scores(model.remove_classes(["n0"]), others)

    small = lived()
    _never(monkeypatch)
    for found, expected in zip(small, lived(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_selection_uses_the_small_side(wide, monkeypatch):
    X, y, attributes, new, others = _rows()
    settings = [{"shrinkage": s, "ridge": r} for s in (0.2, 0.8) for r in (0.01, 0.1)]
    model = HGKTClassifier()
    found = dict(model.score_grid(settings, make_fold(X, y, attributes, new, others)))
    _never(monkeypatch)
    for index, scores in model.score_grid(settings, make_fold(X, y, attributes, new, others)):
        np.testing.assert_allclose(found[index], scores, atol=1e-8)


def test_a_model_for_a_gpu_keeps_to_the_small_side(wide, monkeypatch):
    torch = pytest.importorskip("torch")
    X, y, attributes, new, others = _rows()
    expected = HGKTClassifier(calibration=0.1).fit(X, y, attributes).add_classes(new)
    monkeypatch.setattr(hgkt.estimators.hgkt, "scoring_device", lambda name: "cpu")
    model = HGKTClassifier(calibration=0.1).fit(X, y, attributes).add_classes(new)
    for rows in (others, torch.tensor(others)):
        np.testing.assert_array_equal(model.score_classes(rows), expected.score_classes(others))
        np.testing.assert_array_equal(model.predict(rows), expected.predict(others))
    monkeypatch.setattr(grid, "fitting_device", lambda name: "cpu")
    codes = np.unique(y, return_inverse=True)[1]
    data = matrix_fold(X, codes, np.eye(7), np.eye(7)[:1], others)
    assert grid.fold_scorer(data, [("l2", 0.5)], Ensemble()).device is None


@pytest.mark.parametrize("members", [
    [{"prior": 0.6}],
    [{"prior": 0.3, "observed": True, "norm_power": 1.2}, {"kernel": "zero-shot", "weight": 0.5}],
])  # fmt: skip
def test_descriptions_of_a_shared_space_keep_what_is_outside_of_the_span(
    wide, monkeypatch, members
):
    X, y, _, _, others = _rows()
    rng = np.random.default_rng(2)
    attributes = {name: rng.random(D) for name in np.unique(y)}
    new = {f"n{i}": rng.random(D) for i in range(3)}
    parameters = {"members": members, "shared_space": True, "calibration": 0.0}
    codes = np.unique(y, return_inverse=True)[1]
    seen = np.stack(list(attributes.values()))
    data = matrix_fold(X, codes, seen, np.stack(list(new.values())), others)

    def lived():
        model = HGKTClassifier(**parameters).fit(X, y, attributes).add_classes(new)
        settings = model._settings()
        ((_, of_fold),) = grid.score_grid([settings], data)
        return _scores(model, others), of_fold

    small = lived()
    _never(monkeypatch)
    for found in (*small, *lived()):
        np.testing.assert_allclose(found, small[0], atol=1e-8)


def test_no_square_of_many_features_is_made(monkeypatch):
    made = []
    monkeypatch.setattr(classes, "check_square", made.append)
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.normal(size=(40, 20_000))).astype(np.float32), np.arange(40) % 8
    attributes = {c: rng.random(4) for c in range(9)}
    model = HGKTClassifier(calibration=0.0).fit(X, y, attributes)
    assert model.predict(X).tolist() == y.tolist()
    assert not made
    assert isinstance(next(iter(model._transfer.statistics.values())), SpannedStatistics)


def test_features_whose_square_is_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(classes, "_memory", lambda: 8e9)
    with pytest.raises(DataError, match=r"20,000 features need .* 13 GB .* at most 5,000 rows"):
        ClassStatistics(2, 20_000)
    assert transfer.has_small_side(5_000, 20_000)
    assert not transfer.has_small_side(5_001, 20_000)
