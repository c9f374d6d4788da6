"""Sums over any number of rows, by class, feature map and class fold, and a bounded sample."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.blas import dsyrk
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from hgkt._arrays import FeatureMap, batches, check_map, map_rows, power_of
from hgkt._files import parse_json, reading, sha256, write_file
from hgkt._validation import check_features, check_number, label_text
from hgkt.exceptions import DataError
from hgkt.statistics.classes import ClassStatistics, check_square, class_sums

FORMAT = "hgkt-statistics-1"
SAMPLE_ROWS = 20_000
"""Rows of the sample by default: two numbers, γ's law, do not get better with more."""

Folds = Sequence[tuple[Sequence[Any], Sequence[Any]]]
"""Pairs (train classes, validation classes)."""

TRAIN, HELD_OUT, LEFT_OUT = "tv-"
"""What a class does in a fold; a class has one letter per fold."""

_KEY = "hgkt"
_FEWEST = 2  # rows of a class, whatever the limit: one to hold out, one to stay
_SLACK = 1.25  # how far over its limit a sample may grow before it is cut
_CHUNK_NUMBERS = 2**22  # of one step: 32 MiB in float64
_TINY = 1e-200


class GatheredStatistics:
    """Counts, sums and second moments of labelled rows, and a bounded sample of them.

    Everything is a float64 sum: rows come in any order, statistics of parts are merged, and no
    number of rows needs more memory. Second moments are kept apart for groups of classes that
    the same class folds hold out, so that those of a fold's train classes only need adding up.
    A few rows of each class are kept for validation.

    Parameters
    ----------
    feature_maps : sequence of map, default=("sqrt+l2",)
        Maps of a feature row; there is one set of sums for each.
    folds : sequence of (train classes, validation classes), optional
        Class folds. A class that none of them names is trained on in all.
    squares : bool, default=False
        Whether to sum the squares of every feature by class, too; GFZSL needs them.
    sample : int, default=20,000
        Rows to keep; at least two of each class are. 0: none.
    seed : int, default=0
        Of which rows are kept.

    Attributes
    ----------
    n_features : int
        Width D of a row; 0 before the first.
    sources : dict of str to str
        Name of each shard by its digest, where shards were read.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 4.0]])
    >>> stats = GatheredStatistics(["none"]).update(X[:1], ["zebra"])
    >>> stats = stats.merge(GatheredStatistics(["none"]).update(X[1:], ["horse", "zebra"]))
    >>> stats.classes.tolist(), stats.of("none").means.tolist()
    (['horse', 'zebra'], [[2.0, 3.0], [2.0, 2.5]])
    """

    def __init__(
        self,
        feature_maps: Sequence[FeatureMap] = ("sqrt+l2",),
        folds: Folds = (),
        *,
        squares: bool = False,
        sample: int = SAMPLE_ROWS,
        seed: int = 0,
    ) -> None:
        for name in feature_maps:
            check_map("feature_maps", name)
        if not feature_maps:
            raise DataError("feature_maps is empty; at least one map is expected")
        check_number("sample", sample, low=0, integer=True)
        self.feature_maps: tuple[FeatureMap, ...] = tuple(dict.fromkeys(feature_maps))
        self.n_folds, self.roles = len(folds), fold_roles(folds)
        self.has_squares, self.seed = bool(squares), seed
        self.sample = RowSample(sample)
        self.sources: dict[str, str] = {}
        self.n_features = 0
        self._dtype: np.dtype[Any] | None = None
        self._codes: dict[Any, int] = {}  # table row of each class, in the order they came
        self._groups: dict[str, int] = {}  # roles that occur, and the position of their moment
        # Tables have room for more classes than there are.
        self._group_of = np.zeros(0, dtype=np.intp)
        self._counts = np.zeros(0)
        self._sums: dict[FeatureMap, NDArray[np.float64]] = {}
        self._squares: dict[FeatureMap, NDArray[np.float64]] = {}
        # Σ x xᵀ (D, D) over the rows of each group, the upper triangle.
        self._moments: dict[FeatureMap, list[NDArray[np.float64]]] = {}

    # ------------------------------------------------------------------ taking in
    def update(self, X: ArrayLike, labels: ArrayLike, name: str | None = None) -> Self:
        """Take in rows of features with the names of their classes.

        Parameters
        ----------
        X : array-like of shape (n, D)
        labels : array-like of shape (n,)
            Names, or whole numbers.
        name : str, optional
            What the rows are called: it decides, with the seed, which are kept. By default the
            number of rows before them.
        """
        rows, names = np.asarray(X), np.asarray(labels)
        if not names.size and not rows.size:  # nothing has a type of its own
            return self
        features = self._checked(rows, names, name or "rows")
        self._set_width(features.shape[1], features.dtype)
        codes = self._encode(names)
        priorities = draw_priorities(self.seed, name or f"{self.n_instances}", len(codes))
        step = max(1, _CHUNK_NUMBERS // self.n_features)
        # One thread: the sums are the same to the bit whatever the number of workers.
        with _libraries().limit(limits=1, user_api="blas"):
            for batch in batches(len(codes), step):
                self._add_rows(features[batch], codes[batch])
        self.sample.take(features, codes, priorities, self._class_counts)
        return self

    def _checked(self, X: NDArray[Any], labels: NDArray[Any], name: str) -> NDArray[Any]:
        if X.ndim != 2 or X.dtype.kind not in "fiub" or not X.shape[1]:
            raise DataError(
                f"{name}: features are {X.dtype} of shape {X.shape}; a matrix of numbers (n, D) "
                "is expected"
            )
        if labels.shape != (len(X),):
            raise DataError(
                f"{name}: {len(X)} rows of features came with labels of shape {labels.shape}"
            )
        if self.n_features not in (0, X.shape[1]):
            raise DataError(
                f"{name}: rows have {X.shape[1]} features; those before have {self.n_features}"
            )
        features = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        check_features(features, f"features of {name}")
        return features

    def _set_width(self, width: int, dtype: np.dtype[Any]) -> None:
        """Make tables for rows of that width, where there are none yet."""
        self._dtype = dtype if self._dtype is None else np.result_type(self._dtype, dtype)
        if not self.n_features:
            check_square(width)
            self.n_features = width
            for key in self.feature_maps:
                self._sums[key], self._moments[key] = np.zeros((0, width)), []
                if self.has_squares:
                    self._squares[key] = np.zeros((0, width))

    def _encode(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the table rows (n,) of labels; new classes get new ones."""
        if labels.dtype.kind not in "OUTiu":
            raise DataError(f"labels are {labels.dtype}; names or whole numbers are expected")
        try:
            names, codes = np.unique(labels, return_inverse=True)
        except TypeError:
            raise DataError("labels are of several kinds; all names are expected") from None
        return self._register(names.tolist())[codes]

    def _register(self, names: Sequence[Any]) -> NDArray[np.intp]:
        """Return the table rows (n,) of classes; those that are new get new ones."""
        new = [name for name in names if name not in self._codes]
        for name in new:
            first = next(iter(self._codes), name)
            if not isinstance(name, str | int) or isinstance(name, str) != isinstance(first, str):
                raise DataError(
                    f"class {label_text(name)} is of another kind than class {label_text(first)}; "
                    "all names, or all whole numbers, are expected"
                )
            self._codes[name] = len(self._codes)
        if len(self._codes) > len(self._counts):
            size = max(len(self._codes), 2 * len(self._counts))
            self._group_of = _padded(self._group_of, size)
            self._counts = _padded(self._counts, size)
            for table in (self._sums, self._squares):
                table.update({key: _padded(array, size) for key, array in table.items()})
        for name in new:
            self._group_of[self._codes[name]] = self._group(self.role(name))
        return np.array([self._codes[name] for name in names], dtype=np.intp)

    def _group(self, roles: str) -> int:
        """Return the position of the second moment of classes with these roles."""
        if roles not in self._groups:
            self._groups[roles] = len(self._groups)
            for moments in self._moments.values():
                moments.append(np.zeros((self.n_features, self.n_features)))
        return self._groups[roles]

    def _add_rows(self, X: NDArray[Any], codes: NDArray[np.intp]) -> None:
        """Add up a chunk of rows (n, D), sorted by group and class."""
        groups = self._group_of[codes]
        order = np.lexsort((codes, groups))
        codes, groups, rows = codes[order], groups[order], X[order].astype(np.float64)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        present = codes[starts]
        edges = np.flatnonzero(np.diff(groups, prepend=-1))
        self._counts[present] += np.diff(starts, append=len(codes))
        for key, moments in self._moments.items():
            mapped = _mapped(rows, key)
            self._sums[key][present] += _sums_of_ranges(mapped, starts)
            if self.has_squares:
                self._squares[key][present] += _sums_of_ranges(mapped**2, starts)
            for first, last in zip(edges, [*edges[1:], len(codes)], strict=True):
                # XᵀX is added without a temporary. BLAS counts columns first: the upper triangle
                # of this array is its lower one.
                moment = moments[groups[first]]
                dsyrk(1.0, mapped[first:last].T, beta=1.0, c=moment.T, lower=1, overwrite_c=1)

    def role(self, name: Any) -> str:
        """Return what a class does in each fold, a letter each."""
        return self.roles.get(name, TRAIN * self.n_folds)

    def merge(self, other: GatheredStatistics) -> Self:
        """Add the statistics of other rows, of the same classes or of others.

        Both must have been gathered with the same maps and, where they share classes, folds.
        """
        self._check_alike(other)
        if not other.n_features:
            return self
        self._set_width(other.n_features, other.dtype)
        self.roles = {**other.roles, **self.roles}
        rows, n_rows = self._register(list(other._codes)), len(other._codes)
        self._counts[rows] += other._class_counts
        for key in self.feature_maps:
            self._sums[key][rows] += other._sums[key][:n_rows]
            if self.has_squares:
                self._squares[key][rows] += other._squares[key][:n_rows]
            for roles, position in other._groups.items():
                self._moments[key][self._group(roles)] += other._moments[key][position]
        self.sample.merge(other.sample, rows, self._class_counts)
        self.sources |= other.sources
        return self

    def _check_alike(self, other: GatheredStatistics) -> None:
        for what, mine, theirs in (
            ("feature_maps", self.feature_maps, other.feature_maps),
            ("squares", self.has_squares, other.has_squares),
            ("number of folds", self.n_folds, other.n_folds),
            ("sample", self.sample.limit, other.sample.limit),
        ):
            if mine != theirs:
                raise DataError(
                    f"statistics with {what} {mine!r} and {theirs!r} cannot be merged; "
                    "gather both alike"
                )
        if 0 < self.n_features != other.n_features > 0:
            raise DataError(
                f"statistics of {self.n_features} and of {other.n_features} features cannot be "
                "merged"
            )
        for name in other._codes:
            if name in self._codes and self.role(name) != other.role(name):
                raise DataError(
                    f"class {label_text(name)} is held out in other folds in the statistics to be "
                    "merged; gather both with the same folds="
                )
        for digest, name in other.sources.items():
            if digest in self.sources:
                raise DataError(f"both statistics hold the rows of {name}; they would count twice")

    # ------------------------------------------------------------------ reading
    @property
    def classes(self) -> NDArray[Any]:
        """Labels (L,) of the classes with rows, sorted."""
        return np.array(sorted(self._codes))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features: float32 where all rows came so, else float64."""
        return np.dtype(np.float64) if self._dtype is None else self._dtype

    @property
    def counts(self) -> NDArray[np.float64]:
        """Rows of each class (L,), ordered as `classes`."""
        return self._counts[self._order()]

    @property
    def n_instances(self) -> int:
        """Number of rows taken in."""
        return int(self._counts.sum())

    @property
    def groups(self) -> list[str]:
        """The roles that occur; classes that share theirs share a second moment."""
        return list(self._groups)

    @property
    def folds(self) -> list[tuple[list[Any], list[Any]]]:
        """The class folds, as far as classes have rows: (train, validation) of each, sorted."""
        roles = {name: self.role(name) for name in sorted(self._codes)}
        return [
            (
                [name for name, role in roles.items() if role[number] == TRAIN],
                [name for name, role in roles.items() if role[number] == HELD_OUT],
            )
            for number in range(self.n_folds)
        ]

    def rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows kept (n, D) and their labels (n,), in the order in which they came."""
        self.sample.cut(self._class_counts)
        features, codes, _ = self.sample.joined()
        X = features.reshape(-1, self.n_features).astype(self.dtype, copy=False)
        return X, np.array(list(self._codes))[codes]

    def of(self, feature_map: FeatureMap, groups: Iterable[str] | None = None) -> ClassStatistics:
        """Return the sums of mapped rows, classes sorted; only of some groups where named."""
        rows, positions = self._chosen(feature_map, groups)
        statistics = ClassStatistics(len(rows), self.n_features)
        statistics.counts, statistics.sums = self._counts[rows], self._sums[feature_map][rows]
        for position in positions:
            statistics.second_moment += self._moments[feature_map][position]
        upper = np.triu(statistics.second_moment)
        statistics.second_moment = upper + np.triu(upper, 1).T
        return statistics

    def squares_of(
        self, feature_map: FeatureMap, groups: Iterable[str] | None = None
    ) -> NDArray[np.float64]:
        """Return Σ x² (L, D) of the mapped rows of each class."""
        rows, _ = self._chosen(feature_map, groups)
        if not self.has_squares:
            raise DataError(
                "the statistics hold no sums of squares by class; gather with squares=True"
            )
        return self._squares[feature_map][rows]

    def _chosen(
        self, feature_map: FeatureMap, groups: Iterable[str] | None
    ) -> tuple[NDArray[np.intp], list[int]]:
        """Return where the classes of some groups, and these, are in the tables of a map."""
        if feature_map not in self.feature_maps:
            maps = ", ".join(repr(name) for name in self.feature_maps)
            raise DataError(
                f"the statistics are of the feature maps {maps}; {feature_map!r} is needed: "
                "gather with feature_maps="
            )
        if not self.n_features:
            raise DataError("the statistics are of no rows; at least two classes are expected")
        positions = [self._groups[key] for key in (self._groups if groups is None else groups)]
        order = self._order()
        return order[np.isin(self._group_of[order], positions)], positions

    @property
    def _class_counts(self) -> NDArray[np.float64]:
        """Rows of each class (L,), in the order in which classes came."""
        return self._counts[: len(self._codes)]

    def _order(self) -> NDArray[np.intp]:
        """Return the table row of each class, sorted by name."""
        return np.array([self._codes[name] for name in sorted(self._codes)], dtype=np.intp)

    # ------------------------------------------------------------------ files
    def save(self, path: str | Path) -> Path:
        """Write everything to one file (safetensors), in one step; see `load`."""
        from safetensors.numpy import save

        self.sample.cut(self._class_counts)
        features, codes, priorities = self.sample.joined()
        arrays = {
            **self._arrays(),
            "sample/X": features,
            "sample/codes": codes.astype(np.int64),
            "sample/priorities": priorities,
        }
        about = {
            "format": FORMAT,
            "classes": list(self._codes),
            "feature_maps": self.feature_maps,
            "n_folds": self.n_folds,
            "roles": list(self.roles.items()),
            "squares": self.has_squares,
            "sample": self.sample.limit,
            "seed": self.seed,
            "n_features": self.n_features,
            "dtype": self.dtype.name,
            "sources": self.sources,
        }
        # Not the library's save_file: it would put another file in the place of the scratch.
        return write_file(path, save(arrays, {_KEY: json.dumps(about)}))

    @classmethod
    def load(cls, path: str | Path) -> GatheredStatistics:
        """Read what `save` wrote, to the bit."""
        from safetensors import safe_open

        with (
            reading(path, "statistics (it is truncated or of another kind)"),
            safe_open(path, framework="numpy") as file,
        ):
            about = parse_json((file.metadata() or {}).get(_KEY, "{}"))
            if not isinstance(about, dict) or about.get("format") != FORMAT:
                raise DataError(f"{path} holds no statistics of this version of hgkt ({FORMAT})")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            options = {key: about[key] for key in ("squares", "sample", "seed")}
            statistics = cls(about["feature_maps"], **options)
            statistics.n_folds, statistics.roles = about["n_folds"], dict(about["roles"])
            statistics.sources = about["sources"]
            if about["classes"]:
                statistics._set_width(about["n_features"], np.dtype(about["dtype"]))
                statistics._register(about["classes"])
                statistics._restore(arrays)
        return statistics

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return every table by a name that can be written; of a moment, the upper triangle."""
        n_classes, triangle = len(self._codes), np.tri(self.n_features, dtype=bool).T
        arrays = {"counts": self._class_counts}
        for number, key in enumerate(self._sums):
            arrays[f"sums/{number}"] = self._sums[key][:n_classes]
            if self.has_squares:
                arrays[f"squares/{number}"] = self._squares[key][:n_classes]
            for position, moment in enumerate(self._moments[key]):
                arrays[f"moment/{number}/{position}"] = moment[triangle]
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over what `save` wrote; a KeyError or ValueError where it does not fit."""
        for name, own in self._arrays().items():
            if arrays[name].shape != own.shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} is of shape {arrays[name].shape}, not {own.shape}")
        triangle = np.tri(self.n_features, dtype=bool).T
        self._counts = arrays["counts"]
        for number, key in enumerate(self.feature_maps):
            self._sums[key] = arrays[f"sums/{number}"]
            if self.has_squares:
                self._squares[key] = arrays[f"squares/{number}"]
            for position, moment in enumerate(self._moments[key]):
                moment[triangle] = arrays[f"moment/{number}/{position}"]
        X, codes, priorities = (arrays[f"sample/{key}"] for key in ("X", "codes", "priorities"))
        if len(codes) and X.shape != (len(priorities), self.n_features):
            raise ValueError(f"the rows kept are of shape {X.shape}")
        self.sample.take(X, codes.astype(np.intp), priorities, self._class_counts)


def fold_roles(folds: Folds) -> dict[Any, str]:
    """Return what each class that a fold names does in every fold, a letter each.

    Examples
    --------
    >>> fold_roles([(["a", "b"], ["c"]), (["a", "c"], ["b"])])
    {'a': 'tt', 'b': 'tv', 'c': 'vt'}
    """
    names = sorted({name for fold in folds for part in fold for name in part})
    parts = [(set(train), set(val)) for train, val in folds]
    for train, val in parts:
        for name in train & val:
            raise DataError(
                f"class {label_text(name)} is both a train and a validation class of one fold"
            )

    def role(name: Any, train: set[Any], val: set[Any]) -> str:
        return HELD_OUT if name in val else TRAIN if name in train else LEFT_OUT

    return {name: "".join(role(name, *part) for part in parts) for name in names}


@cache
def _libraries() -> ThreadpoolController:
    """Look for the libraries of linear algebra once: it takes longer than a small product."""
    return ThreadpoolController()


def _mapped(rows: NDArray[np.float64], kind: FeatureMap) -> NDArray[np.float64]:
    """Map rows (n, D) as `map_rows` does; the usual case, √(x/Σx), in half the time."""
    if power_of(kind) == 0.5 and rows.min() >= 0:
        totals = rows.sum(axis=1, keepdims=True)
        if totals.min() > _TINY:
            shares: NDArray[np.float64] = rows / totals
            np.sqrt(shares, out=shares)
            return shares
    return map_rows(rows, kind)


def _sums_of_ranges(rows: NDArray[np.float64], starts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Sum rows (n, D) from each start to the next: (p, D); ten times as fast as reduceat."""
    n_rows = len(rows)
    ends = np.append(starts, n_rows)
    ranges = csr_array((np.ones(n_rows), np.arange(n_rows), ends), shape=(len(starts), n_rows))
    found: NDArray[np.float64] = ranges @ rows
    return found


def _padded(array: NDArray[Any], size: int) -> NDArray[Any]:
    padded = np.zeros((size, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    return padded


# ---------------------------------------------------------------------- the sums of a fold
@dataclass(frozen=True)
class FoldSums:
    """Sums of the rows that a fold trains on: its train classes without the rows held out.

    Parameters
    ----------
    whole : GatheredStatistics
        Sums of all rows.
    number : int
        Number of the fold.
    X : ndarray of shape (n, D)
        Rows of train classes that are held out.
    labels : ndarray of shape (n,)
        Their classes.
    """

    whole: GatheredStatistics
    number: int
    X: NDArray[Any]
    labels: NDArray[Any]

    @cached_property
    def classes(self) -> NDArray[Any]:
        """Labels (L,) of the classes trained on, sorted."""
        return np.array(self.whole.folds[self.number][0])

    @property
    def feature_maps(self) -> tuple[FeatureMap, ...]:
        """The maps whose sums are there."""
        return self.whole.feature_maps

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self.whole.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features that were summed."""
        return self.whole.dtype

    def of(self, feature_map: FeatureMap) -> ClassStatistics:
        """Return the sums of mapped rows, classes sorted."""
        statistics = self.whole.of(feature_map, self._groups)
        held_out = ClassStatistics(len(self.classes), self.n_features)
        held_out.update(*self._held_out(feature_map))
        statistics.counts -= held_out.counts
        statistics.sums -= held_out.sums
        statistics.second_moment -= held_out.second_moment
        return statistics

    def squares_of(self, feature_map: FeatureMap) -> NDArray[np.float64]:
        """Return Σ x² (L, D) of the mapped rows of each class."""
        rows, codes = self._held_out(feature_map)
        squares = self.whole.squares_of(feature_map, self._groups)
        return squares - class_sums(rows**2, codes, len(self.classes))

    @property
    def _groups(self) -> list[str]:
        return [roles for roles in self.whole.groups if roles[self.number] == TRAIN]

    def _held_out(self, feature_map: FeatureMap) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        rows = map_rows(np.asarray(self.X, dtype=np.float64), feature_map)
        return rows, np.searchsorted(self.classes, self.labels)


Sums = GatheredStatistics | FoldSums
"""What a closed form learns from: sums by class, for some feature maps."""


# ---------------------------------------------------------------------- the sample
class RowSample:
    """Of every class the rows of lowest priority, as many as `quota` says.

    Every row draws a priority at random, so each is as likely to be kept as any other of its
    class. Which rows are kept does not depend on the order in which they came: samples of parts
    are joined and cut to the sample of the whole.

    Parameters
    ----------
    limit : int
        Rows to keep; 0 for none.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.n_rows = 0
        self._parts: list[tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]] = []
        self._bars = np.zeros(0)  # of each class the priority that a row must be below

    def take(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        priorities: NDArray[np.float64],
        counts: NDArray[Any],
    ) -> None:
        """Take in rows (n, D); `counts` (L,) are those of all rows so far, these included."""
        if not self.limit:
            return
        self._add_bars(len(counts))
        low = np.flatnonzero(priorities < self._bars[codes])
        if len(low):
            self._parts.append((X[low], codes[low], priorities[low]))
            self.n_rows += len(low)
        if self.n_rows > _SLACK * self.limit:
            self.cut(counts)

    def merge(self, other: RowSample, rows: NDArray[np.intp], counts: NDArray[Any]) -> None:
        """Take in another sample, whose class c is class ``rows[c]`` here; counts as in `take`.

        Its rows are not copied before it is known which of them stay.
        """
        self._add_bars(len(counts))
        for X, codes, priorities in other._parts:
            self._parts.append((X, rows[codes], priorities))
        self.n_rows += other.n_rows
        if self.n_rows > _SLACK * self.limit:
            self.cut(counts)

    def _add_bars(self, n_classes: int) -> None:
        new = np.full(max(0, n_classes - len(self._bars)), np.inf)
        self._bars = np.concatenate([self._bars, new])

    def cut(self, counts: NDArray[Any]) -> None:
        """Leave what the quota allows for classes of so many rows (L,)."""
        if counts.sum() <= self.limit or not self.n_rows:
            return
        codes = np.concatenate([part[1] for part in self._parts])
        priorities = np.concatenate([part[2] for part in self._parts])
        most = quota(counts, self.limit)
        order = np.lexsort((priorities, codes))
        _, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
        ranks = np.arange(len(codes)) - np.repeat(starts, sizes)
        last = order[ranks == most - 1]
        self._bars[codes[last]] = np.nextafter(priorities[last], np.inf)
        stay = np.sort(order[ranks < most])
        if len(stay) < len(codes):
            self._parts = [(self._rows_at(stay), codes[stay], priorities[stay])]
            self.n_rows = len(stay)

    def _rows_at(self, numbers: NDArray[np.intp]) -> NDArray[Any]:
        """Return some rows, by ascending number; the others are not copied on the way."""
        dtype = np.result_type(*(part[0].dtype for part in self._parts))
        found = np.empty((len(numbers), self._parts[0][0].shape[1]), dtype)
        start = 0
        for X, _, _ in self._parts:
            first, last = np.searchsorted(numbers, [start, start + len(X)])
            found[first:last] = X[numbers[first:last] - start]
            start += len(X)
        return found

    def joined(self) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
        """Return features (n, D), classes (n,) and priorities (n,), in the order they came."""
        if not self._parts:
            return np.zeros((0, 0), np.float32), np.zeros(0, np.intp), np.zeros(0)
        if len(self._parts) > 1:
            X, codes, priorities = map(np.concatenate, zip(*self._parts, strict=True))
            self._parts = [(X, codes, priorities)]
        return self._parts[0]


def draw_priorities(seed: int, name: str, n_rows: int) -> NDArray[np.float64]:
    """Draw the priorities (n_rows,) of the rows of a shard: a matter of its name alone.

    Examples
    --------
    >>> (draw_priorities(0, "a", 3) == draw_priorities(0, "a", 3)).all()
    np.True_
    """
    return np.random.default_rng([seed, int(sha256(name)[:16], 16)]).random(n_rows)


def quota(counts: NDArray[Any], limit: int) -> int:
    """Return how many rows of each class fit: the largest q with Σ_c min(n_c, q) ≤ limit.

    It is two or more, and no more than the largest class has.

    Examples
    --------
    >>> quota(np.array([100, 3, 50]), 43), quota(np.array([9, 9]), 1), quota(np.array([9, 4]), 99)
    (20, 2, 9)
    """
    low, high = _FEWEST, max(int(counts.max(initial=0)), _FEWEST)
    while low < high:
        middle = (low + high + 1) // 2
        fits = np.minimum(counts, middle).sum() <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
