"""The paper's two relations in closed form: a metric from inside classes, a kernel between them.

*Intra-class.* The complete graph inside a class with edge weights 1/N_c has the within-class
scatter S_w as its Laplacian form; shrunk and inverted it is the metric of the visual space,
W = ((1−s)·S_w + s·tr(S_w)/D·I)^(−1/2).

*Inter-class.* A kernel k between attribute vectors carries the class means V to any class:
z(a) = k(a, A)(K + Λ)⁻¹(V − m)W, the posterior mean of a Gaussian process over classes with
noise Λ on the observed class means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt.closed_form.accelerated import eigh_on
from hgkt.statistics import Statistics

_RELATIVE_FLOOR = 1e-10
_ROUNDING = 1e-15


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
    def of(cls, statistics: Statistics, device: str = "cpu") -> WithinClassSpectrum:
        """Decompose the scatter that `statistics` holds, on "cpu" or "cuda"."""
        scatter = statistics.within_scatter / max(statistics.n_instances, 1)
        if device == "cpu":
            eigenvalues, basis = scipy.linalg.eigh(scatter, driver="evd")
        else:
            eigenvalues, basis = eigh_on(device, scatter)
        present = statistics.counts > 0
        center = statistics.means[present].mean(axis=0)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        if eigenvalues.sum() * statistics.n_instances <= rounding(statistics):
            eigenvalues = np.zeros_like(eigenvalues)
        return cls(center, eigenvalues, basis, statistics.n_instances, statistics.n_features)

    def shrunk(self, shrinkage: float) -> NDArray[np.float64]:
        """Return the eigenvalues (D,) of (1−s)·S_w + s·tr(S_w)/D·I, none of them zero."""
        mean = self.eigenvalues.sum() / self._width
        if mean == 0.0:  # one instance a class: nothing is known of the inside of classes
            return np.ones_like(self.eigenvalues)
        shrunk = (1.0 - shrinkage) * self.eigenvalues + shrinkage * mean
        result: NDArray[np.float64] = np.maximum(shrunk, _RELATIVE_FLOOR * self.eigenvalues.max())
        return result

    def projection(self, shrinkage: float) -> NDArray[np.float64]:
        """Return P (D, D) with P Pᵀ = W²: inner products of rows of X P are those of X W."""
        return self.basis / np.sqrt(self.shrunk(shrinkage))

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


def dual_coefficients(
    kernel: NDArray[np.float64], noise: NDArray[np.float64], targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Solve (K + Λ)α = targets for α: of shape (L, D), or (L, n) for other right-hand sides.

    Examples
    --------
    >>> dual_coefficients(np.eye(2), np.array([1.0, 3.0]), np.array([[2.0], [8.0]]))
    array([[1.],
           [2.]])
    """
    factor = scipy.linalg.cho_factor(kernel + np.diag(noise), lower=True)
    return scipy.linalg.cho_solve(factor, targets)
