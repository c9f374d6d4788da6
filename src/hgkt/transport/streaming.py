"""Representatives of rows that are never in memory together: two passes over their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.transport._cells import Gathered, MeanSums, QuantileCells
from hgkt.transport.representatives import METHODS, Representatives, select_representatives
from hgkt.transport.simplex import as_matrix, warn_zero_rows

MEMORY = 2**30
"""Bytes that the classes share by default."""

_MOST_CELLS = 16  # per feature
_TIE = 1e-12

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
    negative: str = "shift",
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
        As in `select_representatives`; ``"medoid"``, and any `options` other than the squared
        cost on a line, need every class to fit.
    memory : int, default=2**30
        Bytes for all classes: ``memory / n_classes / (D × bytes of a number)`` rows of a class
        are kept; of a larger one ``memory / n_classes / 8`` counts, 16 D at most.
    negative : str
        See `to_simplex`.
    random_state : int, optional
        For ``"random"``.
    progress : callable, optional
        Called as ``progress("representatives", rows so far, all rows, {})``; in the first pass
        all rows are not known and it is not called.
    **options
        `solver`, `cost`, `reg` and `device` of `select_representatives`.

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
    share = memory // n_classes
    choices = partial(_in_memory, method=method, negative=negative, options=options)
    if method == "random":
        return _random(stream, random_state)
    kept: dict[int, _Kept] = {}
    large: dict[int, Gathered] = {}
    for code, rows, numbers in stream.parts():
        if code in large:
            large[code].add(rows, numbers)
            continue
        mine = kept.setdefault(code, _Kept())
        mine.add(rows, numbers)
        if mine.n_bytes > share:
            large[code] = _gatherer(method, rows.shape[1], share, negative, options)
            for part, part_numbers in zip(mine.rows, mine.numbers, strict=True):
                large[code].add(part, part_numbers)
            del kept[code]
    found = _Found(n_classes, stream.n_features, stream.dtype, method)
    for code, mine in kept.items():
        found.take(code, *choices(mine))
    for code, gathered in large.items():
        gathered.settle()
        found.centers[code], found.excess[code] = gathered.center, gathered.excess
    if large:
        for code, rows, numbers in stream.parts(large, progress):
            found.look(code, rows, numbers, large[code].distances(rows, numbers))
    zero_rows = [rows for gathered in large.values() for rows in gathered.zero_rows]
    warn_zero_rows(np.concatenate(zero_rows) if zero_rows else np.empty(0, dtype=np.intp))
    return found.result()


class _Stream:
    """The batches, checked, cut into the rows of one class, and numbered."""

    def __init__(self, batches: Batches, n_classes: int) -> None:
        self._batches, self._n_classes = batches, n_classes
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
        if len(codes) and not (codes.min() >= 0 and codes.max() < self._n_classes):
            raise DataError(f"codes must be in 0..{self._n_classes - 1}")
        return X, codes.astype(np.intp, copy=False)


@dataclass
class _Kept:
    """Rows of a class that fits into its share."""

    rows: list[NDArray[Any]] = field(default_factory=list)
    numbers: list[NDArray[np.intp]] = field(default_factory=list)
    n_bytes: int = 0

    def add(self, rows: NDArray[Any], numbers: NDArray[np.intp]) -> None:
        self.rows.append(rows)
        self.numbers.append(numbers)
        self.n_bytes += rows.nbytes


class _Found:
    """The representatives so far."""

    def __init__(self, n_classes: int, n_features: int, dtype: Any, method: str) -> None:
        self._method = method
        self.indices = np.full(n_classes, -1, dtype=np.intp)
        self.distances = np.full(n_classes, np.nan)
        self.features = np.zeros((n_classes, n_features), dtype=dtype)
        self.centers: dict[int, NDArray[np.float64]] = {}
        self.excess = np.zeros(n_classes)

    def take(
        self,
        code: int,
        number: int,
        row: NDArray[Any],
        distance: float,
        center: NDArray[np.float64] | None,
    ) -> None:
        """Set the representative of a class."""
        self.indices[code], self.features[code], self.distances[code] = number, row, distance
        if center is not None:
            self.centers[code] = center

    def look(
        self,
        code: int,
        rows: NDArray[Any],
        numbers: NDArray[np.intp],
        distances: NDArray[np.float64],
    ) -> None:
        """Take the nearest of some rows where it is nearer than those before."""
        tie = _TIE * float(np.abs(distances).max())
        best = int(np.argmax(distances <= distances.min() + tie))
        if self.indices[code] < 0 or distances[best] < self.distances[code] - tie:
            self.take(code, int(numbers[best]), rows[best], float(distances[best]), None)

    def result(self) -> StreamedRepresentatives:
        """Return what was found."""
        centers = None
        if self.centers:
            centers = np.zeros(self.features.shape)
            for code, center in self.centers.items():
                centers[code] = center
        return StreamedRepresentatives(
            self.indices, self.distances, centers, self._method, self.features, self.excess
        )


def _in_memory(
    mine: _Kept, *, method: str, negative: str, options: dict[str, Any]
) -> tuple[int, NDArray[Any], float, NDArray[np.float64] | None]:
    rows, numbers = np.concatenate(mine.rows), np.concatenate(mine.numbers)
    codes = np.zeros(len(rows), dtype=np.intp)
    found = select_representatives(rows, codes, 1, method, negative=negative, **options)
    best = found.indices[0]
    center = None if found.barycenters is None else found.barycenters[0]
    return int(numbers[best]), rows[best], float(found.distances[0]), center


def _gatherer(
    method: str, n_features: int, share: int, negative: str, options: dict[str, Any]
) -> Gathered:
    if method == "euclidean":
        return MeanSums(n_features)
    on_a_line = options.get("solver", "exact") == "exact" and (
        isinstance(options.get("cost", "squared"), str)
        and options.get("cost", "squared") == "squared"
    )
    if method != "wasserstein" or not on_a_line:
        raise DataError(
            f"a class has more rows than its share of {share} bytes of memory holds; only "
            "'euclidean', 'random' and 'wasserstein' with the exact solver and the squared cost "
            "can do without them: raise memory"
        )
    n_cells = min(share // 8, _MOST_CELLS * n_features)
    if n_cells < n_features:
        raise DataError(
            f"a class has a share of {share} bytes of memory, enough for {n_cells} counts; at "
            f"least one per feature, {n_features}, is expected: raise memory"
        )
    return QuantileCells(n_features, n_cells, negative)


def _random(stream: _Stream, random_state: int | None) -> StreamedRepresentatives:
    """Give each row a priority; the lowest of a class wins, so all are as likely."""
    rng = np.random.default_rng(random_state)
    lowest: dict[int, tuple[float, int, NDArray[Any]]] = {}
    for code, rows, numbers in stream.parts():
        draws = rng.random(len(rows))
        best = int(draws.argmin())
        if code not in lowest or draws[best] < lowest[code][0]:
            lowest[code] = (float(draws[best]), int(numbers[best]), rows[best])
    found = _Found(stream._n_classes, stream.n_features, stream.dtype, "random")
    for code, (_, number, row) in lowest.items():
        found.take(code, number, row, np.nan, None)
    return found.result()
