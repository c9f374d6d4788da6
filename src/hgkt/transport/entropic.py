"""Transport with any ground cost, through POT: entropic barycenters and distances, exact distances.

POT is imported when a function runs: it brings torch along, which `import hgkt.transport` must not.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_finite, check_number, import_extra
from hgkt.exceptions import DataError
from hgkt.transport._checks import check_histograms, check_weights
from hgkt.transport.simplex import as_matrix

COSTS = ("squared", "absolute", "zero-one", "correlation")
_FLOOR = 1e-12  # mass added to empty bins, whose logarithm the log-domain solver needs


def ground_cost(
    n_bins: int, kind: str | ArrayLike = "squared", features: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the cost of moving mass between bins, as a matrix.

    Parameters
    ----------
    n_bins : int
        Number of bins n.
    kind : {"squared", "absolute", "zero-one", "correlation"} or array-like of shape (n, n)
        ``"squared"`` is (i−j)², the paper's; ``"absolute"`` \\|i−j\\|; ``"zero-one"`` 1 between
        different bins; ``"correlation"`` 1 − r_ij with the correlations r between the columns of
        `features`. A matrix is checked and taken as it is.
    features : array-like of shape (N, n), optional
        For ``"correlation"``. A constant column has correlation 0 with all others.

    Returns
    -------
    ndarray of shape (n, n), float64

    Examples
    --------
    >>> ground_cost(3)
    array([[0., 1., 4.],
           [1., 0., 1.],
           [4., 1., 0.]])
    """
    check_number("n_bins", n_bins, low=1, integer=True)
    if not isinstance(kind, str):
        return _given_cost(kind, n_bins)
    gaps = np.abs(np.subtract.outer(np.arange(n_bins), np.arange(n_bins))).astype(np.float64)
    if kind == "squared":
        return gaps**2
    if kind == "absolute":
        return gaps
    if kind == "zero-one":
        return (gaps > 0).astype(np.float64)
    if kind == "correlation":
        return _correlation_cost(n_bins, features)
    listed = ", ".join(repr(choice) for choice in COSTS)
    raise DataError(f"cost must be one of {listed} or a matrix ({n_bins}, {n_bins}); got {kind!r}")


def entropic_barycenter(
    histograms: ArrayLike,
    cost: str | ArrayLike,
    reg: float,
    weights: ArrayLike | None = None,
    *,
    max_iter: int = 1000,
    tol: float = 1e-6,
    normalize_cost: bool = True,
    device: str | None = None,
) -> NDArray[np.float64]:
    """Return the entropic barycenter, by POT's solver in the log domain.

    argmin_a Σ_s λ_s min_{P ∈ U(a, b_s)} ⟨P, C⟩ − ε H(P)

    Parameters
    ----------
    histograms : array-like of shape (K, n)
        Rows are non-negative and sum to one.
    cost : str or array-like of shape (n, n)
        Ground cost, see :func:`ground_cost`.
    reg : float
        Regularisation ε, relative to the largest cost unless `normalize_cost` is off. The smaller,
        the sharper the barycenter and the slower the convergence.
    weights : array-like of shape (K,), optional
        Non-negative weights, scaled to sum to one; equal by default.
    max_iter : int, default=1000
        Most iterations; a warning says when they did not suffice.
    tol : float, default=1e-6
        The iteration ends when the marginals of the K plans agree to this.
    normalize_cost : bool, default=True
        Divide the cost by its maximum.

        Paper gap: with the paper's ε = 1e-5 and its raw cost (i−j)² the kernel exp(−C/ε) is the
        identity in floating point and the result a geometric mean; such a pair is refused.
    device : str, optional
        A torch device such as ``"cuda"``, on which all histograms go through the same iteration
        at once; POT on NumPy for ``None`` and ``"cpu"``.

    Returns
    -------
    ndarray of shape (n,), float64

    Notes
    -----
    Only the log-domain solver is used: up to POT 0.9.7 the plain and the stabilised solver start
    from a point that is wrong for unequal weights and settle on another histogram.

    Examples
    --------
    >>> a = entropic_barycenter(np.eye(3)[[0, 2]], "squared", reg=0.02)
    >>> a.round(3)
    array([0., 1., 0.])
    """
    matrix = check_histograms(histograms)
    scaled = check_weights(weights, len(matrix))
    kernel_cost = _prepared_cost(cost, matrix.shape[1], reg, normalize_cost)
    check_number("max_iter", max_iter, low=1, integer=True)
    check_number("tol", tol, low=0.0)
    if _wants_torch(device):
        from hgkt.transport import _entropic_torch

        limits = (max_iter, tol, str(device))
        result, error = _entropic_torch.barycenter(
            _positive(matrix), kernel_cost, reg, scaled, *limits
        )
        _warn_unless_converged("barycenter", error, tol, max_iter)
        return np.asarray(result / result.sum())
    ot = import_extra("ot", "transport")
    result, log = ot.bregman.barycenter(
        _positive(matrix).T,
        kernel_cost,
        reg,
        weights=scaled,
        method="sinkhorn_log",
        numItermax=max_iter,
        stopThr=tol,
        warn=False,
        log=True,
    )
    _warn_unless_converged("barycenter", _last_error(log), tol, max_iter)
    return np.asarray(result / result.sum())


def entropic_distances(
    histograms: ArrayLike,
    target: ArrayLike,
    cost: str | ArrayLike,
    reg: float,
    *,
    max_iter: int = 1000,
    tol: float = 1e-6,
    normalize_cost: bool = True,
    device: str | None = None,
) -> NDArray[np.float64]:
    """Return the transport cost ⟨P, C⟩ of the entropic plan between each row and the target.

    Parameters
    ----------
    histograms : array-like of shape (K, n)
        Rows are non-negative and sum to one.
    target : array-like of shape (n,)
        One histogram.
    cost : str or array-like of shape (n, n)
        Ground cost, see :func:`ground_cost`.
    reg : float
        Regularisation, as in :func:`entropic_barycenter`.
    max_iter : int, default=1000
        Most iterations for each row.
    tol : float, default=1e-6
        Tolerance on the marginals.
    normalize_cost : bool, default=True
        Divide the cost by its maximum while solving; distances are in the units of `cost` anyway.
    device : str, optional
        As in :func:`entropic_barycenter`.

    Returns
    -------
    ndarray of shape (K,), float64
        Not below the exact distance, up to `tol`.

    Examples
    --------
    >>> entropic_distances(np.eye(3), [0.0, 0.0, 1.0], "squared", reg=0.02).round(6)
    array([4., 1., 0.])
    """
    matrix, goal, raw_cost = _checked_problem(histograms, target, cost)
    kernel_cost = _prepared_cost(raw_cost, matrix.shape[1], reg, normalize_cost)
    start = _positive(goal[None])[0]
    if _wants_torch(device):
        from hgkt.transport import _entropic_torch

        limits = (max_iter, tol, str(device))
        found, error = _entropic_torch.distances(
            _positive(matrix), start, kernel_cost, reg, *limits
        )
        _warn_unless_converged("distances", error, tol, max_iter)
        return found * (raw_cost.max() / kernel_cost.max() if kernel_cost.max() > 0 else 1.0)
    ot = import_extra("ot", "transport")
    found, worst = np.empty(len(matrix)), {"err": [0.0]}
    for k, row in enumerate(_positive(matrix)):
        plan, log = ot.bregman.sinkhorn_log(
            row, start, kernel_cost, reg, numItermax=max_iter, stopThr=tol, warn=False, log=True
        )
        found[k] = np.vdot(plan, raw_cost)
        worst = max(worst, log, key=_last_error)
    _warn_unless_converged("distances", _last_error(worst), tol, max_iter)
    return found


def emd_distances(
    histograms: ArrayLike, target: ArrayLike, cost: str | ArrayLike = "squared"
) -> NDArray[np.float64]:
    """Return the exact transport cost between each row and the target, for any ground cost.

    Solved by POT's network simplex, one linear program a row: for the costs on a line
    :func:`line_distances` gives the same in a fraction of the time.

    Parameters
    ----------
    histograms : array-like of shape (K, n)
        Rows are non-negative and sum to one.
    target : array-like of shape (n,)
        One histogram.
    cost : str or array-like of shape (n, n), default="squared"
        Ground cost, see :func:`ground_cost`.

    Returns
    -------
    ndarray of shape (K,), float64

    Examples
    --------
    >>> emd_distances(np.eye(3), [0.0, 0.0, 1.0], "zero-one")
    array([1., 1., 0.])
    """
    ot = import_extra("ot", "transport")

    matrix, goal, raw_cost = _checked_problem(histograms, target, cost)
    goal = goal / goal.sum()
    rows = (row / row.sum() for row in matrix.astype(np.float64))
    return np.array([float(ot.emd2(row, goal, raw_cost, numItermax=10**7)) for row in rows])


def _given_cost(cost: ArrayLike, n_bins: int) -> NDArray[np.float64]:
    matrix = as_matrix(cost, "cost").astype(np.float64)
    check_finite(matrix, "cost")
    if matrix.shape != (n_bins, n_bins) or (matrix < 0).any():
        raise DataError(
            f"cost must be a non-negative matrix of shape ({n_bins}, {n_bins}), one row a bin; "
            f"got shape {matrix.shape} with minimum {matrix.min():g}"
        )
    return matrix


def _correlation_cost(n_bins: int, features: ArrayLike | None) -> NDArray[np.float64]:
    if features is None:
        raise DataError("cost='correlation' needs features to correlate the bins over")
    matrix = as_matrix(features, "features")
    if matrix.shape[1] != n_bins:
        raise DataError(f"features have {matrix.shape[1]} columns; {n_bins} bins are expected")
    columns: NDArray[np.float64] = matrix - matrix.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(columns, axis=0)
    columns /= np.where(lengths > 0, lengths, 1.0)
    cost = np.clip(1.0 - columns.T @ columns, 0.0, 2.0)
    np.fill_diagonal(cost, 0.0)
    return cost


def _checked_problem(
    histograms: ArrayLike, target: ArrayLike, cost: str | ArrayLike
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    matrix = check_histograms(histograms)
    goal = check_histograms(np.atleast_2d(np.asarray(target)), "target").astype(np.float64)
    if goal.shape != (1, matrix.shape[1]):
        raise DataError(f"target must be one histogram of {matrix.shape[1]} bins; got {goal.shape}")
    return matrix, goal[0], ground_cost(matrix.shape[1], cost)


def _prepared_cost(
    cost: str | ArrayLike, n_bins: int, reg: float, normalize: bool
) -> NDArray[np.float64]:
    """Scale the cost and refuse a regularisation under which the kernel is the identity."""
    check_number("reg", reg, low=0.0, open_low=True)
    matrix = ground_cost(n_bins, cost)
    if normalize and matrix.max() > 0:
        matrix = matrix / matrix.max()
    positive = matrix[matrix > 0]
    if len(positive) and np.exp(-positive.min() / reg) == 0.0:
        raise DataError(
            f"reg={reg:g} is void for this ground cost: exp(-{positive.min():.3g}/reg) underflows "
            "to zero, so no mass can move and the barycenter is a geometric mean; use "
            f"reg >= {positive.min() / 700:.2g}" + ("" if normalize else " or normalize_cost=True")
        )
    return matrix


def _positive(histograms: NDArray[Any]) -> NDArray[np.float64]:
    raised = histograms.astype(np.float64) + _FLOOR
    raised /= raised.sum(axis=1, keepdims=True)
    return raised


def _last_error(log: dict[str, Any]) -> float:
    return float(log["err"][-1]) if log["err"] else np.inf


def _wants_torch(device: str | None) -> bool:
    return device not in (None, "cpu")


def _warn_unless_converged(what: str, error: float, tol: float, max_iter: int) -> None:
    if not error <= tol:
        warnings.warn(
            f"the entropic {what} did not converge in {max_iter} iterations (error {error:.2g}, "
            f"tol {tol:g}); raise max_iter or reg, or use the exact solver where the cost is on "
            "a line",
            UserWarning,
            stacklevel=3,
        )
