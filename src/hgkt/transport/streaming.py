"""Representatives of rows that are never in memory together: two passes over their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.transport.line import cumulative, distances_to, histogram_of
from hgkt.transport.representatives import (
    METHODS,
    TIE,
    Representatives,
    first_minimum,
    select_representatives,
)
from hgkt.transport.simplex import as_matrix, simplex_in_place, warn_zero_rows

MEMORY = 2**30
"""Bytes that the classes share by default."""

_MOST_CELLS = 16  # per feature

Batches = Callable[[], Iterable[tuple[NDArray[Any], NDArray[np.intp]]]]
"""Returns, each time it is called, the same batches: features (k, D) and class codes (k,)."""


@dataclass(frozen=True)
class StreamedRepresentatives(Representatives):
    """What `stream_representatives` found; rows are classes.

    Attributes
    ----------
    indices : ndarray of shape (n_classes,)
        Number of each representative's row in the order of the stream; −1 for a class without
        rows.
    features : ndarray of shape (n_classes, n_features)
        The representatives themselves.
    excess : ndarray of shape (n_classes,)
        By how much more than the nearest instance each may be off the exact center, in W₂ (or
        Euclidean) distance; 0 where the choice is exact.
    """

    features: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    excess: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


def stream_representatives(
    batches: Batches,
    n_classes: int,
    method: str = "wasserstein",
    *,
    memory: int = MEMORY,
    random_state: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> StreamedRepresentatives:
    """Choose the representative of every class from batches that are read at most twice.

    The classes share `memory` equally. A class whose rows fit into its share is kept and its
    representative is the one that `select_representatives` chooses. Of a larger class the first
    pass keeps the center, the second finds the nearest instance. For ``"euclidean"`` and
    ``"random"`` that is exact too; for ``"wasserstein"`` the barycenter is known to the cells of
    a grid, and `excess` says what that can cost.

    Parameters
    ----------
    batches : callable
        Returns an iterable of features (k, D) and class codes (k,), the same at every call.
    n_classes : int
        Number of classes; some may have no rows.
    method : {"wasserstein", "euclidean", "random", "medoid"}, default="wasserstein"
        As in `select_representatives`; ``"medoid"`` and the entropic solver need every class to
        fit.
    memory : int, default=2**30
        Bytes for all classes: ``memory / n_classes / (D × bytes of a number)`` rows of a class
        are kept; of a larger one ``memory / n_classes / 8`` counts, 16 D at most.
    random_state : int, optional
        For ``"random"``.
    progress : callable, optional
        Called as ``progress("representatives", rows so far, all rows, {})``; in the first pass
        all rows are not known and it is not called.
    **options
        `solver`, `reg` and `device` of `select_representatives`.

    Returns
    -------
    StreamedRepresentatives

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]])
    >>> parts = [(X[:2], np.array([0, 0])), (X[2:], np.array([0, 1]))]
    >>> stream_representatives(lambda: parts, 2).indices
    array([1, 3])
    """
    check_choice("method", method, METHODS)
    check_number("n_classes", n_classes, low=1, integer=True)
    check_number("memory", memory, low=1, integer=True)
    stream = _Stream(batches, n_classes)
    if method == "random":
        return _random(stream, random_state)
    share = memory // n_classes
    small: dict[int, _Rows] = {}
    large: dict[int, _Mean | _Barycenter] = {}
    for code, rows, numbers in stream.parts():
        if code in large:
            large[code].add(rows, numbers)
            continue
        own = small.setdefault(code, _Rows())
        own.add(rows, numbers)
        if own.n_bytes > share:
            large[code] = _center(method, rows.shape[1], share, options)
            for part, part_numbers in zip(own.rows, own.numbers, strict=True):
                large[code].add(part, part_numbers)
            del small[code]
    chosen = {code: _in_memory(own, method, options) for code, own in small.items()}
    for code, center in large.items():
        center.settle()
        chosen[code] = _Chosen(-1, np.empty(0), np.inf, center.center, center.excess)
    for code, rows, numbers in stream.parts(large, progress) if large else ():
        distances, before = large[code].distances(rows), chosen[code]
        best, tie = first_minimum(distances), TIE * float(np.abs(distances).max())
        if distances[best] < before.distance - tie:
            chosen[code] = replace(
                before, number=int(numbers[best]), row=rows[best], distance=float(distances[best])
            )
    warn_zero_rows([rows for center in large.values() for rows in center.zero_rows])
    return _table(chosen, stream, method)


@dataclass(frozen=True)
class _Chosen:
    """The representative of a class: number, features and distance of its row."""

    number: int
    row: NDArray[Any]
    distance: float = np.nan
    center: NDArray[np.float64] | None = None
    excess: float = 0.0


class _Stream:
    """The batches, checked, cut into the rows of one class, and numbered."""

    def __init__(self, batches: Batches, n_classes: int) -> None:
        self._batches, self.n_classes = batches, n_classes
        self.n_rows = self.n_features = 0
        self.dtype: Any = np.float32

    def parts(
        self, only: Any = None, progress: Progress | None = None
    ) -> Iterator[tuple[int, NDArray[Any], NDArray[np.intp]]]:
        """Yield (class, rows (k, D), their numbers (k,)), of some classes or all."""
        start = 0
        for X, codes in self._batches():
            X, codes = self._checked(X, codes, start)
            order = np.argsort(codes, kind="stable")
            present, begins = np.unique(codes[order], return_index=True)
            for code, members in zip(present.tolist(), np.split(order, begins[1:]), strict=True):
                if only is None or code in only:
                    yield code, X[members], members + start
            start += len(X)
            if progress is not None:
                progress("representatives", start, self.n_rows, {})
        if self.n_rows not in (0, start):
            raise DataError(
                f"the batches had {self.n_rows} rows at first and {start} the second time; they "
                "must be the same at every call"
            )
        if not start:
            raise DataError("there are no rows to choose representatives from")
        self.n_rows = start

    def _checked(
        self, X: NDArray[Any], codes: NDArray[np.intp], start: int
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        X, codes = as_matrix(X, "features"), np.asarray(codes)
        check_finite(X, f"features of the batch after row {start}")
        self.n_features, self.dtype = self.n_features or X.shape[1], X.dtype
        if X.shape[1] != self.n_features:
            raise DataError(
                f"the batch after row {start} has {X.shape[1]} features a row; the first has "
                f"{self.n_features}"
            )
        if codes.shape != (len(X),) or codes.dtype.kind not in "iu":
            raise DataError(
                f"codes must be {len(X)} integers, one a row; got {codes.dtype} {codes.shape}"
            )
        if len(codes) and not (codes.min() >= 0 and codes.max() < self.n_classes):
            raise DataError(f"codes must be in 0..{self.n_classes - 1}")
        return X, codes.astype(np.intp, copy=False)


@dataclass
class _Rows:
    """Rows of a class that fits into its share."""

    rows: list[NDArray[Any]] = field(default_factory=list)
    numbers: list[NDArray[np.intp]] = field(default_factory=list)
    n_bytes: int = 0

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        self.rows.append(rows)
        self.numbers.append(numbers)
        self.n_bytes += rows.nbytes


class _Barycenter:
    """The barycenter of a class on a line, from counts of cumulative values in equal cells.

    The barycenter's cumulative function at bin k is the order statistic of rank ⌊K(2k + 1)/2⌋
    among the K(n − 1) cumulative values of the class. Counts in T cells of [0, 1] say in which
    cell it lies, so it is known to 1/T. Let B₋ and B₊ have all values at the lower and at the
    upper ends of their cells: the quantile functions of the exact barycenter B and of any B̂ in
    between lie between theirs, so that W₂(B̂, B) ≤ ε = W₂(B₋, B₊). By the triangle inequality the
    instance nearest to B̂ is at most 2ε farther from B than the one nearest to B.
    """

    def __init__(self, n_features: int, n_cells: int) -> None:
        self._n_cells, self._n_inner, self._n_rows = n_cells, n_features - 1, 0
        self._counts = np.zeros(n_cells + 1, dtype=np.int64)  # the last one for 1 itself
        self.zero_rows: list[NDArray[np.intp]] = []
        self.center, self.excess = np.zeros(0), 0.0

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        """Take in rows (k, D) with their numbers (k,)."""
        histograms = np.array(rows, dtype=np.float64)
        self.zero_rows.append(simplex_in_place(histograms, numbers))
        values = cumulative(histograms)[:, :-1] * self._n_cells
        self._counts += np.bincount(values.astype(np.int64).ravel(), minlength=self._n_cells + 1)
        self._n_rows += len(rows)

    def settle(self) -> None:
        """Find the barycenter and the bound, once all rows are in."""
        ranks = self._n_rows * (2 * np.arange(self._n_inner) + 1) // 2
        below = np.cumsum(self._counts)
        cell = np.searchsorted(below, ranks, side="right")
        inside = (ranks - below[cell] + self._counts[cell] + 0.5) / self._counts[cell]
        low = cell / self._n_cells
        high = np.minimum((cell + 1) / self._n_cells, 1.0)
        self.center = histogram_of(np.minimum((cell + inside) / self._n_cells, 1.0))
        self.excess = 2.0 * float(np.sqrt(distances_to(histogram_of(low)[None, :], high)[0]))

    def distances(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return W₂² (k,) of rows (k, D) to the barycenter."""
        histograms = np.array(rows, dtype=np.float64)
        simplex_in_place(histograms, np.arange(len(rows)))
        found: NDArray[np.float64] = distances_to(
            histograms, cumulative(self.center[None, :])[0, :-1]
        )
        return found


class _Mean:
    """The mean of a class: exact, whatever its size."""

    def __init__(self, n_features: int) -> None:
        self._sums, self._n_rows = np.zeros(n_features), 0
        self.zero_rows: list[NDArray[np.intp]] = []
        self.center, self.excess = np.zeros(0), 0.0

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        """Take in rows (k, D)."""
        self._sums += rows.sum(axis=0, dtype=np.float64)
        self._n_rows += len(rows)

    def settle(self) -> None:
        """Divide, once all rows are in."""
        self.center = self._sums / self._n_rows

    def distances(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the Euclidean distance (k,) of rows (k, D) to the mean."""
        found: NDArray[np.float64] = np.linalg.norm(rows - self.center, axis=1)
        return found


def _table(chosen: dict[int, _Chosen], stream: _Stream, method: str) -> StreamedRepresentatives:
    """Return the representatives as arrays; classes without rows have zeros."""
    shape = (stream.n_classes, stream.n_features)
    indices, distances = np.full(shape[0], -1, dtype=np.intp), np.full(shape[0], np.nan)
    features, centers = np.zeros(shape, dtype=stream.dtype), np.zeros(shape)
    excess, has_centers = np.zeros(shape[0]), False
    for code, one in chosen.items():
        indices[code], features[code], distances[code] = one.number, one.row, one.distance
        excess[code] = one.excess
        if one.center is not None:
            centers[code], has_centers = one.center, True
    return StreamedRepresentatives(
        indices, distances, centers if has_centers else None, method, features, excess
    )


def _in_memory(own: _Rows, method: str, options: dict[str, Any]) -> _Chosen:
    rows, numbers = np.concatenate(own.rows), np.concatenate(own.numbers)
    found = select_representatives(rows, np.zeros(len(rows), dtype=np.intp), 1, method, **options)
    best = found.indices[0]
    center = None if found.barycenters is None else found.barycenters[0]
    return _Chosen(int(numbers[best]), rows[best], float(found.distances[0]), center)


def _center(
    method: str, n_features: int, share: int, options: dict[str, Any]
) -> _Mean | _Barycenter:
    if method == "euclidean":
        return _Mean(n_features)
    if method != "wasserstein" or options.get("solver", "exact") != "exact":
        raise DataError(
            f"a class has more rows than its share of {share} bytes of memory holds; only "
            "'euclidean', 'random' and 'wasserstein' with the exact solver can do without them: "
            "raise memory"
        )
    n_cells = min(share // 8, _MOST_CELLS * n_features)
    if n_cells < n_features:
        raise DataError(
            f"a class has a share of {share} bytes of memory, enough for {n_cells} counts; at "
            f"least one per feature, {n_features}, is expected: raise memory"
        )
    return _Barycenter(n_features, n_cells)


def _random(stream: _Stream, random_state: int | None) -> StreamedRepresentatives:
    """Give each row a priority; the lowest of a class wins, so all are as likely."""
    rng = np.random.default_rng(random_state)
    lowest: dict[int, float] = {}
    chosen: dict[int, _Chosen] = {}
    for code, rows, numbers in stream.parts():
        draws = rng.random(len(rows))
        best = int(draws.argmin())
        if draws[best] < lowest.get(code, np.inf):
            lowest[code] = float(draws[best])
            chosen[code] = _Chosen(int(numbers[best]), rows[best])
    return _table(chosen, stream, "random")
