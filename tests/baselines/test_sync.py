"""SynC's classifiers against another solver, phantoms against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.spatial.distance import cdist
from sklearn.svm import LinearSVC
from tests.folds import make_fold

from hgkt.baselines.sync import SeenObjective, SynCClassifier
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import ClassWarning, DataError


def overlapping(n_rows=120, n_classes=5, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_classes, n_features))[codes] + rng.normal(size=(n_rows, n_features))
    attributes = dict(enumerate(rng.random((n_classes, 4))))
    return X, codes, attributes


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def invertible(**params):
    """δ = 4 keeps S well conditioned: seen embeddings are the trained classifiers."""
    return SynCClassifier(similarity_scale=4.0, tol=0.0, **params)


def test_objective_gradient_matches_finite_differences():
    X, codes, _ = overlapping(n_rows=30)
    function = SeenObjective(X, codes, 5, 0.01)
    point = np.random.default_rng(1).normal(size=30)
    assert check_grad(lambda w: function(w)[0], lambda w: function(w)[1], point) < 1e-5


@pytest.mark.parametrize("regularization", [2.0**-6, 2.0**-12])
def test_ovo_classifiers_match_liblinear(regularization):
    X, codes, attributes = overlapping()
    model = invertible(regularization=regularization).fit(X, codes, attributes)
    C = 1.0 / (len(X) * 5 * regularization)
    for c in range(5):
        svm = LinearSVC(C=C, fit_intercept=False, tol=1e-10, max_iter=100_000, dual=False)
        svm.fit(unit(X), codes == c)
        np.testing.assert_allclose(model.class_embeddings_[c], svm.coef_[0], rtol=1e-3, atol=1e-4)


def test_phantoms_mix_to_classifiers_by_their_definition():
    X, codes, attributes = overlapping()
    model = SynCClassifier(similarity_scale=0.7).fit(X, codes, attributes)
    new = np.random.default_rng(5).random((2, 4))
    with pytest.warns(ClassWarning, match="12 is described like class 3"):
        model.add_classes({10: new[0], 11: new[1], 12: attributes[3]})
    vectors = unit(np.array(list(attributes.values())))
    scale = np.median([np.linalg.norm(a - b) for i, a in enumerate(vectors) for b in vectors[:i]])
    assert model.attribute_unit_ == pytest.approx(scale)
    weights = np.exp(-0.7 * cdist(unit(new), vectors, "sqeuclidean") / scale**2)
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.class_embeddings_[5:7], weights @ model.phantoms_, rtol=1e-9)
    # A class with the attributes of a seen one gets its classifier.
    np.testing.assert_allclose(model.class_embeddings_[7], model.class_embeddings_[3], rtol=1e-9)


def test_large_similarity_scale_copies_the_nearest_seen_class():
    X, codes, attributes = overlapping()
    model = SynCClassifier(similarity_scale=1e4).fit(X, codes, attributes)
    model.add_classes({9: attributes[2] + 0.001})
    np.testing.assert_allclose(model.class_embeddings_[5], model.class_embeddings_[2], rtol=1e-6)


def test_scores_ignore_the_length_of_features_and_turn_with_them():
    X, codes, attributes = overlapping()
    rng = np.random.default_rng(2)
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    lengths = rng.uniform(0.1, 10.0, (len(X), 1))
    plain = SynCClassifier(tol=1e-13).fit(X, codes, attributes)
    turned = SynCClassifier(tol=1e-13).fit(lengths * X @ rotation, codes, attributes)
    np.testing.assert_allclose(
        turned.score_classes(X @ rotation), plain.score_classes(X), atol=1e-4
    )


def test_score_grid_equals_separate_fits_and_trains_once_a_regularization():
    X, codes, attributes = overlapping()
    new, starts = {7: np.full(4, 0.5)}, []
    grid = [
        {"regularization": r, "similarity_scale": s} for s in (0.5, 2.0, 8.0) for r in (1e-2, 1e-4)
    ]

    def count(stage, done, total, values):
        if stage == "train" and done == 1:
            starts.append(total)

    scored = SynCClassifier().score_grid(
        grid, make_fold(X, codes, attributes, new, X[:9]), progress=count
    )
    results = dict(scored)
    assert len(results) == 6
    assert len(starts) == 2
    for index, params in enumerate(grid):
        model = SynCClassifier(**params).fit(X, codes, attributes).add_classes(new)
        np.testing.assert_allclose(results[index], model.score_classes(X[:9]), atol=1e-12)


def test_sync_recognises_unseen_classes(tmp_path):
    data = make_synthetic(n_instances=1500, n_seen=30, n_unseen=6, n_attributes=8)
    X, y = data.rows("train")
    model = SynCClassifier(regularization=2.0**-10, n_iterations=100)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X_unseen, y_unseen = data.rows("test_unseen")
    assert (model.predict(X_unseen, among="unseen") == y_unseen).mean() > 0.8
    loaded = load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score_classes(X[:50]), model.score_classes(X[:50]))


@pytest.mark.parametrize("params", [{"regularization": 0.0}, {"similarity_scale": -1.0}])
def test_sync_refuses_parameters_out_of_range(params):
    X, codes, attributes = overlapping()
    with pytest.raises(DataError, match=f"{next(iter(params))} must be"):
        SynCClassifier(**params).fit(X, codes, attributes)
