"""The Gaussian process over classes, against scikit-learn's and against models without a class."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from hgkt.closed_form import ClosedFormTransfer, Ensemble, KernelSettings, Member
from hgkt.closed_form.kernels import KERNELS, ClassKernel
from hgkt.closed_form.posterior import ClassPosterior, dual_coefficients

RNG = np.random.default_rng(0)
ATTRIBUTES, NEW = RNG.random((9, 4)), RNG.random((5, 4))
MEANS = RNG.normal(size=(9, 6))
NOISES = np.array([0.02, 0.3])[:, None] * RNG.uniform(0.5, 2.0, size=9)
EVERY_NOISE = pytest.mark.parametrize("noise", NOISES, ids=["little noise", "much noise"])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def process(noise, rows):
    """scikit-learn's process with the RBF kernel of all nine classes, fitted on some of them."""
    median = np.median(pdist(unit(ATTRIBUTES), "sqeuclidean"))
    kernel = RBF(np.sqrt(median / 2.0), "fixed")
    model = GaussianProcessRegressor(kernel, alpha=noise[rows], optimizer=None)
    return model.fit(unit(ATTRIBUTES)[rows], MEANS[rows])


@pytest.fixture
def kernel():
    return ClassKernel(KernelSettings("rbf")).fit(ATTRIBUTES)


@EVERY_NOISE
def test_variance_and_mean_are_those_of_scikit_learn(kernel, noise):
    posterior = ClassPosterior(kernel.seen, noise)
    mean, deviation = process(noise, np.arange(9)).predict(unit(NEW), return_std=True)
    rows = kernel(NEW)
    variance = posterior.variance(rows, kernel.own(NEW))
    np.testing.assert_allclose(variance, deviation[:, 0] ** 2, atol=1e-9)
    np.testing.assert_allclose(posterior.weights(rows) @ MEANS, mean, atol=1e-9)


@EVERY_NOISE
def test_a_class_left_out_is_predicted_as_by_a_fit_without_it(kernel, noise):
    posterior = ClassPosterior(kernel.seen, noise)
    variances = posterior.left_out_variance()
    for own in range(9):
        others = np.delete(np.arange(9), own)
        row = unit(ATTRIBUTES)[own : own + 1]
        mean, deviation = process(noise, others).predict(row, return_std=True)
        weights = posterior.weights_without(np.array([own]))[own]
        np.testing.assert_allclose(weights @ MEANS, mean[0], atol=1e-9)
        assert variances[own] == pytest.approx(deviation[0, 0] ** 2, abs=1e-9)


@EVERY_NOISE
def test_classes_left_out_together_are_predicted_as_by_a_fit_without_them(kernel, noise):
    posterior = ClassPosterior(kernel.seen, noise)
    held_out = np.array([1, 4, 5])
    kept = np.setdiff1d(np.arange(9), held_out)
    weights = posterior.weights_without(held_out)
    mean, deviation = process(noise, kept).predict(unit(ATTRIBUTES), return_std=True)
    np.testing.assert_allclose(weights @ MEANS, mean, atol=1e-9)
    assert not weights[:, held_out].any()
    variance = posterior.variance_of(weights)
    np.testing.assert_allclose(variance, deviation[:, 0] ** 2, atol=1e-9)


@EVERY_NOISE
def test_own_weights_are_how_far_an_embedding_moves_with_its_mean(kernel, noise):
    posterior = ClassPosterior(kernel.seen, noise)
    whole = posterior.weights(kernel.seen)
    np.testing.assert_allclose(posterior.own_weights(), np.diag(whole), atol=1e-12)
    moved = MEANS + 2.0 * np.eye(9)[:, [3]]
    change = process(noise, np.arange(9)).fit(unit(ATTRIBUTES), moved).predict(unit(ATTRIBUTES))
    change -= process(noise, np.arange(9)).predict(unit(ATTRIBUTES))
    assert change[3, 0] == pytest.approx(2.0 * posterior.own_weights()[3], abs=1e-9)


@pytest.mark.parametrize("kind", KERNELS)
def test_own_kernel_value_is_the_kernel_of_a_class_with_itself(kind):
    settings = KernelSettings(kind, 0.5, "sqrt+l2", block_weights=(3.0, 1.0))
    kernel = ClassKernel(settings, blocks=[1, 3]).fit(np.concatenate([ATTRIBUTES, NEW]))
    if kind != "knn":  # a seen class's own value was lifted there
        np.testing.assert_allclose(kernel.own(NEW), np.diag(kernel.seen)[9:])
    assert (kernel.own(NEW) >= kernel(NEW).max(axis=1) - 1e-9).all()


def test_a_fitted_closed_form_predicts_a_class_left_out_like_one_that_never_saw_it():
    """Only the metric, the centre and the median distance still know the class."""
    rng = np.random.default_rng(3)
    attributes = rng.random((20, 5))
    means = np.exp(attributes @ rng.random((5, 12)))
    codes = np.repeat(np.arange(20), 12)
    X = np.maximum(means[codes] + 0.3 * rng.normal(size=(240, 12)), 0.0)
    members = (Member(ridge=0.01, observed=True), Member("l2", ridge=0.1, weight=2.0))
    settings = Ensemble(members, device="cpu")
    full = ClosedFormTransfer(settings)
    full.fit(X, codes, attributes)
    for own in (0, 7):
        vectors = [rows[own : own + 1] for rows in full.vectors_without(np.array([own]))]
        held_out = full.join(vectors, attributes[own : own + 1])
        rows = codes != own
        small = ClosedFormTransfer(settings)
        small.fit(X[rows], codes[rows] - (codes[rows] > own), np.delete(attributes, own, axis=0))
        scores = small.score_mapped(small.features(X), small.embed(attributes[own : own + 1]))
        again = full.score_mapped(full.features(X), held_out)
        assert np.corrcoef(scores[:, 0], again[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize("n_features", [2, 9])
def test_dual_is_the_inverse_times_the_means_whichever_is_cheaper(n_features):
    rng = np.random.default_rng(0)
    rows = rng.random((5, 3))
    noise, means = rng.random(5) + 0.1, rng.random((5, n_features))
    found = ClassPosterior(rows @ rows.T, noise).dual(means)
    expected = np.linalg.inv(rows @ rows.T + np.diag(noise)) @ means
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_kernel_is_solved_for_several_noises_at_once_on_a_device():
    torch = pytest.importorskip("torch")
    rows, targets = RNG.random((9, 3)), RNG.random((9, 4))
    kernel = rows @ rows.T
    found = dual_coefficients(*(torch.tensor(part) for part in (kernel, NOISES, targets)))
    for noise, alpha in zip(NOISES, found.numpy(), strict=True):
        np.testing.assert_allclose(alpha, dual_coefficients(kernel, noise, targets), rtol=1e-9)
