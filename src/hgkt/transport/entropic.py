"""Entropic transport with any ground cost, in the log domain: barycenters and distances.

The iterations are those of POT's log-domain solvers, for all histograms of a class at once; they
are written once, and `xp` is the array module they run on, NumPy or torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import array_module, batches, to_numpy
from hgkt._validation import check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.transport.simplex import as_matrix, check_histograms, check_weights, on_device

COSTS = ("squared", "absolute", "zero-one")
_FLOOR = 1e-12  # mass added to empty bins, whose logarithm the iteration needs
_CHECK_EVERY = 10
_SPAN, _TINY = 600.0, 1e-290
# Numbers in one temporary: 2 MiB, which stays in the cache; 1 GiB on a device.
_BATCH_NUMPY, _BATCH_TORCH = 2**18, 2**27


def ground_cost(n_bins: int, kind: str | ArrayLike = "squared") -> NDArray[np.float64]:
    """Return the cost of moving mass between bins, as a matrix.

    Parameters
    ----------
    n_bins : int
        Number of bins n.
    kind : {"squared", "absolute", "zero-one"} or array-like of shape (n, n)
        ``"squared"`` is (i−j)², the paper's; ``"absolute"`` \\|i−j\\|; ``"zero-one"`` 1 between
        different bins. A matrix is checked and taken as it is.

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
    costs = {"squared": gaps**2, "absolute": gaps, "zero-one": (gaps > 0).astype(np.float64)}
    if kind not in costs:
        listed = ", ".join(repr(choice) for choice in COSTS)
        raise DataError(
            f"cost must be one of {listed} or a matrix ({n_bins}, {n_bins}); got {kind!r}"
        )
    return costs[kind]


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
    """Return the entropic barycenter, by Bregman projections in the log domain.

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
        The iteration ends when the marginals of the K plans agree to this: the sum over bins of
        their standard deviation.
    normalize_cost : bool, default=True
        Divide the cost by its maximum.

        Paper gap: with the paper's ε = 1e-5 and its raw cost (i−j)² the kernel exp(−C/ε) is the
        identity in floating point and the result a geometric mean; such a pair is refused.
    device : str, optional
        A torch device such as ``"cuda"``; NumPy for ``None`` and ``"cpu"``.

    Returns
    -------
    ndarray of shape (n,), float64

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
    shares = on_device(
        np.full(len(matrix), 1.0 / len(matrix)) if scaled is None else scaled, device
    )
    rows, logs = on_device(_positive(matrix), device), on_device(-kernel_cost / reg, device)
    xp, kernel, back = array_module(rows), _Kernel(logs), _Kernel(logs.T)
    logs, error = xp.log(rows), np.inf
    potentials = xp.zeros_like(logs)
    for step in range(max_iter):
        spread = back.blur(logs - kernel.blur(potentials))
        center = shares @ spread
        if step % _CHECK_EVERY == 1:
            marginals = xp.exp(potentials + spread)
            misses = marginals - marginals.mean(axis=0)
            error = float(xp.sqrt((misses * misses).mean(axis=0)).sum())
            if error < tol:
                break
        potentials = center - spread
    _warn_unless_converged("barycenter", error, tol, max_iter)
    result = to_numpy(xp.exp(center))
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
        A row is done when the marginal of its plan is so near to the target, in Euclidean norm.
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
    matrix = check_histograms(histograms)
    goals = check_histograms(np.atleast_2d(np.asarray(target)), "target").astype(np.float64)
    if goals.shape != (1, matrix.shape[1]):
        raise DataError(
            f"target must be one histogram of {matrix.shape[1]} bins; got {goals.shape}"
        )
    raw_cost = ground_cost(matrix.shape[1], cost)
    kernel_cost = _prepared_cost(raw_cost, matrix.shape[1], reg, normalize_cost)
    costs, logs = on_device(raw_cost, device), on_device(-kernel_cost / reg, device)
    kernel, back = _Kernel(logs), _Kernel(logs.T)
    goal, rows = on_device(_positive(goals)[0], device), on_device(_positive(matrix), device)
    xp = array_module(rows)
    logs, found, errors = xp.log(rows), np.empty(len(rows)), np.full(len(rows), np.inf)
    sources, open_rows = xp.zeros_like(logs), np.arange(len(rows))
    for step in range(max_iter):
        targets = xp.log(goal) - back.blur(sources)
        sources = logs - kernel.blur(targets)
        if step % _CHECK_EVERY == 0:
            misses = xp.exp(targets + back.blur(sources)) - goal
            errors[open_rows] = to_numpy(xp.sqrt((misses * misses).sum(axis=1)))
            done = errors[open_rows] < tol
            if done.any():
                found[open_rows[done]] = _costs(kernel.logs, sources[done], targets[done], costs)
                logs, sources, targets = logs[~done], sources[~done], targets[~done]
                open_rows = open_rows[~done]
            if not len(open_rows):
                break
    else:
        found[open_rows] = _costs(kernel.logs, sources, targets, costs)
    _warn_unless_converged("distances", float(errors.max()), tol, max_iter)
    return found


class _Kernel:
    """The kernel exp(−C/ε), whose logarithm (n, n) is given, applied in the log domain.

    Where the logarithms of a row span less than `_SPAN`, one matrix product does it: with a cost of
    zero on the diagonal every sum is then at least exp(−600), and what underflows is below the last
    digit of it. Other rows are shifted by the largest term of each of their sums.
    """

    def __init__(self, logs: Any) -> None:
        xp = array_module(logs)
        self.logs, self.plain = logs, xp.exp(logs)
        self.plain[self.plain < _TINY] = 0.0  # numbers near the end of float64 slow a product down
        self.has_diagonal = bool((xp.diagonal(self.plain) == 1.0).all())

    def blur(self, values: Any) -> Any:
        """Return log Σ_j exp(kernel_ij + values_kj), of shape (K, n)."""
        xp = array_module(values)
        found, top = xp.empty_like(values), xp.amax(values, axis=1)
        narrow = (top - xp.amin(values, axis=1) < _SPAN) & self.has_diagonal
        shifted = xp.exp(values[narrow] - top[narrow][:, None])
        found[narrow] = xp.log(shifted @ self.plain.T) + top[narrow][:, None]
        wide = xp.arange(len(values), device=values.device)[~narrow]
        for batch in _batches(values[wide]):
            terms = self.logs + values[wide[batch]][:, None, :]
            top = xp.amax(terms, axis=2)
            terms -= top[:, :, None]
            xp.exp(terms, out=terms)
            found[wide[batch]] = top + xp.log(terms.sum(axis=2))
        return found


def _costs(kernel: Any, sources: Any, targets: Any, costs: Any) -> NDArray[np.float64]:
    """Return ⟨P, C⟩ (K,) of the plans with these potentials (K, n)."""
    xp, found = array_module(sources), []
    for batch in _batches(sources):
        plans = xp.exp(kernel + sources[batch][:, :, None] + targets[batch][:, None, :])
        found.append(to_numpy((plans * costs).sum(axis=(1, 2))))
    return np.concatenate(found)


def _batches(rows: Any) -> Iterator[slice]:
    size = _BATCH_NUMPY if array_module(rows) is np else _BATCH_TORCH
    return batches(len(rows), max(1, size // rows.shape[1] ** 2))


def _given_cost(cost: ArrayLike, n_bins: int) -> NDArray[np.float64]:
    matrix: NDArray[np.float64] = as_matrix(cost, "cost").astype(np.float64)
    check_finite(matrix, "cost")
    if matrix.shape != (n_bins, n_bins) or (matrix < 0).any():
        raise DataError(
            f"cost must be a non-negative matrix of shape ({n_bins}, {n_bins}), one row a bin; "
            f"got shape {matrix.shape} with minimum {matrix.min():g}"
        )
    return matrix


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


def _warn_unless_converged(what: str, error: float, tol: float, max_iter: int) -> None:
    if not error <= tol:
        warnings.warn(
            f"the entropic {what} did not converge in {max_iter} iterations (error {error:.2g}, "
            f"tol {tol:g}); raise max_iter or reg, or use the exact solver where the cost is on "
            "a line",
            UserWarning,
            stacklevel=3,
        )
