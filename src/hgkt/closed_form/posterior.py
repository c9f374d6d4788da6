"""The Gaussian process over classes: what is left to know of a class, and classes left out.

z(a) = k(a, A)(K + Λ)⁻¹(V − m)W is the posterior mean of a Gaussian process whose inputs are
attributes and whose observations are class means. The same process says how far the mean of a new
class may be from where it is predicted, and where a seen class would have been predicted had its
instances never been there, and what each attribute does to a function of the kernel row. All of it
is about kernels; features have no part in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import array_module, is_tensor, power_of
from hgkt.closed_form.kernels import ClassKernel


def dual_coefficients(kernel: Any, noise: Any, targets: Any) -> Any:
    """Solve (K + Λ)α = targets for α, of the shape (L, n) of the targets; arrays or tensors.

    Tensors may have several rows of noise (R, L) at once; α is (R, L, n) then.

    Examples
    --------
    >>> dual_coefficients(np.eye(2), np.array([1.0, 3.0]), np.array([[2.0], [8.0]]))
    array([[1.],
           [2.]])
    """
    if is_tensor(kernel):
        torch = array_module(kernel)
        factor = torch.linalg.cholesky(kernel + torch.diag_embed(noise))
        return torch.cholesky_solve(targets, factor)
    matrix = kernel.copy()
    matrix.flat[:: len(matrix) + 1] += noise
    # Transposed, LAPACK takes a symmetric matrix as it lies: of many classes one copy is plenty.
    # What is not finite has no factor, which LAPACK says itself.
    factor = scipy.linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    return scipy.linalg.cho_solve(factor, targets)


@dataclass(frozen=True)
class ClassPosterior:
    """Means and variances of classes under a kernel and the noise of the class means.

    Parameters
    ----------
    kernel : ndarray of shape (L, L)
        K between the seen classes.
    noise : ndarray of shape (L,)
        Λ.

    Examples
    --------
    >>> posterior = ClassPosterior(np.eye(2), np.full(2, 0.25))
    >>> posterior.variance(np.array([[1.0, 0.0], [0.0, 0.0]]), np.ones(2))
    array([0.2, 1. ])
    """

    kernel: NDArray[np.float64]
    noise: NDArray[np.float64]

    @cached_property
    def precision(self) -> NDArray[np.float64]:
        """(K + Λ)⁻¹ (L, L)."""
        result: NDArray[np.float64] = dual_coefficients(
            self.kernel, self.noise, np.eye(len(self.kernel))
        )
        return result

    def dual(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (K + Λ)⁻¹ means (L, D); the inverse is made where it costs less."""
        if means.shape[1] >= len(means):
            result: NDArray[np.float64] = self.precision.T @ means
        else:
            result = dual_coefficients(self.kernel, self.noise, means)
        return result

    def weights(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how much of each seen mean (n, L) is in classes with kernel rows (n, L)."""
        result: NDArray[np.float64] = rows @ self.precision
        return result

    def variance(self, rows: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the posterior variance (n,) of class means, per unit of prior variance.

        Parameters
        ----------
        rows : ndarray of shape (n, L)
            k(a, A) of the classes.
        own : ndarray of shape (n,)
            k(a, a).
        """
        explained = np.einsum("ij,ij->i", rows @ self.precision, rows)
        result: NDArray[np.float64] = np.maximum(own - explained, 0.0)
        return result

    def own_weights(self) -> NDArray[np.float64]:
        """Return how far the embedding of each seen class (L,) rests on its own mean, 0 to 1.

        Row c of K(K + Λ)⁻¹ has 1 − Λ_c·C_cc on its diagonal, with C = (K + Λ)⁻¹.
        """
        result: NDArray[np.float64] = 1.0 - self.noise * np.diag(self.precision)
        return result

    def left_out_variance(self) -> NDArray[np.float64]:
        """Return the posterior variance (L,) of every seen class as a new one.

        With C = (K + Λ)⁻¹ it is 1 / C_cc − Λ_c: nothing is solved again (Rasmussen and Williams,
        2006, section 5.4.2). Metric, median distances and relevance stay those of all classes.
        """
        return np.maximum(1.0 / np.diag(self.precision) - self.noise, 0.0)

    def weights_without(self, held_out: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the weights (L, L) of every class in a model that lacks some of them.

        Rows of classes held out are predictions from the classes that are left, rows of those
        their own embeddings in the smaller model; columns of classes held out are zero.
        """
        rest = np.setdiff1d(np.arange(len(self.kernel)), held_out)
        inverse = dual_coefficients(
            self.kernel[np.ix_(rest, rest)], self.noise[rest], np.eye(len(rest))
        )
        weights = np.zeros_like(self.kernel)
        weights[:, rest] = self.kernel[:, rest] @ inverse
        return weights

    def variance_of(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the posterior variance (L,) of seen classes in a model with these weights (L, L).

        Parameters
        ----------
        weights : ndarray of shape (L, L)
            What `weights_without` returned.
        """
        explained = np.einsum("ij,ij->i", weights, self.kernel)
        result: NDArray[np.float64] = np.maximum(np.diag(self.kernel) - explained, 0.0)
        return result


def attribute_sensitivity(
    kernel: ClassKernel, attributes: NDArray[np.float64], slopes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far f(a) = Σ_l slopes_l · k(a, a_l) moves with each attribute (d,).

    One attribute is moved by its deviation over the seen classes, after the row-wise map, to
    first order; a map to unit length moves the others along. Mapped, because a square root is
    infinitely steep at zero.

    Parameters
    ----------
    kernel : ClassKernel
        Fitted.
    attributes : ndarray of shape (d,)
        The class.
    slopes : ndarray of shape (L,)
        Derivative of f by the kernel row.
    """
    rows = [block[0] for block in kernel.mapped(attributes[None])]
    return np.concatenate([_moved(kernel, index, row, slopes) for index, row in enumerate(rows)])


def _moved(
    kernel: ClassKernel, block: int, row: NDArray[np.float64], slopes: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the change of f with each attribute (d_b,) of one block."""
    settings, weight = kernel.settings, kernel.weights[block]
    if weight == 0.0:
        return np.zeros(len(row))
    median = kernel.medians[block]
    products, squared = (part[0] for part in kernel.pairs(row[None], block))
    inward = 0.0
    if settings.kernel == "linear":
        toward = weight * slopes
    elif settings.kernel == "quadratic":
        toward = weight * slopes * (1.0 + products) / 2.0
    else:
        steep = 2.0 * settings.kernel_scale / median
        toward = weight * steep * slopes * np.exp(-settings.kernel_scale * squared / median)
        inward = toward.sum()
    gradient = toward @ kernel.references[block] - inward * row
    factors = kernel.relevance[block] if settings.relevance else np.ones(len(row))
    # Back to the mapped attributes themselves, before they were weighted.
    plain = np.divide(row, factors, out=np.zeros_like(row), where=factors > 0)
    spread = kernel.spreads[block]
    spread = np.divide(spread, factors, out=np.zeros_like(row), where=factors > 0)
    gradient = gradient * factors
    if power_of(settings.attribute_map) is not None:
        gradient = gradient - plain * (plain @ gradient)  # rows keep their length
    moved: NDArray[np.float64] = spread * gradient
    return moved
