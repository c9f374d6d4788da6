import numpy as np
import pytest
from scipy.linalg import solve_sylvester
from tests.folds import make_fold

from hgkt.baselines.sae import SAEClassifier
from hgkt.data import make_synthetic
from hgkt.exceptions import DataError


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [6, 5, 4])
    attributes = dict(zip("abc", rng.normal(size=(3, 2)), strict=True))
    return rng.normal(size=(15, 4)), y, attributes


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def encoder(X, y, attributes, weight):
    """Solve the Sylvester equation with SciPy's general solver."""
    X = unit(X)
    S = unit(np.array([attributes[name] for name in y]))
    return solve_sylvester(S.T @ S, weight * X.T @ X, (1 + weight) * S.T @ X), S, X


@pytest.mark.parametrize("weight", [0.01, 0.2, 50.0])
def test_sae_weights_equal_scipys_sylvester_solution(small, weight):
    model = SAEClassifier(encoder_weight=weight).fit(*small)
    np.testing.assert_allclose(model.weights_, encoder(*small, weight)[0], atol=1e-12)


def test_sae_weights_are_stationary_for_the_published_loss(small):
    model = SAEClassifier(encoder_weight=0.7).fit(*small)
    _, S, X = encoder(*small, 0.7)

    def loss(W):
        return ((X - S @ W) ** 2).sum() + 0.7 * ((X @ W.T - S) ** 2).sum()

    rng = np.random.default_rng(2)
    for _ in range(5):
        step = 1e-5 * rng.normal(size=model.weights_.shape)
        slope = (loss(model.weights_ + step) - loss(model.weights_ - step)) / 2e-5
        assert abs(slope) < 1e-7


def test_sae_rank_deficient_attributes_give_the_solution_of_smallest_norm(small):
    X, y, attributes = small
    # A column that repeats another makes SᵀS singular; with features of full rank the solution
    # stays unique, and no rounding may be blown up in the empty direction.
    doubled = {name: np.array([*row, row[0]]) for name, row in attributes.items()}
    model = SAEClassifier(encoder_weight=1e-3).fit(X, y, doubled)
    expected = encoder(X, y, doubled, 1e-3)[0]
    np.testing.assert_allclose(model.weights_, expected, atol=1e-8)


def test_sae_directions_score_by_the_two_cosines(small):
    X, y, attributes = small
    W, _, _ = encoder(X, y, attributes, 0.2)
    A = unit(np.array([attributes[name] for name in "abc"]))
    to_features = SAEClassifier().fit(X, y, attributes)
    to_attributes = SAEClassifier("to-attributes").fit(X, y, attributes)
    np.testing.assert_allclose(to_features.score_classes(X), unit(X) @ unit(A @ W).T, atol=1e-12)
    np.testing.assert_allclose(to_attributes.score_classes(X), unit(X @ W.T) @ A.T, atol=1e-12)
    np.testing.assert_allclose(to_features.class_embeddings_, A @ W, atol=1e-12)


def test_sae_grid_equals_separate_fits(small):
    X, y, attributes = small
    new, X_eval = {"d": [0.3, -1.0]}, X[:5] * 2.0
    grid = [
        {"encoder_weight": weight, "direction": direction}
        for direction in ("to-features", "to-attributes")
        for weight in (0.1, 1.0, 1e4)
    ]
    found = dict(SAEClassifier().score_grid(grid, make_fold(X, y, attributes, new, X_eval)))
    for index, params in enumerate(grid):
        model = SAEClassifier(**params).fit(X, y, attributes).add_classes(new)
        np.testing.assert_allclose(found[index], model.score_classes(X_eval), rtol=1e-9)


@pytest.mark.parametrize(("direction", "floor"), [("to-features", 0.7), ("to-attributes", 0.4)])
def test_sae_solves_synthetic_classes(direction, floor):
    data = make_synthetic(n_seen=40, n_unseen=5, noise=0.3)
    X, y = data.rows("train")
    model = SAEClassifier(direction).fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > floor


def test_sae_zero_features_fit_without_a_warning():
    model = SAEClassifier().fit(np.zeros((4, 3)), [0, 0, 1, 1])
    assert np.isfinite(model.score_classes(np.ones((2, 3)))).all()


def test_sae_refuses_an_unknown_direction(small):
    with pytest.raises(DataError, match="direction must be one of 'to-features', 'to-attributes'"):
        SAEClassifier("sideways").fit(*small)
