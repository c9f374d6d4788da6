"""How well held-out classes were recognised on class folds, remembered while γ is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration.curve import ScoredFold
from hgkt.calibration.gamma import Calibration


@dataclass(frozen=True)
class HeldOutClasses:
    """Accuracy of seen classes that were held out of training and added by their attributes.

    Parameters
    ----------
    labels : tuple
        The n classes; one that several folds held out comes as often.
    folds : ndarray of shape (n,)
        Number of the fold. All other seen classes were trained on there.
    gammas, gammas_alone : ndarray of shape (n,)
        γ that the classes trained on paid, with all classes of the fold added and with one.
    together : ndarray of shape (n,)
        Accuracy among all classes of the fold.
    alone : ndarray of shape (n,)
        Accuracy had no other class of the fold been added.
    """

    labels: tuple[Any, ...]
    folds: NDArray[np.float64]
    gammas: NDArray[np.float64]
    gammas_alone: NDArray[np.float64]
    together: NDArray[np.float64]
    alone: NDArray[np.float64]

    def to_array(self, classes: Sequence[Any]) -> NDArray[np.float64]:
        """Return a row per entry: its position in `classes`, then what is known of it."""
        positions = {name: index for index, name in enumerate(classes)}
        rows = np.array([positions[label] for label in self.labels], dtype=np.float64)
        known = (self.folds, self.gammas, self.gammas_alone, self.together, self.alone)
        return np.column_stack([rows, *known])

    def renamed(self, names: Mapping[Any, Any]) -> Self:
        """Return the same of classes with other names."""
        return replace(self, labels=tuple(names.get(name, name) for name in self.labels))

    @classmethod
    def from_array(cls, array: NDArray[np.float64], classes: Sequence[Any]) -> Self:
        """Read what `to_array` returned."""
        rows, *known = array.T
        return cls(tuple(classes[int(row)] for row in rows), *known)


@dataclass(frozen=True)
class _Leads:
    """What is kept of one fold: how far the true class of each row is ahead.

    Parameters
    ----------
    labels : list
        The classes held out.
    n_seen : int
        How many classes were trained on.
    truth : ndarray of shape (n,)
        Position of each row's class in `labels`.
    over_seen, over_added : ndarray of shape (n,)
        Score of the true class minus the best score of a class trained on, and of another one
        held out.
    """

    labels: list[Any]
    n_seen: int
    truth: NDArray[np.intp]
    over_seen: NDArray[np.float64]
    over_added: NDArray[np.float64]

    @classmethod
    def of(cls, fold: ScoredFold) -> _Leads:
        n_seen, first = fold.rows.n_seen, fold.rows.n_seen_rows
        scores, truth = fold.scores[first:], fold.rows.truth[first:] - n_seen
        rows, added = np.arange(len(truth)), scores[:, n_seen:].astype(np.float64)
        own = added[rows, truth]
        added[rows, truth] = -np.inf
        over_seen = own - scores[:, :n_seen].max(axis=1)
        labels = fold.rows.classes[n_seen:]
        return cls(labels, n_seen, truth, over_seen, own - added.max(axis=1))

    def accuracies(self, right: NDArray[np.bool_]) -> NDArray[np.float64]:
        counts = np.bincount(self.truth, minlength=len(self.labels))
        return np.bincount(self.truth, right, len(self.labels)) / np.maximum(counts, 1)


class HeldOutRows:
    """Watches scored folds go by and keeps two numbers for each row of a held-out class."""

    def __init__(self) -> None:
        self._folds: list[_Leads] = []

    def watch(self, folds: Iterable[ScoredFold]) -> Iterator[ScoredFold]:
        """Yield the folds as they come."""
        for fold in folds:
            self._folds.append(_Leads.of(fold))
            yield fold

    def at(self, calibration: Calibration) -> HeldOutClasses | None:
        """Return how well the classes were recognised under a calibration; None without folds."""
        if not self._folds:
            return None
        labels: list[Any] = []
        columns = []
        for number, fold in enumerate(self._folds):
            gammas = [calibration.gamma(fold.n_seen, n) for n in (len(fold.labels), 1)]
            right = [fold.over_seen > -gamma for gamma in gammas]
            together = fold.accuracies(right[0] & (fold.over_added > 0))
            labels += fold.labels
            shape = len(fold.labels)
            columns.append(
                [
                    np.full(shape, number),
                    np.full(shape, gammas[0]),
                    np.full(shape, gammas[1]),
                    together,
                    fold.accuracies(right[1]),
                ]
            )
        return HeldOutClasses(tuple(labels), *np.concatenate(columns, axis=1))
