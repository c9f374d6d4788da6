"""What the closed form promises whatever its numbers are, seen through the estimator."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt import HGKTClassifier

RNG = np.random.default_rng(0)
COUNTS = [40, 3, 9, 2, 17]
NAMES = [f"c{code}" for code in range(len(COUNTS))]
ATTRIBUTES = dict(zip(NAMES, RNG.normal(size=(len(COUNTS), 4)), strict=True))
CODES = np.repeat(np.arange(len(COUNTS)), COUNTS)
X = 3.0 * RNG.normal(size=(len(COUNTS), 6))[CODES] + RNG.normal(size=(len(CODES), 6))
Y = np.array(NAMES)[CODES]
NEW = {"new": RNG.normal(size=4), "other": RNG.normal(size=4)}


def fit(X=X, attributes=ATTRIBUTES, **parameters):
    model = HGKTClassifier(feature_map="none", attribute_map="none", **parameters)
    return model.fit(X, Y, class_attributes=attributes)


def test_class_embeddings_are_centred_on_the_mean_of_classes_not_of_instances():
    # With next to no ridge an embedding is the class's own mean, less the centre of all classes.
    embeddings = fit(kernel="rbf", ridge=1e-10).class_embeddings_
    scale = np.abs(embeddings).max()
    np.testing.assert_allclose(embeddings.sum(axis=0) / scale, 0.0, atol=1e-6)
    weighted = np.asarray(COUNTS) @ embeddings / sum(COUNTS)
    assert np.abs(weighted).max() > 0.05 * scale  # the mean of the instances lies elsewhere


def test_features_are_centred_on_the_mean_of_classes():
    # A row in the centre of the classes is the origin: its distance to a class is the norm.
    means = np.stack([X[name == Y].mean(axis=0) for name in NAMES])
    model = fit(metric="euclidean", kernel="rbf", ridge=1e-10)
    here, there = model.score_classes(np.stack([means.mean(axis=0), X.mean(axis=0)]))
    norms = (model.class_embeddings_**2).sum(axis=1)
    np.testing.assert_allclose(here, -norms, rtol=1e-5)
    assert not np.allclose(there, -norms, rtol=1e-2)


@pytest.mark.parametrize("weighting", ["count", "uniform"])
def test_the_unit_of_linear_attributes_does_not_matter(weighting):
    # K grows with the square of the attributes, and so must the noise: λ is in units of K.
    plain = fit(kernel="linear", weighting=weighting, ridge=0.3).add_classes(NEW)
    scaled = fit(
        kernel="linear",
        weighting=weighting,
        ridge=0.3,
        attributes={name: 7.0 * vector for name, vector in ATTRIBUTES.items()},
    ).add_classes({name: 7.0 * vector for name, vector in NEW.items()})
    np.testing.assert_allclose(scaled.class_embeddings_, plain.class_embeddings_, rtol=1e-5)


def test_ridge_shrinks_the_embedding_of_an_only_direction_by_a_known_factor():
    # One attribute, a single non-zero class: z = k v / (k + λ k̄) with k̄ = k / 2 (two classes).
    rows = np.array([[2.0, 0.0], [2.0, 0.2], [0.0, 2.0], [0.2, 2.0]])
    table = {"a": [3.0], "b": [0.0]}
    embeddings = [
        HGKTClassifier(
            feature_map="none", attribute_map="none", kernel="linear", shrinkage=1.0, ridge=ridge
        )
        .fit(rows, ["a", "a", "b", "b"], class_attributes=table)
        .class_embeddings_[0]
        for ridge in (1e-12, 1.0)
    ]
    np.testing.assert_allclose(embeddings[1], embeddings[0] / 1.5, rtol=1e-6)
