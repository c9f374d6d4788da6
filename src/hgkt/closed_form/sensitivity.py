"""What each attribute of a class does to a linear function of its kernel row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, power_of
from hgkt.closed_form.kernels import ClassKernel


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
    total = np.zeros(len(attributes))
    for view in kernel.references:
        rows = [block[0] for block in kernel.mapped(attributes[None], view)]
        steps = [_moved(kernel, view, index, row, slopes) for index, row in enumerate(rows)]
        total += np.concatenate(steps)
    return total


def _moved(
    kernel: ClassKernel,
    view: tuple[FeatureMap, bool],
    block: int,
    row: NDArray[np.float64],
    slopes: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the change of f with each attribute (d_b,) of one block as one view sees it."""
    references = kernel.references[view][block]
    median = kernel.medians[view][block]
    products, squared = (part[0] for part in kernel.pairs(row[None], view, block))
    toward, inward = np.zeros(len(references)), 0.0
    for share, term in zip(kernel.shares, kernel.terms, strict=True):
        weight = share * float(kernel.block_weights(term)[block])
        if term.view != view or weight == 0.0:
            continue
        if term.kernel == "linear":
            toward += weight * slopes
        elif term.kernel == "quadratic":
            toward += weight * slopes * (1.0 + products) / 2.0
        else:
            steep = 2.0 * term.kernel_scale / median
            pulled = weight * steep * slopes * np.exp(-term.kernel_scale * squared / median)
            toward += pulled
            inward += pulled.sum()
    gradient = toward @ references - inward * row
    factors = kernel.relevance[view[0], block] if view[1] else np.ones(len(row))
    # Back to the mapped attributes themselves, before they were weighted.
    plain = np.divide(row, factors, out=np.zeros_like(row), where=factors > 0)
    spread = kernel.spreads[view][block]
    spread = np.divide(spread, factors, out=np.zeros_like(row), where=factors > 0)
    gradient = gradient * factors
    if power_of(view[0]) is not None:
        gradient = gradient - plain * (plain @ gradient)  # rows keep their length
    moved: NDArray[np.float64] = spread * gradient
    return moved
