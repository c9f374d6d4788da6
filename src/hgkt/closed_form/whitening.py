"""Rows and class means in a few metrics of one feature map, by the cheaper decomposition.

The eigenvectors of the scatter serve every shrinkage. A Cholesky factor serves one, at a tenth of
the price: where few shrinkages are asked for, as in a mixture, each has a factor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt.closed_form.metric import WithinClassSpectrum, oracle_shrinkage, rounding
from hgkt.statistics import Statistics

Shrinkage = float | str

_FEW = 3  # shrinkages
_LEAST = 1e-3  # shrinkage of which the factor needs no floor under the eigenvalues


def whitened(
    statistics: Statistics,
    rows: NDArray[Any],
    shrinkages: Sequence[Shrinkage],
) -> Iterator[tuple[Shrinkage, NDArray[Any], NDArray[Any]]]:
    """Yield each shrinkage, the rows (n, D) and the class means (L, D) in its metric.

    Both are relative to the mean of the class means. The axes differ from one decomposition to
    another; inner products do not.

    Parameters
    ----------
    statistics : Statistics
        Of the rows that the metric is learned from.
    rows : ndarray of shape (n, D)
        Mapped features to score; float32 has the scatter decomposed in float32.
    shrinkages : sequence of float or "oas"
        Shares of the identity in the within-class scatter.

    Examples
    --------
    >>> from hgkt.statistics import ClassStatistics
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 4.0], [4.0, 8.0]])
    >>> statistics = ClassStatistics(2, 2).update(X, np.array([0, 0, 1, 1]))
    >>> _, rows, means = next(whitened(statistics, X, [0.5]))
    >>> np.round(rows[0] @ means.T, 3)
    array([ 8.132, -8.132])
    """
    scatter = statistics.within_scatter / max(statistics.n_instances, 1)
    values = _values(statistics, scatter, shrinkages)
    exact = rows.dtype == np.float64
    if exact and len(values) <= _FEW and min(values) >= _LEAST and _varies(statistics, scatter):
        yield from _by_factors(statistics, scatter, rows, shrinkages, values)
    else:
        yield from _by_spectrum(statistics, scatter, rows, shrinkages)


def _by_factors(
    statistics: Statistics,
    scatter: NDArray[np.float64],
    rows: NDArray[np.float64],
    shrinkages: Sequence[Shrinkage],
    values: Sequence[float],
) -> Iterator[tuple[Shrinkage, NDArray[Any], NDArray[Any]]]:
    means, present = statistics.means, statistics.counts > 0
    center = means[present].mean(axis=0)
    both = np.concatenate([rows, means]) - center
    level = np.trace(scatter) / statistics.n_features
    for shrinkage, value in zip(shrinkages, values, strict=True):
        shrunk = (1.0 - value) * scatter
        shrunk[np.diag_indices_from(shrunk)] += value * level
        factor = scipy.linalg.cholesky(shrunk, lower=True, overwrite_a=True, check_finite=False)
        solved = scipy.linalg.solve_triangular(factor, both.T, lower=True, check_finite=False).T
        yield shrinkage, solved[: len(rows)], solved[len(rows) :]


def _by_spectrum(
    statistics: Statistics,
    scatter: NDArray[np.float64],
    rows: NDArray[Any],
    shrinkages: Sequence[Shrinkage],
) -> Iterator[tuple[Shrinkage, NDArray[Any], NDArray[Any]]]:
    spectrum = _spectrum(statistics, scatter, rows.dtype)
    features = (rows - spectrum.center.astype(rows.dtype)) @ spectrum.basis.astype(rows.dtype)
    means = ((statistics.means - spectrum.center) @ spectrum.basis).astype(rows.dtype)
    for shrinkage in shrinkages:
        value = spectrum.oracle_shrinkage() if isinstance(shrinkage, str) else shrinkage
        scale = (1.0 / np.sqrt(spectrum.shrunk(value))).astype(rows.dtype)
        yield shrinkage, features * scale, means * scale


def _spectrum(
    statistics: Statistics, scatter: NDArray[np.float64], dtype: Any
) -> WithinClassSpectrum:
    if dtype == np.float64:
        return WithinClassSpectrum.of(statistics)
    values, basis = scipy.linalg.eigh(scatter.astype(np.float32), driver="evd")
    center = statistics.means[statistics.counts > 0].mean(axis=0)
    clipped = np.maximum(values.astype(np.float64), 0.0)
    return WithinClassSpectrum(
        center, clipped, basis, statistics.n_instances, statistics.n_features
    )


def _values(
    statistics: Statistics, scatter: NDArray[np.float64], shrinkages: Sequence[Shrinkage]
) -> list[float]:
    n_features = statistics.n_features

    def oracle() -> float:
        mean, squares = np.trace(scatter) / n_features, np.vdot(scatter, scatter)
        return oracle_shrinkage(float(mean), float(squares), n_features, statistics.n_instances)

    return [oracle() if isinstance(s, str) else float(s) for s in shrinkages]


def _varies(statistics: Statistics, scatter: NDArray[np.float64]) -> bool:
    """Whether rows of a class differ by more than rounding; else the metric is the identity."""
    n_instances = statistics.n_instances
    return float(np.trace(scatter)) * n_instances > rounding(statistics)
