"""Algorithm 1, steps 2 and 3: the barycenter of each class, and the instance nearest to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from hgkt._arrays import batches
from hgkt._typing import Progress
from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.transport.entropic import entropic_barycenter, entropic_distances, ground_cost
from hgkt.transport.line import line_barycenter, line_distances
from hgkt.transport.simplex import as_matrix, simplex_in_place, warn_zero_rows

METHODS = ("wasserstein", "euclidean", "random", "medoid")
SOLVERS = ("exact", "sinkhorn")
TIE = 1e-12
_BATCH_ROWS = 512


@dataclass(frozen=True)
class Representatives:
    """What :func:`select_representatives` found; rows are classes.

    Attributes
    ----------
    indices : ndarray of shape (n_classes,)
        Row in the features of each class's representative.
    distances : ndarray of shape (n_classes,)
        How far it is: for ``"wasserstein"`` the transport cost W₂² to the barycenter, for
        ``"euclidean"`` the distance to the class mean, for ``"medoid"`` the mean distance to the
        instances of its class, NaN for ``"random"``.
    barycenters : ndarray of shape (n_classes, n_features) or None
        Histograms for ``"wasserstein"``, class means for ``"euclidean"``.
    method : str
        How they were chosen.
    """

    indices: NDArray[np.intp]
    distances: NDArray[np.float64]
    barycenters: NDArray[np.float64] | None
    method: str


def select_representatives(
    features: ArrayLike,
    codes: ArrayLike,
    n_classes: int,
    method: str = "wasserstein",
    *,
    solver: str = "exact",
    reg: float = 1e-3,
    random_state: int | np.random.RandomState | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Representatives:
    """Choose the representative instance of every class (Algorithm 1, steps 2 and 3).

    Parameters
    ----------
    features : array-like of shape (N, D)
        Raw features; a memory-mapped array is read class by class.
    codes : array-like of shape (N,)
        Class codes 0, …, ``n_classes - 1``; every class needs at least one instance.
    n_classes : int
        Number of classes.
    method : {"wasserstein", "euclidean", "random", "medoid"}, default="wasserstein"
        ``"wasserstein"`` takes features as histograms over the D channels and picks the instance
        nearest to the Wasserstein barycenter; ``"euclidean"`` the one nearest to the class mean;
        ``"medoid"`` the one with the smallest sum of Euclidean distances to its class;
        ``"random"`` any.
    solver : {"exact", "sinkhorn"}, default="exact"
        For ``"wasserstein"``: the closed form on a line, or the entropic solver in the log domain,
        which is slow and blurs the barycenter.

        Paper gap: the paper speaks of the 1-Wasserstein distance and writes C_ij = (i−j)²; the
        formula wins.
    reg : float, default=1e-3
        Entropic regularisation for ``solver="sinkhorn"``, relative to the largest cost.

        Paper gap: the paper's 1e-5 on the raw cost makes the kernel exp(−C/ε) the identity.
    random_state : int, RandomState or None, default=None
        For ``"random"``.
    device : str, optional
        Torch device for the barycenters and distances; NumPy by default and for ``"cpu"``.
    progress : callable, optional
        Called as ``progress("representatives", done, n_classes, {})`` after each class.

    Returns
    -------
    Representatives
        Among equally near instances (to one part in 10¹²) the lowest row is taken.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]])
    >>> select_representatives(X, [0, 0, 0, 1], 2).indices
    array([1, 3])
    """
    matrix = as_matrix(features, "features")
    rows = _class_rows(codes, n_classes, len(matrix))
    check_choice("method", method, METHODS)
    check_finite(matrix, "features")
    if method == "wasserstein":
        choose = _wasserstein_chooser(matrix.shape[1], solver, reg, device)
    elif method == "random":
        rng = check_random_state(random_state)

        def choose(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
            return _Choice(int(members[rng.randint(len(members))]), np.nan)

    else:
        choose = {"euclidean": _nearest_to_mean, "medoid": _medoid}[method]
    chosen, zero_rows = [], []
    for c, members in enumerate(rows):
        choice = choose(matrix, members)
        chosen.append(choice)
        zero_rows.append(choice.zero_rows)
        if progress is not None:
            progress("representatives", c + 1, n_classes, {})
    warn_zero_rows(zero_rows)
    centers = [choice.center for choice in chosen if choice.center is not None]
    return Representatives(
        indices=np.array([choice.row for choice in chosen], dtype=np.intp),
        distances=np.array([choice.distance for choice in chosen]),
        barycenters=np.stack(centers) if centers else None,
        method=method,
    )


@dataclass(frozen=True)
class _Choice:
    """The representative of one class."""

    row: int
    distance: float
    center: NDArray[np.float64] | None = None
    zero_rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))


_Chooser = Callable[[NDArray[Any], NDArray[np.intp]], _Choice]


def first_minimum(values: NDArray[np.float64]) -> int:
    """Lowest position whose value is the smallest up to rounding."""
    return int(np.argmax(values <= values.min() + TIE * np.abs(values).max()))


def _wasserstein_chooser(n_bins: int, solver: str, reg: float, device: str | None) -> _Chooser:
    """Barycenter in Wasserstein space, then the nearest instance by the same functional."""
    check_choice("solver", solver, SOLVERS)
    check_number("reg", reg, low=0.0, open_low=True)
    cost = ground_cost(n_bins) if solver == "sinkhorn" else None

    def choose(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
        rows = matrix[members].astype(np.float64, copy=False)
        zero_rows = simplex_in_place(rows, members)
        if cost is None:
            center = line_barycenter(rows, device=device)
            distances = line_distances(rows, center, device=device)
        else:
            center = entropic_barycenter(rows, cost, reg, device=device)
            distances = entropic_distances(rows, center, cost, reg, device=device)
        best = first_minimum(distances)
        return _Choice(int(members[best]), float(distances[best]), center, zero_rows)

    return choose


def _nearest_to_mean(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
    rows = matrix[members].astype(np.float64, copy=False)
    mean = rows.mean(axis=0)
    rows -= mean
    distances = np.linalg.norm(rows, axis=1)
    best = first_minimum(distances)
    return _Choice(int(members[best]), float(distances[best]), mean)


def _medoid(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
    """Screen with the fast Gram formula, settle the contenders with exact distances."""
    rows = matrix[members].astype(np.float64, copy=False)
    rows -= rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    sums = np.empty(len(rows))
    for batch in batches(len(rows), _BATCH_ROWS):
        gram = rows[batch] @ rows.T
        gram *= -2.0
        gram += squares[batch, None]
        gram += squares
        sums[batch] = np.sqrt(np.maximum(gram, 0.0, out=gram), out=gram).sum(axis=1)
    contenders = np.flatnonzero(sums <= sums.min() * (1 + 1e-6) + 1e-6 * np.sqrt(squares.max()))
    parts = [contenders[some] for some in batches(len(contenders), _BATCH_ROWS)]
    exact = np.concatenate([cdist(rows[part], rows).sum(axis=1) for part in parts])
    best = first_minimum(exact)
    return _Choice(int(members[contenders[best]]), float(exact[best] / len(rows)))


def _class_rows(codes: ArrayLike, n_classes: int, n_rows: int) -> list[NDArray[np.intp]]:
    """Return the rows of each class in increasing order, after checking the codes."""
    labels = np.asarray(codes)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise DataError(
            f"codes must be {n_rows} integers, one a row; got {labels.dtype} {labels.shape}"
        )
    outside = (labels < 0) | (labels >= n_classes)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(f"code {labels[row]} in row {row} is not in 0..{n_classes - 1}")
    counts = np.bincount(labels, minlength=n_classes)
    if (counts == 0).any():
        raise DataError(
            f"class code {np.argmin(counts)} has no instance; every class needs at least one"
        )
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
