import numpy as np
import pytest
from scipy.optimize import minimize
from tests.folds import make_fold

from hgkt.baselines.eszsl import ESZSLClassifier
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [4, 2, 1])
    X = rng.normal(size=(7, 4))
    attributes = dict(zip("abc", rng.normal(size=(3, 2)), strict=True))
    return X, y, attributes


def one_hot(y):
    return (y[:, None] == np.unique(y)).astype(float)


@pytest.mark.parametrize("coding", ["binary", "signed"])
def test_eszsl_weights_minimise_the_published_loss(small, coding):
    X, y, attributes = small
    gamma, lam = 0.7, 0.3
    A = np.array([attributes[name] for name in "abc"])
    Y = one_hot(y) if coding == "binary" else 2 * one_hot(y) - 1

    def loss(flat):
        V = flat.reshape(4, 2)
        terms = (X @ V @ A.T - Y, gamma**0.5 * V @ A.T, lam**0.5 * X @ V, (gamma * lam) ** 0.5 * V)
        return sum((term**2).sum() for term in terms)

    model = ESZSLClassifier(gamma, lam, coding, attribute_map="none")
    model.fit(X, y, class_attributes=attributes)
    best = minimize(loss, np.zeros(8), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(model.weights_.ravel(), best.x, atol=1e-5)
    np.testing.assert_allclose(model.score_classes(X), X @ best.x.reshape(4, 2) @ A.T, atol=1e-4)


def test_eszsl_scores_follow_a_rotation_of_the_features(small):
    X, y, attributes = small
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    plain = ESZSLClassifier(2.0).fit(X, y, class_attributes=attributes)
    turned = ESZSLClassifier(2.0).fit(X @ rotation, y, class_attributes=attributes)
    np.testing.assert_allclose(turned.score_classes(X @ rotation), plain.score_classes(X))


def test_eszsl_normalised_attributes_ignore_their_length(small):
    X, y, attributes = small
    longer = {name: 5.0 * row for name, row in attributes.items()}
    new, longer_new = {"d": [1.0, 1.0]}, {"d": [9.0, 9.0]}
    scores = ESZSLClassifier().fit(X, y, attributes).add_classes(new).score_classes(X)
    other = ESZSLClassifier().fit(X, y, longer).add_classes(longer_new).score_classes(X)
    np.testing.assert_allclose(scores, other)


def test_eszsl_grid_equals_separate_fits(small):
    X, y, attributes = small
    new, X_eval = {"d": [0.3, -1.0], "e": [1.0, 0.2]}, X[::-1] + 0.1
    grid = [{"feature_ridge": g, "attribute_ridge": r} for g in (0.1, 10.0) for r in (0.5, 2.0)]
    grid += [{"label_coding": "signed", "feature_ridge": 3.0}, {}]
    base = ESZSLClassifier()
    found = dict(base.score_grid(grid, make_fold(X, y, attributes, new, X_eval)))
    assert sorted(found) == list(range(len(grid)))
    for index, params in enumerate(grid):
        model = ESZSLClassifier(**params).fit(X, y, attributes).add_classes(new)
        np.testing.assert_allclose(found[index], model.score_classes(X_eval), rtol=1e-9)
    assert not hasattr(base, "weights_")


def test_eszsl_solves_synthetic_classes():
    data = make_synthetic(n_seen=40, n_unseen=5, noise=0.3)
    X, y = data.rows("train")
    model = ESZSLClassifier(1.0, 0.1).fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.7


def test_eszsl_saved_model_scores_and_grows_alike(small, tmp_path):
    X, y, attributes = small
    model = ESZSLClassifier().fit(X, y, attributes)
    model.save(tmp_path / "m")
    loaded, new = load_model(tmp_path / "m"), {"d": [0.4, 0.6]}
    loaded.add_classes(new)
    np.testing.assert_array_equal(loaded.score_classes(X), model.add_classes(new).score_classes(X))


def test_eszsl_refuses_bad_parameters(small):
    with pytest.raises(DataError, match="feature_ridge must be"):
        ESZSLClassifier(feature_ridge=0.0).fit(*small)
    with pytest.raises(DataError, match="label_coding must be one of"):
        ESZSLClassifier(label_coding="odd").fit(*small)
