"""The intra-class relation in closed form: the metric that the inside of classes asks for.

The complete graph inside a class with edge weights 1/N_c has the within-class scatter S_w as its
Laplacian form; shrunk and inverted it is the metric of the visual space,
W = ((1−s)·S_w + s·tr(S_w)/D·I)^(−1/2).

The eigenvectors of the scatter serve every shrinkage s. A Cholesky factor serves one, at a tenth
of the price: where few shrinkages are asked for, each has a factor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import array_module, is_tensor, put, put_like, to_numpy
from hgkt.statistics import Statistics

Shrinkage = float | str

_RELATIVE_FLOOR = 1e-10
_ROUNDING = 1e-15
_FEW_SHRINKAGES = 3
_LEAST_SHRINKAGE = 1e-3  # of which a factor needs no floor under the eigenvalues


@dataclass(frozen=True)
class WithinClassSpectrum:
    """Eigendecomposition of the within-class scatter: one serves every shrinkage.

    Attributes
    ----------
    center : ndarray of shape (D,)
        m, the mean of the class means.
    eigenvalues : ndarray of shape (D,)
    basis : ndarray of shape (D, D)
        Eigenvectors in columns.
    n_instances : int
        Number of instances behind the scatter.
    n_features : int, optional
        D; by default the number of eigenvalues. Statistics on the small side have fewer axes, and
        along those that are left out the scatter is zero.
    """

    center: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    basis: NDArray[np.float64]
    n_instances: int
    n_features: int | None = None

    @classmethod
    def of(
        cls, statistics: Statistics, device: str | None = None, dtype: Any = np.float64
    ) -> WithinClassSpectrum:
        """Decompose the scatter that `statistics` hold, on a torch device or by NumPy."""
        scatter = put(mean_scatter(statistics), dtype, device)
        if device is None:
            eigenvalues, basis = scipy.linalg.eigh(scatter, driver="evd")
        else:
            eigenvalues, basis = map(to_numpy, array_module(scatter).linalg.eigh(scatter))
        eigenvalues = np.maximum(eigenvalues.astype(np.float64), 0.0)
        if eigenvalues.sum() * statistics.n_instances <= rounding(statistics):
            eigenvalues = np.zeros_like(eigenvalues)
        sizes = statistics.n_instances, statistics.n_features
        return cls(common_mean(statistics), eigenvalues, basis, *sizes)

    def shrunk(self, shrinkage: float) -> NDArray[np.float64]:
        """Return the eigenvalues (D,) of (1−s)·S_w + s·tr(S_w)/D·I, none of them zero."""
        mean = self.eigenvalues.sum() / self._width
        if mean == 0.0:  # one instance per class: nothing is known of the inside of classes
            return np.ones_like(self.eigenvalues)
        shrunk = (1.0 - shrinkage) * self.eigenvalues + shrinkage * mean
        result: NDArray[np.float64] = np.maximum(shrunk, _RELATIVE_FLOOR * self.eigenvalues.max())
        return result

    def projection(self, shrinkage: float) -> NDArray[np.float64]:
        """Return P (D, D) with P Pᵀ = W²: inner products of rows of X P are those of X W."""
        return self.basis / np.sqrt(self.shrunk(shrinkage))

    def value_of(self, shrinkage: Shrinkage) -> float:
        """Return a shrinkage as a number; "oas" is the oracle approximating one."""
        return self.oracle_shrinkage() if isinstance(shrinkage, str) else float(shrinkage)

    def oracle_shrinkage(self) -> float:
        """Return the oracle approximating shrinkage (Chen et al., 2010) of the scatter.

        Examples
        --------
        >>> from hgkt.statistics import ClassStatistics
        >>> rng = np.random.default_rng(0)
        >>> stats = ClassStatistics(1, 3).update(rng.normal(size=(50, 3)), np.zeros(50, int))
        >>> 0 < WithinClassSpectrum.of(stats).oracle_shrinkage() < 1
        True
        """
        squares = float((self.eigenvalues**2).sum())
        mean = float(self.eigenvalues.sum() / self._width)
        return oracle_shrinkage(mean, squares, self._width, self.n_instances)

    @property
    def _width(self) -> int:
        return len(self.eigenvalues) if self.n_features is None else self.n_features


def mean_scatter(statistics: Statistics) -> NDArray[np.float64]:
    """Return S_w (D, D): the within-class scatter per instance."""
    return statistics.within_scatter / max(statistics.n_instances, 1)


def common_mean(statistics: Statistics) -> NDArray[np.float64]:
    """Return m (D,), the mean of the means of classes that have instances."""
    result: NDArray[np.float64] = statistics.means[statistics.counts > 0].mean(axis=0)
    return result


def rounding(statistics: Statistics) -> float:
    """Return up to where the trace of the within-class scatter is rounding and not scatter.

    Where no class has two instances there is none, whatever is left of the difference of sums.
    """
    if statistics.n_instances <= int((statistics.counts > 0).sum()):
        return float(np.inf)
    return _ROUNDING * float(np.trace(statistics.second_moment))


def oracle_shrinkage(mean: float, squares: float, n_features: int, n_instances: int) -> float:
    """Return the oracle approximating shrinkage from the eigenvalues' mean and sum of squares."""
    mean_square, squared_mean = squares / n_features**2, mean**2
    denominator = (n_instances + 1.0) * (mean_square - squared_mean / n_features)
    return 1.0 if denominator <= 0 else min((mean_square + squared_mean) / denominator, 1.0)


def whitened(
    statistics: Statistics, rows: Any, shrinkages: Sequence[Shrinkage]
) -> Iterator[tuple[Shrinkage, Any, Any]]:
    """Yield each shrinkage, the rows (n, D) and the class means (L, D) in its metric.

    Both are relative to the mean of the class means. The axes differ from one decomposition to
    another; inner products do not.

    Parameters
    ----------
    statistics : Statistics
        Of the rows that the metric is learned from.
    rows : ndarray or tensor of shape (n, D)
        Mapped features to score; what is yielded is of their kind. NumPy decomposes the scatter
        in their type, torch in float64.
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
    scatter = mean_scatter(statistics)
    values = _shrinkage_values(statistics, scatter, shrinkages)
    exact = rows.dtype == np.float64 and len(values) <= _FEW_SHRINKAGES
    varies = float(np.trace(scatter)) * statistics.n_instances > rounding(statistics)
    if (exact or is_tensor(rows)) and min(values) >= _LEAST_SHRINKAGE and varies:
        found = _by_factors(statistics, scatter, rows, values)
    else:
        found = _by_spectrum(statistics, rows, shrinkages)
    for shrinkage, (own, means) in zip(shrinkages, found, strict=True):
        yield shrinkage, own, means


def _by_factors(
    statistics: Statistics, scatter: NDArray[np.float64], rows: Any, values: Sequence[float]
) -> Iterator[tuple[Any, Any]]:
    """Yield rows and means in the metric of each shrinkage, by a Cholesky factor in float64."""
    xp, center = array_module(rows), common_mean(statistics)
    wide = rows.double() if is_tensor(rows) else rows
    means = put_like(statistics.means - center, wide)
    both = xp.concatenate([wide - put_like(center, wide), means])
    level = float(np.trace(scatter)) / statistics.n_features
    matrix, eye = put_like(scatter, wide), put_like(np.eye(len(scatter)), wide)
    for value in values:
        solved = _solve_factor((1.0 - value) * matrix + (value * level) * eye, both.T).T
        solved = solved.to(rows.dtype) if is_tensor(rows) else solved
        yield solved[: len(rows)], solved[len(rows) :]


def _solve_factor(matrix: Any, targets: Any) -> Any:
    """Return L⁻¹ targets (D, n) for the Cholesky factor L of a matrix (D, D)."""
    if is_tensor(matrix):
        linalg = array_module(matrix).linalg
        return linalg.solve_triangular(linalg.cholesky(matrix), targets, upper=False)
    factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    return scipy.linalg.solve_triangular(factor, targets, lower=True, check_finite=False)


def _by_spectrum(
    statistics: Statistics, rows: Any, shrinkages: Sequence[Shrinkage]
) -> Iterator[tuple[Any, Any]]:
    """Yield rows and means in the metric of each shrinkage, by one decomposition for all."""
    if is_tensor(rows):
        spectrum = WithinClassSpectrum.of(statistics, str(rows.device))
    else:
        spectrum = WithinClassSpectrum.of(statistics, dtype=rows.dtype)
    features = (rows - put_like(spectrum.center, rows)) @ put_like(spectrum.basis, rows)
    means = put_like((statistics.means - spectrum.center) @ spectrum.basis, rows)
    for shrinkage in shrinkages:
        shrunk = spectrum.shrunk(spectrum.value_of(shrinkage))
        scale = put_like(1.0 / np.sqrt(shrunk), rows)
        yield features * scale, means * scale


def _shrinkage_values(
    statistics: Statistics, scatter: NDArray[np.float64], shrinkages: Sequence[Shrinkage]
) -> list[float]:
    """Return shrinkages as numbers, without a decomposition."""
    n_features = statistics.n_features

    def oracle() -> float:
        mean, squares = np.trace(scatter) / n_features, np.vdot(scatter, scatter)
        return oracle_shrinkage(float(mean), float(squares), n_features, statistics.n_instances)

    return [oracle() if isinstance(s, str) else float(s) for s in shrinkages]
