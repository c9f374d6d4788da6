"""Conformal prediction sets: thresholds on the probability of a class, from held-out classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration.folds import ADDED, SEEN, FoldSample

LEVELS = np.linspace(0.0, 1.0, 1001)
"""Where quantiles are kept."""


@dataclass(frozen=True)
class GroupQuantiles:
    """Quantiles of the probability that the true class of a held-out row got.

    Parameters
    ----------
    values : ndarray of shape (1001,)
        Ascending, at `LEVELS`.
    n_units : int
        How many units the promise rests on: rows for classes learnt from images, whole held-out
        classes for those that are added.
    """

    values: NDArray[np.float64]
    n_units: int

    def largest_promise(self) -> float:
        """Return the highest coverage that so many units can promise, n / (n + 1)."""
        return self.n_units / (self.n_units + 1)

    def threshold(self, coverage: float) -> float:
        """Return the probability from which on a class belongs to a set.

        A new unit is as likely the worst of all n + 1 as any other, so (n + 1) / n times the
        coverage is asked of those at hand. Where that is more than all, the smallest probability
        is returned.
        """
        asked = coverage * (self.n_units + 1) / max(self.n_units, 1)
        return float(np.interp(max(1.0 - asked, 0.0), LEVELS, self.values))


@dataclass(frozen=True)
class SetThresholds:
    """When a class belongs to a prediction set, apart for seen and for added classes.

    A class that reaches the threshold of its kind is in the set, and so is every likelier class: a
    set never skips a class for a less likely one, and it covers no less than thresholds alone.

    For classes that are added the unit is the class, not the image (hierarchical conformal
    prediction: Lee, Barber and Willett, 2023): a set holds the true class of an image of a new
    class with the probability asked for, if new classes are like the seen classes that were held
    out.

    Parameters
    ----------
    seen, added : GroupQuantiles
    """

    seen: GroupQuantiles
    added: GroupQuantiles

    def members(
        self, probabilities: NDArray[np.float64], learned: NDArray[np.float64], coverage: float
    ) -> NDArray[np.bool_]:
        """Return which classes (n, C) are in the set of each row; the best one always is.

        `learned` (C,) is 1 for classes learnt from images, 0 for those added, and in between for
        those added that have grown: their threshold moves from one to the other.
        """
        seen, added = self.seen.threshold(coverage), self.added.threshold(coverage)
        thresholds = added ** (1.0 - learned) * seen**learned
        inside: NDArray[np.bool_] = probabilities >= thresholds
        if probabilities.shape[1]:
            inside[np.arange(len(inside)), probabilities.argmax(axis=1)] = True
            least = np.where(inside, probabilities, 1.0).min(axis=1, keepdims=True)
            inside |= probabilities > least
        return inside


def set_columns(
    members: NDArray[np.bool_], probabilities: NDArray[np.float64]
) -> list[NDArray[np.intp]]:
    """Return the columns in each set, the likeliest first.

    Parameters
    ----------
    members : ndarray of shape (n, C)
        Which classes are in the set of each row.
    probabilities : ndarray of shape (n, C)

    Examples
    --------
    >>> found = set_columns(np.array([[True, False, True]]), np.array([[0.2, 0.1, 0.7]]))
    >>> [columns.tolist() for columns in found]
    [[2, 0]]
    """
    found = []
    for inside, chances in zip(members, probabilities, strict=True):
        columns = np.flatnonzero(inside)  # few, where classes may be many
        found.append(columns[np.argsort(-chances[columns], kind="stable")])
    return found


def fit_sets(
    folds: Iterable[tuple[FoldSample, NDArray[np.float64]]],
) -> SetThresholds:
    """Find thresholds on held-out rows.

    Parameters
    ----------
    folds : iterable of (FoldSample, ndarray)
        Rows, and the probabilities (n, n_classes) of their classes.
    """
    values: dict[int, list[NDArray[Any]]] = {SEEN: [], ADDED: []}
    weights: dict[int, list[NDArray[Any]]] = {SEEN: [], ADDED: []}
    n_rows = 0
    held_out: set[Any] = set()
    for fold, probabilities in folds:
        own = probabilities[np.arange(len(fold.truth)), fold.truth]
        for group, rows in ((SEEN, fold.of_seen), (ADDED, ~fold.of_seen)):
            values[group].append(own[rows])
            weights[group].append(fold.weights[rows])
        n_rows += int(fold.of_seen.sum())
        held_out.update(fold.names)
    quantiles = {
        group: weighted_quantiles(np.concatenate(values[group]), np.concatenate(weights[group]))
        for group in values
    }
    return SetThresholds(
        GroupQuantiles(quantiles[SEEN], n_rows), GroupQuantiles(quantiles[ADDED], len(held_out))
    )


def weighted_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the quantiles (1001,) at `LEVELS`: the lowest value with so much weight below it.

    Examples
    --------
    >>> found = weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]))
    >>> found[[0, 400, 600, 1000]]
    array([1., 1., 2., 3.])
    """
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order])
    position = np.searchsorted(shares / shares[-1], LEVELS - 1e-12)
    result: NDArray[np.float64] = values[order][np.minimum(position, len(values) - 1)]
    return result
