"""The sums themselves: tables with a row per class, and a second moment per group of classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from hgkt._geometry import FeatureMap, map_rows, power_of
from hgkt.statistics.classes import ClassStatistics, check_square

_CHUNK_NUMBERS = 2**22  # of one step: 32 MiB in float64
_TINY = 1e-200


class SumTables:
    """Counts, sums and second moments of mapped rows, in float64; classes may come at any time.

    Parameters
    ----------
    feature_maps : sequence of map
        There is a set of sums for each.
    n_features : int
        Width D of a row.
    squares : bool
        Whether squares are summed by class, too.

    Attributes
    ----------
    counts : ndarray of shape (L,)
    sums, squares : dict of map to ndarray of shape (L, D)
    moments : dict of map to list of ndarray of shape (D, D)
        Σ x xᵀ over the rows of each group, the upper triangle.
    group_of : ndarray of shape (L,)
        The group of each class.
    """

    def __init__(self, feature_maps: Sequence[FeatureMap], n_features: int, squares: bool) -> None:
        check_square(n_features)
        self.n_features, self.n_classes = n_features, 0
        self.group_of = np.zeros(0, dtype=np.intp)
        self._counts = np.zeros(0)
        self._sums = {key: np.zeros((0, n_features)) for key in feature_maps}
        self._squares = {key: np.zeros((0, n_features)) for key in feature_maps if squares}
        self.moments: dict[FeatureMap, list[NDArray[np.float64]]] = {
            key: [] for key in feature_maps
        }

    @property
    def counts(self) -> NDArray[np.float64]:
        """Rows of each class (L,)."""
        return self._counts[: self.n_classes]

    @property
    def sums(self) -> dict[FeatureMap, NDArray[np.float64]]:
        """Sums (L, D) of the rows of each class."""
        return {key: array[: self.n_classes] for key, array in self._sums.items()}

    @property
    def squares(self) -> dict[FeatureMap, NDArray[np.float64]]:
        """Sums (L, D) of their squares."""
        return {key: array[: self.n_classes] for key, array in self._squares.items()}

    def add_classes(self, groups: Sequence[int]) -> None:
        """Make room for classes of these groups, which are there or come next."""
        self.group_of = np.concatenate([self.group_of, np.array(groups, dtype=np.intp)])
        self.n_classes = len(self.group_of)
        if self.n_classes > len(self._counts):
            size = max(self.n_classes, 2 * len(self._counts))
            self._counts = _padded(self._counts, size)
            for table in (self._sums, self._squares):
                table.update({key: _padded(array, size) for key, array in table.items()})
        for moments in self.moments.values():
            for _ in range(len(moments), max(groups, default=-1) + 1):
                moments.append(np.zeros((self.n_features, self.n_features)))

    def add_rows(self, X: NDArray[Any], codes: NDArray[np.intp]) -> None:
        """Add rows (n, D) of classes (n,)."""
        step = max(1, _CHUNK_NUMBERS // self.n_features)
        # One thread: the sums are the same to the bit whatever the number of workers.
        with _libraries().limit(limits=1, user_api="blas"):
            for start in range(0, len(codes), step):
                self._add_chunk(X[start : start + step], codes[start : start + step])

    def _add_chunk(self, X: NDArray[Any], codes: NDArray[np.intp]) -> None:
        """Add up a chunk, its rows sorted by group and class."""
        groups = self.group_of[codes]
        order = np.lexsort((codes, groups))
        codes, groups, rows = codes[order], groups[order], X[order].astype(np.float64)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        present = codes[starts]
        edges = np.flatnonzero(np.diff(groups, prepend=-1))
        self._counts[present] += np.diff(starts, append=len(codes))
        for key, moments in self.moments.items():
            mapped = _mapped(rows, key)
            self._sums[key][present] += _sums_of_ranges(mapped, starts)
            if key in self._squares:
                self._squares[key][present] += _sums_of_ranges(mapped**2, starts)
            for first, last in zip(edges, [*edges[1:], len(codes)], strict=True):
                _add_product(moments[groups[first]], mapped[first:last])

    def merge(self, other: SumTables, rows: NDArray[np.intp], groups: Sequence[int]) -> None:
        """Add other sums; `rows` and `groups` are where its classes and groups are here."""
        self._counts[rows] += other.counts
        for own, others in ((self._sums, other.sums), (self._squares, other.squares)):
            for key, array in own.items():
                array[rows] += others[key]
        for key, moments in self.moments.items():
            for position, moment in zip(groups, other.moments[key], strict=True):
                moments[position] += moment

    def statistics(
        self, feature_map: FeatureMap, rows: NDArray[np.intp], groups: Sequence[int]
    ) -> ClassStatistics:
        """Return the sums of some classes, which are those of some groups."""
        statistics = ClassStatistics(len(rows), self.n_features)
        statistics.counts, statistics.sums = self._counts[rows], self._sums[feature_map][rows]
        for position in groups:
            statistics.second_moment += self.moments[feature_map][position]
        upper = np.triu(statistics.second_moment)
        statistics.second_moment = upper + np.triu(upper, 1).T
        return statistics

    @classmethod
    def restored(
        cls,
        arrays: dict[str, NDArray[Any]],
        feature_maps: Sequence[FeatureMap],
        n_features: int,
        squares: bool,
        group_of: Sequence[int],
    ) -> SumTables:
        """Make tables of what `arrays` returned; a KeyError or ValueError where it does not fit."""
        tables = cls(feature_maps, n_features, squares)
        tables.add_classes(group_of)
        for name, array in tables.arrays().items():
            if arrays[name].shape != array.shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} is of shape {arrays[name].shape}, not {array.shape}")
        tables._counts = arrays["counts"]
        for number, key in enumerate(feature_maps):
            tables._sums[key] = arrays[f"sums/{number}"]
            if squares:
                tables._squares[key] = arrays[f"squares/{number}"]
            positions = range(len(tables.moments[key]))
            tables.moments[key] = [_unpacked(arrays.pop(f"moment/{number}/{k}")) for k in positions]
        return tables

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return every array by a name that can be written; of a moment, the upper triangle."""
        arrays = {"counts": self.counts}
        for number, key in enumerate(self.moments):
            arrays[f"sums/{number}"] = self.sums[key]
            if key in self._squares:
                arrays[f"squares/{number}"] = self.squares[key]
            for position, moment in enumerate(self.moments[key]):
                arrays[f"moment/{number}/{position}"] = _packed(moment)
        return arrays


@cache
def _libraries() -> ThreadpoolController:
    """Look for the libraries of linear algebra once: it takes longer than a small product."""
    return ThreadpoolController()


def _mapped(rows: NDArray[np.float64], kind: FeatureMap) -> NDArray[np.float64]:
    """Map rows (n, D) as `map_rows` does; the usual case, √(x/Σx), in half the time."""
    if power_of(kind) == 0.5 and rows.min() >= 0:
        totals = rows.sum(axis=1, keepdims=True)
        if totals.min() > _TINY:
            shares = rows / totals
            return np.sqrt(shares, out=shares)
    return map_rows(rows, kind)


def _sums_of_ranges(rows: NDArray[np.float64], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Sum rows (n, D) from each start to the next: (p, D); ten times as fast as reduceat."""
    n_rows = len(rows)
    ends = np.append(starts, n_rows)
    ranges = csr_array((np.ones(n_rows), np.arange(n_rows), ends), shape=(len(starts), n_rows))
    found: NDArray[np.float64] = ranges @ rows
    return found


def _add_product(moment: NDArray[np.float64], rows: NDArray[np.float64]) -> None:
    """Add XᵀX of rows (n, D) to the upper triangle of a moment (D, D), without a temporary."""
    # BLAS counts columns first: the upper triangle of this array is its lower one.
    dsyrk(1.0, rows.T, beta=1.0, c=moment.T, lower=1, overwrite_c=1)


def _packed(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangle (D(D + 1)/2,) of a symmetric matrix (D, D), row after row."""
    return np.concatenate([row[number:] for number, row in enumerate(moment)])


def _unpacked(triangle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric matrix of which `_packed` returned the triangle."""
    width = int(np.sqrt(2 * len(triangle)))
    moment, start = np.empty((width, width)), 0
    for number in range(width):
        row = triangle[start : start + width - number]
        moment[number, number:] = moment[number:, number] = row
        start += len(row)
    return moment


def _padded(array: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    padded = np.zeros((size, *array.shape[1:]))
    padded[: len(array)] = array
    return padded
