"""Attribute relevance against scikit-learn's Gaussian process and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from hgkt.closed_form.relevance import attribute_relevance, is_learnable, likelihood_gradient

RNG = np.random.default_rng(0)
ATTRIBUTES = RNG.random((40, 5))
MEANS = np.stack([np.sin(4 * ATTRIBUTES[:, 0]), ATTRIBUTES[:, 0] * ATTRIBUTES[:, 2]], axis=1)
MEANS = MEANS - MEANS.mean(axis=0)
NOISE = np.full(40, 0.05)


def loss(weights):
    """The negative log marginal likelihood, the variance profiled out, by scikit-learn."""
    kernel = RBF(length_scale=1.0 / np.sqrt(2.0 * weights), length_scale_bounds="fixed")
    total = 0.0
    process = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None)
    covariance = kernel(ATTRIBUTES) + np.diag(NOISE)
    scale = np.sqrt(np.trace(np.linalg.solve(covariance, MEANS @ MEANS.T)) / len(NOISE) / 2)
    for column in (MEANS / scale).T:
        total -= process.fit(ATTRIBUTES, column).log_marginal_likelihood_value_
    return total + len(NOISE) * 2 * np.log(scale)


def test_gradient_is_that_of_the_marginal_likelihood():
    weights = np.array([2.0, 1.0, 0.5, 1.5, 0.7])
    found = likelihood_gradient(weights, ATTRIBUTES, MEANS @ MEANS.T / 2, NOISE)
    step = 1e-5
    numeric = [
        (loss(weights + step * e) - loss(weights - step * e)) / (2 * step) for e in np.eye(5)
    ]
    np.testing.assert_allclose(2 * found, numeric, rtol=1e-4, atol=1e-6)


def test_the_gradient_on_a_device_is_the_same():
    torch = pytest.importorskip("torch")
    weights, parts = np.array([2.0, 1.0, 0.5, 1.5, 0.7]), (ATTRIBUTES, MEANS @ MEANS.T, NOISE)
    there = likelihood_gradient(weights, *map(torch.tensor, parts))
    np.testing.assert_allclose(there.numpy(), likelihood_gradient(weights, *parts))
    np.testing.assert_allclose(attribute_relevance(*parts, "cpu"), attribute_relevance(*parts))


def test_relevance_finds_the_attributes_that_matter_and_raises_the_likelihood():
    weights = attribute_relevance(ATTRIBUTES, MEANS @ MEANS.T, NOISE)
    assert set(np.argsort(-weights)[:2]) == {0, 2}
    assert weights.mean() == pytest.approx(1.0)
    assert (weights > 0).all()
    squared = ((ATTRIBUTES[:, None] - ATTRIBUTES) ** 2).sum(axis=2)
    median = np.median(squared[np.triu_indices(40, 1)])
    assert loss(weights / median) < loss(np.ones(5) / median)


def test_relevance_of_equal_classes_is_finite():
    weights = attribute_relevance(np.ones((25, 3)), np.eye(25), np.full(25, 0.03))
    assert np.isfinite(weights).all()


@pytest.mark.parametrize(
    ("n_classes", "n_attributes", "enough"),
    [(20, 80, True), (19, 5, False), (20, 81, False), (150, 312, True)],
)
def test_relevance_needs_classes_enough(n_classes, n_attributes, enough):
    assert is_learnable(n_classes, n_attributes) is enough
