import numpy as np
import pytest
import torch
from tests.folds import make_fold

from hgkt.baselines.psrzsl import PSRZSLClassifier, relation_losses, similar_classes
from hgkt.data import make_synthetic
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=40, n_unseen=5, noise=0.3)


@pytest.fixture(scope="module")
def training(data):
    X, y = data.rows("train")
    return X, y, data.attributes_of(data.seen_classes)


def small(**kwargs):
    defaults = {"n_hidden": 64, "n_steps": 20, "learning_rate": 3e-3, "random_state": 0}
    return PSRZSLClassifier(**{**defaults, **kwargs})


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_relation_losses_equal_a_loop_over_images_and_classes():
    rng = np.random.default_rng(0)
    X, Z, A = rng.random((7, 4)), rng.random((5, 4)), rng.random((5, 3))
    codes = rng.integers(0, 5, 7)
    margins = np.array([[cosine(a, b) for b in A] for a in A])
    similar = similar_classes(margins, 0.3)
    kept, parted = [], []
    for x, own in zip(X, codes, strict=True):
        for other in set(range(5)) - {int(own)}:
            gap = margins[own, other] - cosine(Z[other], x)
            (kept if similar[own, other] else parted).append(
                max(gap, 0.0) if similar[own, other] else max(-gap, 0.0)
            )
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    found = relation_losses(*map(torch.tensor, (unit, codes, Z, margins, similar)))
    assert [value.item() for value in found] == pytest.approx([np.mean(kept), np.mean(parted)])


def test_similar_classes_are_the_share_of_nearest_pairs():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(20, 6))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    cosines = (A @ A.T + (A @ A.T).T) / 2
    similar = similar_classes(cosines, 0.25)
    assert similar.sum() == pytest.approx(0.25 * 380, abs=2)
    others = ~similar & ~np.eye(20, dtype=bool)
    assert cosines[similar].min() > cosines[others].max()
    assert not similar_classes(cosines, 0.0).any()


def test_psrzsl_without_relations_regresses_class_means(training):
    # With the relations and the decoder off only the identity term is left, and few classes can
    # be fitted exactly, but for outputs whose ReLU goes dead on the way to a small target.
    X, y, attributes = training
    few = np.isin(y, np.unique(y)[:3])
    table = {name: attributes[name] for name in np.unique(y[few])}
    model = small(
        n_steps=500, similar_weight=0.0, dissimilar_weight=0.0, decoder_weight=0.0, weight_decay=0.0
    ).fit(X[few], y[few], table)
    means = np.array([X[y == name].mean(axis=0) for name in model.seen_classes_])
    assert np.isclose(model.class_embeddings_, means, atol=0.02).mean() > 0.9


def test_psrzsl_relations_lower_their_violations(training):
    X, y, attributes = training
    names, codes = np.unique(y, return_inverse=True)
    A = np.array([attributes[name] for name in names], dtype=np.float64)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    X = X.astype(np.float64)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)

    def violations(weight):
        model = small(n_steps=100, similar_weight=weight, dissimilar_weight=weight)
        Z = model.fit(X, y, attributes).class_embeddings_
        args = (unit, codes, Z, A @ A.T, similar_classes(A @ A.T, 0.1))
        return sum(relation_losses(*map(torch.tensor, args))).item()

    assert violations(10.0) < 0.8 * violations(0.0)


def test_psrzsl_path_equals_separate_fits(training):
    X, y, attributes = training
    new, X_eval = {"new": np.full(16, 0.4)}, X[:20]
    grid = [{"n_steps": 12}, {"n_steps": 5}, {"n_steps": 5, "dissimilar_weight": 1.0}]
    found = dict(small().score_grid(grid, make_fold(X, y, attributes, new, X_eval)))
    for index, params in enumerate(grid):
        model = small(**params).fit(X, y, attributes).add_classes(new)
        np.testing.assert_allclose(found[index], model.score_classes(X_eval), rtol=1e-13)


def test_psrzsl_solves_synthetic_classes(data, training):
    model = small(n_steps=300).fit(*training)
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.7


def test_psrzsl_refuses_bad_parameters(training):
    with pytest.raises(DataError, match="similar_share must be a number"):
        small(similar_share=1.5).fit(*training)
