"""Sums over rows of any number: by class name, feature map and class fold, with a few rows kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._geometry import FeatureMap, check_map
from hgkt._validation import check_features, check_number, label_text
from hgkt.exceptions import DataError
from hgkt.statistics.classes import ClassStatistics
from hgkt.statistics.roles import HELD_OUT, TRAIN, Folds, fold_roles
from hgkt.statistics.sample import SAMPLE_ROWS, RowSample, draw_priorities
from hgkt.statistics.tables import SumTables


class Sums(Protocol):
    """What a closed form learns from: sums by class, for some feature maps."""

    @property
    def classes(self) -> NDArray[Any]:
        """Labels (L,), sorted."""
        ...

    @property
    def feature_maps(self) -> tuple[FeatureMap, ...]:
        """The maps whose sums are there."""
        ...

    @property
    def n_features(self) -> int:
        """Width of a row."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features that were summed."""
        ...

    def of(self, feature_map: FeatureMap) -> ClassStatistics:
        """Return the sums of mapped rows, classes sorted."""
        ...

    def squares_of(self, feature_map: FeatureMap) -> NDArray[np.float64]:
        """Return Σ x² (L, D) of the mapped rows of each class."""
        ...


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
        self.tables: SumTables | None = None  # once the width of a row is known
        self._dtype: np.dtype[Any] | None = None
        self._rows: dict[Any, int] = {}  # of each class in the tables, in the order they came
        self._groups: dict[str, int] = {}  # roles that occur, and their position in the tables

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
        tables = self._tables(features.shape[1], features.dtype)
        codes = self._codes(names)
        priorities = draw_priorities(self.seed, name or f"{self.n_instances}", len(codes))
        tables.add_rows(features, codes)
        self.sample.take(features, codes, priorities, tables.counts)
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

    def _tables(self, width: int, dtype: np.dtype[Any]) -> SumTables:
        self._dtype = dtype if self._dtype is None else np.result_type(self._dtype, dtype)
        if self.tables is None:
            self.tables = SumTables(self.feature_maps, width, self.has_squares)
        return self.tables

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.intp]:
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
        new = [name for name in names if name not in self._rows]
        for name in new:
            known = next(iter(self._rows), name)
            if not isinstance(name, str | int) or isinstance(name, str) != isinstance(known, str):
                raise DataError(
                    f"class {label_text(name)} is of another kind than class {label_text(known)}; "
                    "all names, or all whole numbers, are expected"
                )
            self._rows[name] = len(self._rows)
        if self.tables is not None and new:
            self.tables.add_classes([self._group(self.role(name)) for name in new])
        return np.array([self._rows[name] for name in names], dtype=np.intp)

    def _group(self, roles: str) -> int:
        return self._groups.setdefault(roles, len(self._groups))

    def role(self, name: Any) -> str:
        """Return what a class does in each fold, a letter each."""
        return self.roles.get(name, TRAIN * self.n_folds)

    def merge(self, other: GatheredStatistics) -> Self:
        """Add the statistics of other rows, of the same classes or of others.

        Both must have been gathered with the same maps and, where they share classes, folds.
        """
        self._check_alike(other)
        if other.tables is None:
            return self
        tables = self._tables(other.n_features, other.dtype)
        self.roles = {**other.roles, **self.roles}
        rows = self._register(list(other._rows))
        tables.merge(other.tables, rows, [self._group(roles) for roles in other._groups])
        kept = other.sample
        if kept.n_rows:
            self.sample.merge(kept, rows, tables.counts)
        self.sources |= other.sources
        return self

    def _check_alike(self, other: GatheredStatistics) -> None:
        mine, theirs = (s._settings() for s in (self, other))
        for what, value in mine.items():
            if theirs[what] != value:
                raise DataError(
                    f"statistics with {what} {value!r} and {theirs[what]!r} cannot be merged; "
                    "gather both alike"
                )
        widths = {s.n_features for s in (self, other) if s.tables is not None}
        if len(widths) > 1:
            raise DataError(
                f"statistics of {self.n_features} and of {other.n_features} features cannot be "
                "merged"
            )
        for name in other._rows:
            if name in self._rows and self.role(name) != other.role(name):
                raise DataError(
                    f"class {label_text(name)} is held out in other folds in the statistics to be "
                    "merged; gather both with the same folds="
                )
        for digest, name in other.sources.items():
            if digest in self.sources:
                raise DataError(f"both statistics hold the rows of {name}; they would count twice")

    def _settings(self) -> dict[str, Any]:
        return {
            "feature_maps": self.feature_maps,
            "squares": self.has_squares,
            "number of folds": self.n_folds,
            "sample": self.sample.limit,
        }

    # ------------------------------------------------------------------ reading
    @property
    def classes(self) -> NDArray[Any]:
        """Labels (L,) of the classes with rows, sorted."""
        return np.array(sorted(self._rows))

    @property
    def n_features(self) -> int:
        """Width of a row; 0 before the first."""
        return 0 if self.tables is None else self.tables.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features: float32 where all rows came so, else float64."""
        return np.dtype(np.float64) if self._dtype is None else self._dtype

    @property
    def counts(self) -> NDArray[np.float64]:
        """Rows of each class (L,), ordered as `classes`."""
        return np.zeros(0) if self.tables is None else self.tables.counts[self._order()]

    @property
    def n_instances(self) -> int:
        """Number of rows taken in."""
        return int(self.counts.sum())

    @property
    def groups(self) -> list[str]:
        """The roles that occur; classes that share theirs share a second moment."""
        return list(self._groups)

    @property
    def folds(self) -> list[tuple[list[Any], list[Any]]]:
        """The class folds, as far as classes have rows: (train, validation) of each, sorted."""
        roles = {name: self.role(name) for name in sorted(self._rows)}
        return [
            (
                [name for name, role in roles.items() if role[number] == TRAIN],
                [name for name, role in roles.items() if role[number] == HELD_OUT],
            )
            for number in range(self.n_folds)
        ]

    def rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows kept (n, D) and their labels (n,), in the order in which they came."""
        if self.tables is not None:
            self.sample.cut(self.tables.counts)
        X = self.sample.features.reshape(-1, self.n_features).astype(self.dtype, copy=False)
        return X, np.array(list(self._rows))[self.sample.codes]

    def of(self, feature_map: FeatureMap, groups: Iterable[str] | None = None) -> ClassStatistics:
        """Return the sums of mapped rows, classes sorted; only of some groups where named."""
        tables, rows, positions = self._chosen(feature_map, groups)
        return tables.statistics(feature_map, rows, positions)

    def squares_of(
        self, feature_map: FeatureMap, groups: Iterable[str] | None = None
    ) -> NDArray[np.float64]:
        """Return Σ x² (L, D) of the mapped rows of each class."""
        tables, rows, _ = self._chosen(feature_map, groups)
        if not self.has_squares:
            raise DataError(
                "the statistics hold no sums of squares by class; gather with squares=True"
            )
        return tables.squares[feature_map][rows]

    def _chosen(
        self, feature_map: FeatureMap, groups: Iterable[str] | None
    ) -> tuple[SumTables, NDArray[np.intp], list[int]]:
        """Return the tables, and where the classes of some groups, and these, are in them."""
        if feature_map not in self.feature_maps:
            there = ", ".join(repr(name) for name in self.feature_maps)
            raise DataError(
                f"the statistics are of the feature maps {there}; {feature_map!r} is needed: "
                "gather with feature_maps="
            )
        if self.tables is None:
            raise DataError("the statistics are of no rows; at least two classes are expected")
        positions = [self._groups[key] for key in (self._groups if groups is None else groups)]
        order = self._order()
        return self.tables, order[np.isin(self.tables.group_of[order], positions)], positions

    def _order(self) -> NDArray[np.intp]:
        """Return the table row of each class, sorted by name."""
        return np.array([self._rows[name] for name in sorted(self._rows)], dtype=np.intp)

    # ------------------------------------------------------------------ files
    def save(self, path: str | Path) -> Path:
        """Write everything to one file (safetensors), in one step; see `load`."""
        from hgkt.statistics.files import save_statistics

        return save_statistics(self, path)

    @classmethod
    def load(cls, path: str | Path) -> GatheredStatistics:
        """Read what `save` wrote."""
        from hgkt.statistics.files import load_statistics

        return load_statistics(path)
