"""Blocks of scores: the same answers as one matrix of all scores, whatever is asked."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import normalize
from tests.members import MEMBERS

import hgkt.estimators.hgkt
from hgkt._arrays import scoring_device
from hgkt.estimators import HGKTClassifier, scoring
from hgkt.estimators.scoring import (
    BestClasses,
    best_columns,
    rank_classes,
    rank_with_confidence,
)
from hgkt.exceptions import DataError


@pytest.mark.parametrize(
    ("n_classes", "k"), [(10, 3), (500, 7), (500, 400), (3, 3), (1500, 5), (2100, 1), (4096, 9)]
)
@pytest.mark.parametrize("ties", [False, True])
def test_best_columns_equal_a_stable_sort(n_classes, k, ties):
    rng = np.random.default_rng(n_classes)
    scores = rng.normal(size=(50, n_classes)).astype(np.float32)
    scores[:, 1] = scores[:, 2]
    if ties:
        scores = np.round(scores, 1)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(best_columns(scores, k), expected)


@pytest.mark.parametrize("k", [1, 4])
def test_best_of_blocks_in_any_order_is_the_best_of_all(k):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, size=(30, 40)).astype(np.float32)
    penalties = rng.choice([0.0, 1.0], size=40)
    best = BestClasses(30, k)
    for places in (np.arange(25, 40), np.arange(3), np.arange(3, 25)):
        for rows in (slice(0, 11), slice(11, 30)):
            best.take(rows, scores[rows][:, places], places, penalties[places])
    expected = np.argsort(-(scores - penalties), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(best.positions, expected)


@pytest.fixture(params=["numpy", "torch"])
def library(request, monkeypatch):
    """What computes scores: NumPy, or torch as on a GPU but on its CPU."""
    if request.param == "torch":
        monkeypatch.setattr(hgkt.estimators.hgkt, "scoring_device", lambda name: "cpu")
        monkeypatch.setattr(scoring, "_DEVICE_ROW_NUMBERS", 60)
        monkeypatch.setattr(scoring, "_DEVICE_SCORE_NUMBERS", 60)
        monkeypatch.setattr(scoring, "_BLOCK_CLASSES", 4)
    return request.param


def _model(X, y, seen, unseen, **parameters):
    if parameters.get("shared_space"):  # what is noisy about the means
        seen, unseen = (
            {name: np.exp(np.resize(row, X.shape[1])) for name, row in part.items()}
            for part in (seen, unseen)
        )
    model = HGKTClassifier(**parameters).fit(X, y, class_attributes=seen)
    return model.add_classes(unseen)


WAYS = {
    "folded": {},
    "folded, a large gamma": {"calibration": 0.4},
    "folded, a negative gamma": {"calibration": -0.3},
    "folded, no gamma": {"calibration": 0.0},
    "hubs damped": {"norm_power": 1.3, "calibration": 0.1},
    "no map": {"feature_map": "none", "calibration": 0.1},
    "euclidean": {"metric": "euclidean", "calibration": 0.02},
    "observed means": {"observed": True, "calibration": 0.1},
    "members": {"members": MEMBERS, "calibration": 0.1},
    "members, euclidean": {
        "members": [{"ridge": 0.03, "weight": 2.0}, {"kernel": "linear", "observed": True}],
        "metric": "euclidean",
        "calibration": 0.02,
    },
    "one space": {"shared_space": True, "prior": 0.6, "norm_power": 1.2, "calibration": 0.1},
    "one space, zero-shot": {
        "members": [
            {"prior": 0.6, "shrinkage": 0.7, "observed": True},
            {"feature_map": "l2", "weight": 0.5},
            {"kernel": "zero-shot", "weight": 2.0},
        ],
        "shared_space": True,
        "calibration": 0.1,
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_predict_and_ranking_follow_the_scores(small, library, way, monkeypatch):
    monkeypatch.setattr(scoring, "_BLOCK_NUMBERS", 60)
    monkeypatch.setattr(scoring, "_BLOCK_CLASSES", 4)
    X = np.concatenate([small["X"], small["X_unseen"]])
    model = _model(small["X"], small["y"], small["seen"], small["unseen"], **WAYS[way])
    scores = model.score_classes(X)
    some = [model.classes_[i] for i in (6, 0, 3)]
    for among in ("all", "seen", "unseen", some):
        columns = model.candidates(among)
        expected = scores[:, columns].argmax(axis=1)
        np.testing.assert_array_equal(model.predict(X, among), model.classes_[columns[expected]])
        k = min(3, len(columns))
        best, values = rank_classes(model, X, columns, k)
        order = np.argsort(-scores[:, columns], axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(best, columns[order])
        np.testing.assert_allclose(values, np.take_along_axis(scores, best, axis=1), atol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_scores_are_what_their_definition_says(small, library, way):
    X = small["X_unseen"]
    model = _model(small["X"], small["y"], small["seen"], small["unseen"], **WAYS[way])
    transfer, settings = model._transfer, model._transfer.settings
    expected, total = np.zeros((len(X), len(model.classes_))), 0.0
    vectors = transfer.vectors(model.class_attributes_)
    for member, z in zip(settings.members, vectors, strict=True):
        if member.observed:
            z = np.concatenate([transfer.source_vectors(member.metric_key), z[6:]])
        space = transfer.spaces[member.feature_map]
        rows = space.into(space.mapped(X), space.center, member.shrinkage)
        total += member.weight
        if settings.metric == "euclidean":
            expected -= member.weight * ((rows[:, None] - z) ** 2).sum(axis=2)
            continue
        cosines = normalize(rows) @ normalize(z).T
        lengths = np.linalg.norm(z, axis=1)
        expected += member.weight * cosines * lengths ** (1.0 - member.norm_power)
    if settings.metric == "euclidean":
        expected /= total
    if settings.zero_shot:
        expected += settings.zero_shot * normalize(X) @ normalize(model.class_attributes_).T
    found = model.score_classes(X, penalty=False)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_grown_classes_pay_nothing_in_predict(small, library):
    model = _model(small["X"], small["y"], small["seen"], small["unseen"], calibration=0.2)
    model.partial_fit(small["X_unseen"], small["y_unseen"])
    X = np.concatenate([small["X"], small["X_unseen"]])
    expected = model.classes_[model.score_classes(X).argmax(axis=1)]
    np.testing.assert_array_equal(model.predict(X), expected)


def test_a_copy_and_a_pickle_predict_the_same(small, library):
    import pickle
    from copy import deepcopy

    model = _model(small["X"], small["y"], small["seen"], small["unseen"])
    X = small["X_unseen"]
    expected, first = model.predict(X), model.score_classes(X[:1])
    for other in (deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(other.predict(X), expected)
        np.testing.assert_array_equal(other.score_classes(X), model.score_classes(X))
        np.testing.assert_array_equal(other.score_classes(X[:1]), first)


def test_classes_that_come_and_go_are_scored_as_in_a_new_model(small, library):
    X, unseen = small["X_unseen"], small["unseen"]
    model = _model(small["X"], small["y"], small["seen"], {}, calibration=0.05)
    for name, row in unseen.items():  # one by one: what is kept of the table grows with it
        model.add_classes({name: row}).predict(X)
    first = next(iter(unseen))
    model.remove_classes([first]).add_classes({first: np.flip(unseen[first])}).predict(X)
    changed = {**unseen, first: np.flip(unseen[first])}
    other = _model(small["X"], small["y"], small["seen"], changed, calibration=0.05)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    np.testing.assert_allclose(model.score_classes(X), other.score_classes(X), atol=1e-12)


@pytest.mark.parametrize(
    ("n_classes", "k"), [(10, 3), (500, 7), (500, 400), (3, 3), (1500, 5), (2100, 1)]
)
@pytest.mark.parametrize("ties", [False, True])
def test_best_tensors_equal_a_stable_sort(n_classes, k, ties):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(n_classes)
    scores = rng.normal(size=(50, n_classes)).astype(np.float32)
    scores[:, 1] = scores[:, 2]
    if ties:
        scores = np.round(scores, 1)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(best_columns(torch.tensor(scores), k).numpy(), expected)


def test_only_cuda_scores_on_a_device(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [scoring_device(name) for name in ("auto", "cpu", "cuda")] == [None, None, "cuda"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert scoring_device("cuda") is None  # a model from elsewhere predicts all the same


def test_tensors_and_arrays_are_scored_alike_and_checked(small, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(hgkt.estimators.hgkt, "scoring_device", lambda name: "cpu")
    model = _model(small["X"], small["y"], small["seen"], small["unseen"], calibration=0.05)
    X = small["X_unseen"].copy()
    rows = torch.tensor(X)
    np.testing.assert_array_equal(model.predict(rows), model.predict(X))
    np.testing.assert_array_equal(model.score_classes(rows), model.score_classes(X))
    for bad, message in ((np.nan, "NaN in row 1"), (1e30, "length over 1e\\+18 in row 1")):
        rows[1, 0] = X[1, 0] = bad
        for given in (rows, X):
            with pytest.raises(DataError, match=message):
                model.predict(given)
    with pytest.raises(DataError, match="tensor of floats of shape"):
        model.predict(rows[:, :2])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:probabilities are not calibrated")
def test_one_row_scores_as_among_many(small, way, kind):
    X = np.concatenate([small["X"], small["X_unseen"], np.zeros((1, small["X"].shape[1]))])
    X = X.astype(kind)
    model = _model(X[: len(small["X"])], small["y"], small["seen"], small["unseen"], **WAYS[way])
    together, chances = model.score_classes(X), model.predict_proba(X)
    tolerance = {"rtol": 1e-4, "atol": 2e-5} if kind == np.float32 else {"rtol": 1e-9}
    for row in range(0, len(X), 40):
        x = X[row : row + 1]
        np.testing.assert_allclose(model.score_classes(x)[0], together[row], **tolerance)
        np.testing.assert_allclose(model.predict_proba(x)[0], chances[row], rtol=1e-3, atol=1e-5)
        for among in ("all", "seen", "unseen", [model.classes_[i] for i in (6, 0, 3)]):
            columns = model.candidates(among)
            best, values = rank_classes(model, x, columns, 2)
            np.testing.assert_allclose(values, model.score_classes(x)[[0], best], rtol=1e-9)
            assert values[0, 0] == model.score_classes(x)[0, columns].max()


def test_one_row_scores_seen_classes_the_same_whatever_is_added(small):
    alone = HGKTClassifier(calibration=0.1).fit(small["X"], small["y"], small["seen"])
    x, seen = small["X_unseen"][:1], alone.seen_classes_
    before = alone.score_classes(x, penalty=False)
    alone.add_classes(small["unseen"])
    after = alone.score_classes(x, penalty=False)[:, np.isin(alone.classes_, seen)]
    np.testing.assert_array_equal(after, before)


def test_a_confident_ranking_is_what_answers_say(small, monkeypatch):
    monkeypatch.setattr(scoring, "_CHUNK_NUMBERS", 30)  # a few rows at a time
    model = HGKTClassifier().fit(small["X"], small["y"], small["seen"])
    model.add_classes(small["unseen"])
    X, columns = small["X_unseen"], model.candidates("all")
    found = rank_with_confidence(model, X, columns, 3, reject=0.2, coverage=0.8)
    answers = model.answers(X, model.classes_[columns].tolist(), 0.2, 0.8)
    order = np.argsort(-answers.scores, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(found.best, columns[order])
    for name in ("scores", "probabilities"):
        expected = np.take_along_axis(getattr(answers, name), order, axis=1)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12)
    np.testing.assert_allclose(found.novelty, answers.novelty, rtol=1e-12)
    np.testing.assert_array_equal(found.unknown, answers.novelty > 0.8)
    assert found.sets == [names.tolist() for names in answers.sets()]
