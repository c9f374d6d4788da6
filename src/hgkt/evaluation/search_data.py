"""What a search on class folds is given: rows, or the statistics of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table
from hgkt.calibration import ScoredFold
from hgkt.calibration.curve import ValidationRows
from hgkt.calibration.folds import ClassFolds, ValidationFold, validation_folds
from hgkt.closed_form.grid import GridData, SumsGridData
from hgkt.estimators._sums_folds import SumsFold, sums_folds
from hgkt.estimators.base import GZSLClassifier
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics

Scored = Iterator[tuple[int, NDArray[Any]]]
"""Index of each setting, and its scores (n, n_classes) of the validation rows."""


class SearchFold(Protocol):
    """One class fold: something to fit on, and validation rows to score."""

    @property
    def rows(self) -> ValidationRows:
        """The true classes of the validation rows."""
        ...

    def grid_data(self) -> GridData | SumsGridData:
        """Return what closed forms are fitted on and scored with."""
        ...

    def score(
        self,
        model: GZSLClassifier,
        grid: Sequence[Mapping[str, Any]],
        progress: Progress | None = None,
    ) -> Scored:
        """Fit a model with each of the settings and score the validation rows."""
        ...


class SearchData(Protocol):
    """Data that can be divided by classes, and learned from as a whole."""

    @property
    def class_attributes(self) -> Any:
        """Attribute vector of every class, keyed by class."""
        ...

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of the classes with rows, sorted."""
        ...

    def folds(self, folds: ClassFolds, holdout: float, random_state: int) -> Iterator[SearchFold]:
        """Yield one fold at a time."""
        ...

    def fit(self, model: GZSLClassifier) -> GZSLClassifier:
        """Fit a model on everything."""
        ...


@dataclass(frozen=True)
class _RowFold:
    fold: ValidationFold

    @property
    def rows(self) -> ValidationRows:
        return self.fold.rows

    def grid_data(self) -> GridData:
        fold = self.fold
        names, codes = np.unique(fold.y, return_inverse=True)
        known, new = _matrices(fold.train_attributes, fold.val_attributes, names)
        return GridData(fold.X, codes, known, new, fold.X_eval)

    def score(
        self,
        model: GZSLClassifier,
        grid: Sequence[Mapping[str, Any]],
        progress: Progress | None = None,
    ) -> Scored:
        fold = self.fold
        parts = fold.X, fold.y, fold.train_attributes, fold.val_attributes, fold.X_eval
        return model.fit_score_grid(grid, *parts, progress=progress)


@dataclass(frozen=True)
class RowData:
    """Rows of seen classes.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    class_attributes : mapping or DataFrame
    """

    X: ArrayLike
    y: ArrayLike
    class_attributes: Any

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of the classes with rows, sorted."""
        return np.unique(np.asarray(self.y))

    @property
    def counts(self) -> NDArray[Any]:
        """Rows of each class."""
        return np.unique(np.asarray(self.y), return_counts=True)[1]

    def folds(self, folds: ClassFolds, holdout: float, random_state: int) -> Iterator[SearchFold]:
        """Yield one fold at a time: only one copy of its rows is ever held."""
        rows, labels = np.asarray(self.X), np.asarray(self.y)
        table = attribute_table(self.class_attributes)
        for fold in validation_folds(rows, labels, table, folds, holdout, random_state):
            yield _RowFold(fold)

    def fit(self, model: GZSLClassifier) -> GZSLClassifier:
        """Fit a model on all rows."""
        return model.fit(self.X, self.y, class_attributes=self.class_attributes)


@dataclass(frozen=True)
class _SumsFold:
    fold: SumsFold

    @property
    def rows(self) -> ValidationRows:
        return self.fold.rows

    def grid_data(self) -> SumsGridData:
        fold, names = self.fold, self.fold.sums.classes
        known, new = _matrices(fold.train_attributes, fold.val_attributes, names)
        return SumsGridData(fold.sums, known, new, fold.X_eval)

    def score(
        self,
        model: GZSLClassifier,
        grid: Sequence[Mapping[str, Any]],
        progress: Progress | None = None,
    ) -> Scored:
        fold = self.fold
        parts = fold.sums, fold.train_attributes, fold.val_attributes, fold.X_eval
        return model.score_grid_sums(grid, *parts, progress=progress)


@dataclass(frozen=True)
class SumsData:
    """Gathered statistics of seen classes, with class folds of their own.

    Parameters
    ----------
    statistics : GatheredStatistics
    class_attributes : mapping or DataFrame
    """

    statistics: GatheredStatistics
    class_attributes: Any

    @property
    def classes(self) -> NDArray[Any]:
        """Labels of the classes with rows, sorted."""
        return self.statistics.classes

    @property
    def counts(self) -> NDArray[Any]:
        """Rows of each class."""
        return self.statistics.counts

    def folds(self, folds: ClassFolds, holdout: float, random_state: int) -> Iterator[SearchFold]:
        """Yield the first so many folds that the statistics have."""
        if not self.statistics.n_folds:
            raise DataError(
                "selection needs statistics with class folds: gather with folds= or classes="
            )
        table = attribute_table(self.class_attributes)
        for fold in sums_folds(self.statistics, table, len(folds), holdout, random_state):
            yield _SumsFold(fold)

    def fit(self, model: GZSLClassifier) -> GZSLClassifier:
        """Fit a model on all sums."""
        return model.fit_statistics(self.statistics, class_attributes=self.class_attributes)


def score_folds(folds: Iterable[SearchFold], model: GZSLClassifier) -> Iterator[ScoredFold]:
    """Fit a clone on each fold and score its validation rows, without any calibration."""
    for fold in folds:
        blank = clone(model).set_params(calibration=0.0)
        for _, scores in fold.score(blank, [{}]):
            yield ScoredFold(fold.rows, scores)


def _matrices(
    known: Mapping[Any, Any], new: Mapping[Any, Any], names: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    attributes = attribute_matrix(known, names.tolist())
    return attributes, attribute_matrix(new, list(new), attributes.shape[1])
