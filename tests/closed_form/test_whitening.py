"""Factors and eigenvectors bring rows into the same metrics."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.closed_form.metric import WithinClassSpectrum, whitened
from hgkt.statistics import ClassStatistics


def make(n_rows=60, n_classes=5, width=12, seed=0):
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
    statistics, rows = make(width=width)
    shrinkages = [0.3, 0.9, "oas", 1.0]  # four: one decomposition serves them all
    together = products(statistics, rows, shrinkages)
    assert list(together) == shrinkages
    for shrinkage in shrinkages:
        alone = products(statistics, rows, [shrinkage])[shrinkage]
        for one, other in zip(alone, together[shrinkage], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 1e-6])
def test_hardly_any_shrinkage_keeps_the_floor_under_the_eigenvalues(shrinkage):
    statistics, rows = make(width=90)  # the scatter has no inverse
    cross, _, _ = products(statistics, rows, [shrinkage])[shrinkage]
    spectrum = WithinClassSpectrum.of(statistics)
    projected = [
        (part - spectrum.center) @ spectrum.projection(shrinkage)
        for part in (rows, statistics.means)
    ]
    np.testing.assert_allclose(cross, projected[0] @ projected[1].T, rtol=1e-9)


def test_one_row_per_class_has_the_euclidean_metric():
    statistics, rows = make(n_rows=5)
    cross, _, _ = products(statistics, rows, [0.5])[0.5]
    center = statistics.means.mean(axis=0)
    np.testing.assert_allclose(cross, (rows - center) @ (statistics.means - center).T)
