from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from sklearn.covariance import oas
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from hgkt._arrays import distance_scores, map_rows, normalised_scores, torch_device
from hgkt.closed_form.metric import WithinClassSpectrum, whitened
from hgkt.closed_form.posterior import dual_coefficients
from hgkt.closed_form.transfer import gather
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics


def make(n=200, n_features=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * rng.uniform(0.5, 2, n_features)
    codes = rng.integers(0, n_classes, n)
    return X, codes, ClassStatistics(n_classes, n_features).update(X, codes)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_projection_gives_the_metric_of_the_inverse_square_root(shrinkage):
    _, _, stats = make()
    scatter = stats.within_scatter / stats.n_instances
    shrunk = (1 - shrinkage) * scatter + shrinkage * np.trace(scatter) / 6 * np.eye(6)
    whitening = np.linalg.inv(sqrtm(shrunk).real)
    projection = WithinClassSpectrum.of(stats).projection(shrinkage)
    np.testing.assert_allclose(projection @ projection.T, whitening @ whitening, atol=1e-10)


def test_oracle_shrinkage_matches_scikit_learn():
    X, codes, stats = make()
    residuals = X - stats.means[codes]
    _, expected = oas(residuals, assume_centered=True)
    assert WithinClassSpectrum.of(stats).oracle_shrinkage() == pytest.approx(expected, rel=1e-9)


def test_spectrum_of_one_instance_a_class_leaves_the_euclidean_metric():
    X = np.eye(3)
    spectrum = WithinClassSpectrum.of(ClassStatistics(3, 3).update(X, np.arange(3)))
    projection = spectrum.projection(0.5)
    np.testing.assert_allclose(projection @ projection.T, np.eye(3), atol=1e-12)


def test_spectrum_with_constant_channel_and_no_shrinkage_is_finite():
    X, codes, _ = make()
    X[:, 2] = 5.0
    spectrum = WithinClassSpectrum.of(ClassStatistics(4, 6).update(X, codes))
    assert np.isfinite(spectrum.projection(0.0)).all()


def test_transfer_is_the_posterior_mean_of_a_gaussian_process():
    rng = np.random.default_rng(1)
    attributes, targets, new = rng.random((8, 3)), rng.normal(size=(8, 2)), rng.random((5, 3))
    noise = rng.uniform(0.01, 0.2, 8)
    process = GaussianProcessRegressor(RBF(0.7), alpha=noise, optimizer=None).fit(
        attributes, targets
    )
    gram = np.exp(-cdist(attributes, attributes, "sqeuclidean") / (2 * 0.49))
    rows = np.exp(-cdist(new, attributes, "sqeuclidean") / (2 * 0.49))
    ours = rows @ dual_coefficients(gram, noise, targets)
    np.testing.assert_allclose(ours, process.predict(new), atol=1e-8)


def test_scores_match_scipy_distances():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(9, 5)), rng.normal(size=(4, 5))
    np.testing.assert_allclose(distance_scores(X, Z), -cdist(X, Z, "sqeuclidean"), atol=1e-12)
    np.testing.assert_allclose(normalised_scores(X, Z, 1.0), 1 - cdist(X, Z, "cosine"), atol=1e-12)


def test_norm_power_takes_score_from_long_embeddings_only():
    x, z = np.array([[1.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(normalised_scores(x, z, 1.5), [[2**-0.5, 1.0]])


def test_scores_of_zero_rows_are_finite():
    scores = normalised_scores(np.zeros((1, 3)), np.zeros((2, 3)), 1.2)
    np.testing.assert_array_equal(scores, np.zeros((1, 2)))


def test_torch_path_equals_numpy_path():
    X, codes, _ = make()
    for kind in ("none", "l2", "sqrt+l2", 0.3):
        ours = ClassStatistics(4, 6).update(map_rows(X, kind), codes)
        theirs = gather(X, codes, 4, kind, "cpu")
        np.testing.assert_allclose(theirs.sums, ours.sums, atol=1e-12)
        np.testing.assert_allclose(theirs.second_moment, ours.second_moment, atol=1e-10)
    spectrum = WithinClassSpectrum.of(ours, "cpu")
    rebuilt = (spectrum.basis * spectrum.eigenvalues) @ spectrum.basis.T
    np.testing.assert_allclose(rebuilt * ours.n_instances, ours.within_scatter, atol=1e-10)


def test_torch_device_refuses_what_is_not_there():
    assert torch_device("cpu") == "cpu"
    with pytest.raises(DataError, match="device must be one of"):
        torch_device("tpu")
    import torch

    if not torch.cuda.is_available():
        assert torch_device("auto") == "cpu"
        with pytest.raises(DataError, match="finds no CUDA device"):
            torch_device("cuda")


# ------------------------------------------------------------------ rows in a metric
def make_statistics(n_rows=60, n_classes=5, width=12, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_classes, width))[codes] + rng.normal(size=(n_rows, width))
    return ClassStatistics(n_classes, width).update(X, codes), rng.normal(size=(7, width))


def products(statistics, rows, shrinkages):
    """Inner products in each metric, whose axes may differ."""
    return {
        shrinkage: (own @ means.T, means @ means.T, (own**2).sum(axis=1))
        for shrinkage, own, means in whitened(statistics, rows, shrinkages)
    }


@pytest.mark.parametrize("width", [12, 90])  # fewer rows than features, too
def test_a_factor_gives_the_inner_products_of_the_eigenvectors(width):
    statistics, rows = make_statistics(width=width)
    shrinkages = [0.3, 0.9, "oas", 1.0]  # four: one decomposition serves them all
    together = products(statistics, rows, shrinkages)
    assert list(together) == shrinkages
    for shrinkage in shrinkages:
        alone = products(statistics, rows, [shrinkage])[shrinkage]
        for one, other in zip(alone, together[shrinkage], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 1e-6])
def test_hardly_any_shrinkage_keeps_the_floor_under_the_eigenvalues(shrinkage):
    statistics, rows = make_statistics(width=90)  # the scatter has no inverse
    cross, _, _ = products(statistics, rows, [shrinkage])[shrinkage]
    spectrum = WithinClassSpectrum.of(statistics)
    projected = [
        (part - spectrum.center) @ spectrum.projection(shrinkage)
        for part in (rows, statistics.means)
    ]
    np.testing.assert_allclose(cross, projected[0] @ projected[1].T, rtol=1e-9)


def test_one_row_per_class_has_the_euclidean_metric():
    statistics, rows = make_statistics(n_rows=5)
    cross, _, _ = products(statistics, rows, [0.5])[0.5]
    center = statistics.means.mean(axis=0)
    np.testing.assert_allclose(cross, (rows - center) @ (statistics.means - center).T)
