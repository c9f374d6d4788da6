"""Fits that share work: one pass, one decomposition or one training run for a whole grid."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table
from hgkt.estimators.base import ClassTable, GZSLClassifier
from hgkt.statistics import ClassStatistics

Setting = Mapping[str, Any]

_CHUNK_ROWS = 4096


class SharedFitClassifier(GZSLClassifier):
    """A method that learns many settings of its parameters in one go.

    A subclass implements ``_fit_settings`` instead of ``_fit_seen``; a plain fit is the case of
    one setting, so a grid and separate fits run the same code.
    """

    @abstractmethod
    def _fit_settings(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        settings: Sequence[Setting],
    ) -> Iterator[tuple[int, ClassTable]]:
        """Learn every setting; yield its index and the table of seen classes.

        Each setting names the same parameters. At a yield the parameters and the learned
        attributes of that setting are in place; the order is free.
        """

    @abstractmethod
    def _check_params(self) -> None:
        """Refuse parameters outside their range."""

    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        ((_, table),) = self._fit_settings(X, codes, attributes, [{}])
        return table

    def fit_score_grid(
        self,
        grid: Sequence[Mapping[str, Any]],
        X: NDArray[Any],
        y: NDArray[Any],
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Fit every parameter setting in one go, add the new classes and score `X_eval`.

        Parameters and yields are those of `GZSLClassifier.fit_score_grid`.
        """
        model = clone(self).on_progress(progress)
        features, codes, _, seen = model._check_training_data(X, y, class_attributes)
        table = attribute_table(new_attributes)
        added = attribute_matrix(table, list(table), seen.shape[1])
        fits = model._fit_settings(features, codes, seen, _completed(model, grid))
        for done, (index, rows) in enumerate(fits, start=1):
            yield index, _score_both(model, X_eval, rows, model._embed_classes(added))
            if progress is not None:
                progress("select", done, len(grid), {})


class PathClassifier(SharedFitClassifier):
    """A method trained step by step: the way to the last stop passes all earlier ones."""

    _path: ClassVar[str] = "n_steps"
    """The parameter that says how far training goes."""

    _only_scoring: ClassVar[tuple[str, ...]] = ()
    """Parameters that training does not read."""

    @abstractmethod
    def _train(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        stops: Sequence[int],
    ) -> Iterator[int]:
        """Train to the last of the ascending `stops`; at each, set what is learned and yield it.

        Parameters other than `_path` are read before the first yield.
        """

    def _fit_settings(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        settings: Sequence[Setting],
    ) -> Iterator[tuple[int, ClassTable]]:
        for indices in group_settings(settings, (self._path, *self._only_scoring)):
            at: dict[int, list[int]] = {}
            for index in indices:
                self.set_params(**settings[index])
                self._check_params()
                at.setdefault(getattr(self, self._path), []).append(index)
            for stop in self._train(X, codes, attributes, sorted(at)):
                for index in at[stop]:
                    self.set_params(**settings[index])
                    yield index, self._embed_classes(attributes)


def group_settings(settings: Sequence[Setting], free: Sequence[str]) -> list[list[int]]:
    """Group the indices of settings that differ in no parameter but the `free` ones.

    Examples
    --------
    >>> group_settings([{"a": 1, "n": 5}, {"a": 2, "n": 5}, {"a": 1, "n": 9}], ["n"])
    [[0, 2], [1]]
    """
    groups: dict[str, list[int]] = {}
    for index, setting in enumerate(settings):
        fixed = sorted((name, repr(value)) for name, value in setting.items() if name not in free)
        groups.setdefault(repr(fixed), []).append(index)
    return list(groups.values())


def collect_statistics(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    n_classes: int,
    row_map: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> ClassStatistics:
    """Gather counts, sums and second moment in one pass, of rows mapped by `row_map`.

    Examples
    --------
    >>> collect_statistics(np.array([[1.0, 2.0]]), np.array([0]), 1, np.square).sums
    array([[1., 4.]])
    """
    statistics = ClassStatistics(n_classes, X.shape[1])
    if row_map is None:
        return statistics.update(X, codes)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = np.asarray(X[start : start + _CHUNK_ROWS], dtype=np.float64)
        statistics.update(row_map(rows), codes[start : start + _CHUNK_ROWS])
    return statistics


def _completed(model: GZSLClassifier, grid: Sequence[Setting]) -> list[dict[str, Any]]:
    """Give every setting a value for each parameter that any of them names."""
    names = {name for setting in grid for name in setting}
    return [{**{name: getattr(model, name) for name in names}, **setting} for setting in grid]


def _score_both(
    model: GZSLClassifier, X: NDArray[Any], seen: ClassTable, added: ClassTable
) -> NDArray[np.float64]:
    """Score seen and added classes apart, as `score_classes` does, without a penalty."""
    parts = []
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = model._map_features(X[start : start + _CHUNK_ROWS])
        scores = [model._score(rows, seen, True), model._score(rows, added, False)]
        parts.append(np.concatenate(scores, axis=1, dtype=np.float64))
    return np.concatenate(parts)
