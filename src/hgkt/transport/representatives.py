"""One instance a class that stands for it: the nearest to the class's barycenter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._typing import Progress
from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.transport._checks import class_rows
from hgkt.transport.line import line_barycenter, line_distances
from hgkt.transport.simplex import NEGATIVE_CHOICES, as_matrix, simplex_in_place, warn_zero_rows

METHODS = ("wasserstein", "euclidean", "random", "medoid")
SOLVERS = ("exact", "sinkhorn")
_LINE_EXPONENTS = {"squared": 2, "absolute": 1}
_TIE = 1e-12
_CHUNK_ROWS = 512


@dataclass(frozen=True)
class Representatives:
    """What :func:`select_representatives` found; rows are classes.

    Attributes
    ----------
    indices : ndarray of shape (n_classes,)
        Row in the features of each class's representative.
    distances : ndarray of shape (n_classes,)
        How far it is: for ``"wasserstein"`` the transport cost to the barycenter (W₂² for the
        squared cost), for ``"euclidean"`` the distance to the class mean, for ``"medoid"`` the
        mean distance to the instances of its class, NaN for ``"random"``.
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
    cost: str | NDArray[np.float64] = "squared",
    reg: float = 1e-3,
    negative: str = "shift",
    random_state: int | np.random.RandomState | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Representatives:
    """Choose the representative instance of every class (lines 4 and 5 of Algorithm 1).

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
        For ``"wasserstein"``: the closed form on a line, or POT's entropic solver in the log
        domain, which is slow and blurs the barycenter but takes any cost.
    cost : {"squared", "absolute", "zero-one", "correlation"} or ndarray (D, D), default="squared"
        Ground cost between channels; the exact solver takes the first two.

        Paper gap: the paper speaks of the 1-Wasserstein distance and writes C_ij = (i−j)²; the
        formula wins.
    reg : float, default=1e-3
        Entropic regularisation for ``solver="sinkhorn"``, relative to the largest cost.

        Paper gap: the paper's 1e-5 on the raw cost makes the kernel exp(−C/ε) the identity.
    negative : {"shift", "clip", "softmax", "error"}, default="shift"
        How rows with negative entries become histograms, see :func:`to_simplex`.
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
    rows = class_rows(codes, n_classes, len(matrix))
    check_choice("method", method, METHODS)
    check_finite(matrix, "features")
    if method == "wasserstein":
        choose = _wasserstein_chooser(matrix, solver, cost, reg, negative, device)
    elif method == "random":
        choose = _random_chooser(random_state)
    else:
        choose = {"euclidean": _nearest_to_mean, "medoid": _medoid}[method]
    chosen, zero_rows = [], []
    for c, members in enumerate(rows):
        choice = choose(matrix, members)
        chosen.append(choice)
        zero_rows.append(choice.zero_rows)
        if progress is not None:
            progress("representatives", c + 1, n_classes, {})
    warn_zero_rows(np.concatenate(zero_rows))
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


def _first_minimum(values: NDArray[np.float64]) -> int:
    """Lowest position whose value is the smallest up to rounding."""
    return int(np.argmax(values <= values.min() + _TIE * np.abs(values).max()))


def _wasserstein_chooser(
    features: NDArray[Any],
    solver: str,
    cost: str | NDArray[np.float64],
    reg: float,
    negative: str,
    device: str | None,
) -> _Chooser:
    """Barycenter in Wasserstein space, then the nearest instance by the same functional."""
    check_choice("solver", solver, SOLVERS)
    check_choice("negative", negative, NEGATIVE_CHOICES)
    check_number("reg", reg, low=0.0, open_low=True)
    if solver == "exact":
        if not isinstance(cost, str) or cost not in _LINE_EXPONENTS:
            raise DataError(
                "solver='exact' needs cost='squared' or 'absolute', the costs on a line; use "
                "solver='sinkhorn' for any other ground cost"
            )
        p = _LINE_EXPONENTS[cost]

        def solve(rows: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
            center = line_barycenter(rows, p=p, device=device)
            return center, line_distances(rows, center, p=p, device=device)
    else:
        from hgkt.transport.entropic import entropic_barycenter, entropic_distances, ground_cost

        matrix = ground_cost(features.shape[1], cost, features=features)

        def solve(rows: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
            center = entropic_barycenter(rows, matrix, reg, device=device)
            return center, entropic_distances(rows, center, matrix, reg, device=device)

    def choose(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
        rows = matrix[members].astype(np.float64, copy=False)
        zero_rows = simplex_in_place(rows, members, negative)
        center, distances = solve(rows)
        best = _first_minimum(distances)
        return _Choice(int(members[best]), float(distances[best]), center, zero_rows)

    return choose


def _random_chooser(random_state: int | np.random.RandomState | None) -> _Chooser:
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    return lambda matrix, members: _Choice(int(members[rng.randint(len(members))]), np.nan)


def _nearest_to_mean(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
    rows = matrix[members].astype(np.float64, copy=False)
    mean = rows.mean(axis=0)
    rows -= mean
    distances = np.linalg.norm(rows, axis=1)
    best = _first_minimum(distances)
    return _Choice(int(members[best]), float(distances[best]), mean)


def _medoid(matrix: NDArray[Any], members: NDArray[np.intp]) -> _Choice:
    """Screen with the fast Gram formula, settle the contenders with exact distances."""
    from scipy.spatial.distance import cdist

    rows = matrix[members].astype(np.float64, copy=False)
    rows -= rows.mean(axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    sums = np.empty(len(rows))
    for start in range(0, len(rows), _CHUNK_ROWS):
        block = slice(start, start + _CHUNK_ROWS)
        gram = rows[block] @ rows.T
        gram *= -2.0
        gram += squares[block, None]
        gram += squares
        sums[block] = np.sqrt(np.maximum(gram, 0.0, out=gram), out=gram).sum(axis=1)
    contenders = np.flatnonzero(sums <= sums.min() * (1 + 1e-6) + 1e-6 * np.sqrt(squares.max()))
    exact = np.concatenate(
        [cdist(rows[part], rows).sum(axis=1) for part in _parts(contenders, _CHUNK_ROWS)]
    )
    best = _first_minimum(exact)
    return _Choice(int(members[contenders[best]]), float(exact[best] / len(rows)))


def _parts(array: NDArray[np.intp], size: int) -> list[NDArray[np.intp]]:
    return [array[start : start + size] for start in range(0, len(array), size)]
