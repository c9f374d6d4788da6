"""Scored rows of validation folds, kept in bounded memory: what confidence is found on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration import Calibration, ScoredFold

SEEN, ADDED, GROWN = range(3)
"""Codes of the groups: classes learnt from images, added by attributes, and added then grown."""

_MAX_ROWS = 6_000  # a fold; three numbers and some quantiles do not get better with more


@dataclass(frozen=True)
class FoldSample:
    """Rows of one validation fold.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Without γ; rows and columns of seen classes first.
    truth : ndarray of shape (n,)
        The column of each row's class.
    n_seen : int
        How many of the columns are seen classes.
    names : tuple
        The held-out classes, which the other columns stand for.
    """

    scores: NDArray[Any]
    truth: NDArray[np.intp]
    n_seen: int
    names: tuple[Any, ...]

    @property
    def n_classes(self) -> int:
        """How many columns there are."""
        return int(self.scores.shape[1])

    @property
    def groups(self) -> NDArray[np.intp]:
        """Group of each column (n_classes,)."""
        return np.where(np.arange(self.n_classes) < self.n_seen, SEEN, ADDED)

    @property
    def of_seen(self) -> NDArray[np.bool_]:
        """Which rows (n,) are images of seen classes."""
        result: NDArray[np.bool_] = self.truth < self.n_seen
        return result

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights (n,) by which each group sums to one half, and its classes count alike."""
        weights = np.empty(len(self.truth))
        for group in (self.of_seen, ~self.of_seen):
            _, position, counts = np.unique(
                self.truth[group], return_inverse=True, return_counts=True
            )
            weights[group] = 0.5 / (counts[position] * max(len(counts), 1))
        return weights

    def calibrated(self, law: Calibration) -> NDArray[np.float64]:
        """Return the scores with γ taken off the seen classes."""
        scores = self.scores.astype(np.float64)
        scores[:, : self.n_seen] -= law.gamma(self.n_seen, self.n_classes - self.n_seen)
        return scores

    def part(self, rows: slice) -> FoldSample:
        """Return some of the rows."""
        return FoldSample(self.scores[rows], self.truth[rows], self.n_seen, self.names)

    def among(self, columns: NDArray[np.intp]) -> FoldSample:
        """Return the sample as if only these classes were known; others' truth is −1."""
        position = np.full(self.n_classes, -1)
        position[columns] = np.arange(len(columns))
        n_seen = int((columns < self.n_seen).sum())
        names = tuple(self.names[c - self.n_seen] for c in columns if c >= self.n_seen)
        return FoldSample(self.scores[:, columns], position[self.truth], n_seen, names)


def keep_samples(
    folds: Iterable[ScoredFold], kept: list[FoldSample], random_state: int = 0
) -> Iterator[ScoredFold]:
    """Pass folds on, and put at most 6,000 random rows of each, in float32, into `kept`."""
    rng = np.random.default_rng(random_state)
    for fold in folds:
        rows = np.arange(len(fold.scores))
        if len(rows) > _MAX_ROWS:
            rows = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        names = tuple(fold.rows.classes[fold.rows.n_seen :])
        kept.append(
            FoldSample(
                np.asarray(fold.scores[rows], dtype=np.float32),
                fold.rows.truth[rows],
                fold.rows.n_seen,
                names,
            )
        )
        yield fold
