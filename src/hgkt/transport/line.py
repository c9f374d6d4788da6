"""Exact optimal transport on a line of bins with cost \\|i−j\\|^p: barycenters and distances.

A histogram on the bins 0, …, n−1 has a cumulative function F and a quantile function Q. On a line
the monotone coupling is optimal for every convex cost, so W_p^p(a, b) = ∫|Q_a(t) − Q_b(t)|^p dt and
everything below follows from sorted cumulative sums: no regularisation, no iterations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hgkt.exceptions import DataError
from hgkt.transport import _line_numpy
from hgkt.transport._checks import check_histograms, check_weights, class_rows
from hgkt.transport.simplex import as_matrix

if TYPE_CHECKING:
    import torch


def line_barycenter(
    histograms: ArrayLike | torch.Tensor,
    weights: ArrayLike | None = None,
    p: int = 2,
    device: str | None = None,
) -> Any:
    """Return the histogram a on the same bins that minimises Σ_s λ_s W_p^p(a, b_s), exactly.

    The sum is ∫ Σ_s λ_s ‖Q_a(t) − Q_s(t)‖^p dt over t in [0, 1]. It is minimised point by point: by
    the bin nearest to the mean quantile Σ_s λ_s Q_s(t) for p=2 and by the weighted median of the
    quantiles for p=1. Both are monotone in t, hence quantile functions. Where two bins are equally
    good the lower one is taken.

    Parameters
    ----------
    histograms : array-like or torch tensor of shape (K, n)
        Rows are non-negative and sum to one.
    weights : array-like of shape (K,), optional
        Non-negative weights λ_s, scaled to sum to one; equal by default.
    p : {1, 2}, default=2
        Exponent of the ground cost ‖i − j‖^p.
    device : str, optional
        A torch device such as ``"cuda"``. NumPy is used for ``None`` and ``"cpu"``, unless
        `histograms` is a torch tensor.

    Returns
    -------
    ndarray or torch tensor of shape (n,), float64
        The barycenter; a tensor where a tensor came in.

    Notes
    -----
    For p=2 the mean quantile is a step function that rises by λ_s at every F_s(j), j < n−1. With
    the K(n−1) cumulative values sorted once, the barycenter's cumulative function at bin k is the
    value at which that step function passes k + 1/2: O(K n log(K n)). For p=1 it is, bin by bin,
    a weighted median of the F_s(k).

    Examples
    --------
    >>> line_barycenter([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    array([0., 1., 0.])
    """
    _check_exponent(p)
    if _wants_torch(histograms, device):
        from hgkt.transport import _line_torch

        tensor = _line_torch.as_histograms(histograms, device)
        scaled = check_weights(weights, len(tensor))
        return _like(histograms, _line_torch.barycenter(tensor, scaled, p))
    matrix = check_histograms(histograms)
    return _line_numpy.barycenter(matrix, check_weights(weights, len(matrix)), p)


def line_barycenters(
    histograms: ArrayLike | torch.Tensor,
    codes: ArrayLike,
    n_classes: int,
    weights: ArrayLike | None = None,
    p: int = 2,
    device: str | None = None,
) -> Any:
    """Return the barycenter of every class; memory is bounded by the largest class.

    Parameters
    ----------
    histograms : array-like or torch tensor of shape (N, n)
        Rows are non-negative and sum to one.
    codes : array-like of shape (N,)
        Class codes 0, …, ``n_classes - 1``; each class needs an instance.
    n_classes : int
        Number of classes L.
    weights : array-like of shape (N,), optional
        Weights, scaled to sum to one within each class; equal by default.
    p : {1, 2}, default=2
        Exponent of the ground cost.
    device : str, optional
        As in :func:`line_barycenter`.

    Returns
    -------
    ndarray or torch tensor of shape (L, n), float64

    Examples
    --------
    >>> line_barycenters([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.5, 0.5]], [0, 0, 1], 2)
    array([[0. , 1. , 0. ],
           [0. , 0.5, 0.5]])
    """
    source: Any = (
        histograms if hasattr(histograms, "detach") else as_matrix(histograms, "histograms")
    )
    weight = None if weights is None else np.asarray(weights, dtype=np.float64)
    rows = class_rows(codes, n_classes, len(source))
    found = [
        line_barycenter(source[r], None if weight is None else weight[r], p, device) for r in rows
    ]
    if hasattr(source, "detach"):
        import torch

        return torch.stack(found)
    return np.stack(found)


def line_distances(
    histograms: ArrayLike | torch.Tensor,
    target: ArrayLike | torch.Tensor,
    p: int = 2,
    device: str | None = None,
) -> Any:
    r"""Return W_p^p between each of K histograms and one target, exactly.

    Parameters
    ----------
    histograms : array-like or torch tensor of shape (K, n)
        Rows are non-negative and sum to one.
    target : array-like or torch tensor of shape (n,)
        One histogram.
    p : {1, 2}, default=2
        Exponent of the ground cost ‖i − j‖^p.
    device : str, optional
        As in :func:`line_barycenter`.

    Returns
    -------
    ndarray or torch tensor of shape (K,), float64
        W_p to the power p: for p=2 the squared distance.

    Notes
    -----
    For p=1 it is Σ_i abs(F(i) − G(i)). For p=2, summation by parts turns ∫(Q_F − Q_G)² into

        Σ_{i<n−1} ∫ from G(i) to F(i) of (2 Q_G(t) − 2i − 1) dt,

    whose terms are all non-negative because Q_G passes from ≤ i to > i at G(i). The integral of Q_G
    is piecewise linear with knots at G: one interpolation a bin replaces the merging of two
    cumulative functions.

    Examples
    --------
    >>> line_distances([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], [0.0, 0.0, 1.0])
    array([4. , 0.5])
    """
    _check_exponent(p)
    if _wants_torch(histograms, device):
        from hgkt.transport import _line_torch

        tensor = _line_torch.as_histograms(histograms, device)
        other = _line_torch.as_histograms(_row(target), tensor.device, "target")
        _check_bins(tensor.shape[1], other.shape[1])
        inner = _line_torch.cumulative(other)[0, :-1]
        return _like(histograms, _line_torch.distances(tensor, inner, p))
    matrix = check_histograms(histograms)
    goal = check_histograms(_row(target), "target")
    _check_bins(matrix.shape[1], goal.shape[1])
    return _line_numpy.distances(matrix, _line_numpy.cumulative(goal)[0, :-1], p)


def line_pairwise(
    A: ArrayLike | torch.Tensor,
    B: ArrayLike | torch.Tensor | None = None,
    p: int = 2,
    device: str | None = None,
) -> Any:
    """Return W_p^p between every row of A and every row of B, exactly.

    Parameters
    ----------
    A : array-like or torch tensor of shape (m, n)
        Histograms.
    B : array-like or torch tensor of shape (k, n), optional
        Histograms; A itself by default, and then the result is symmetric with a zero diagonal.
    p : {1, 2}, default=2
        Exponent of the ground cost.
    device : str, optional
        As in :func:`line_barycenter`.

    Returns
    -------
    ndarray or torch tensor of shape (m, k), float64

    Examples
    --------
    >>> line_pairwise([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    array([[0., 1., 4.],
           [1., 0., 1.],
           [4., 1., 0.]])
    """
    _check_exponent(p)
    if _wants_torch(A, device):
        from hgkt.transport import _line_torch

        left = _line_torch.as_histograms(A, device, "A")
        right = None if B is None else _line_torch.as_histograms(B, left.device, "B")
        _check_bins(left.shape[1], left.shape[1] if right is None else right.shape[1])
        return _like(A, _line_torch.pairwise(left, right, p))
    rows = check_histograms(A, "A")
    others = None if B is None else check_histograms(B, "B")
    _check_bins(rows.shape[1], rows.shape[1] if others is None else others.shape[1])
    return _line_numpy.pairwise(rows, others, p)


def _check_exponent(p: int) -> None:
    if p not in (1, 2):
        raise DataError(f"p must be 1 or 2; got {p!r}")


def _check_bins(n_bins: int, n_target: int) -> None:
    if n_bins != n_target:
        raise DataError(f"histograms have {n_bins} bins, their target {n_target}; both must agree")


def _wants_torch(array: Any, device: Any) -> bool:
    return hasattr(array, "detach") or (device is not None and str(device) != "cpu")


def _row(target: Any) -> Any:
    array: Any = target if hasattr(target, "detach") else np.asarray(target)
    if array.ndim != 1:
        raise DataError(f"target must be one histogram; got shape {tuple(array.shape)}")
    return array[None, :]


def _like(template: Any, result: torch.Tensor) -> Any:
    """Hand back a tensor where a tensor came in, an array otherwise."""
    return result if hasattr(template, "detach") else result.cpu().numpy()
