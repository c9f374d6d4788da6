"""What adding classes costs: accuracies to expect of learned and of added classes, from folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from hgkt.calibration.curve import class_weights
from hgkt.calibration.folds import FoldSample

_N_GAMMAS = 129


@dataclass(frozen=True)
class Costs:
    """Mean accuracy over learned classes before and after others are added, and over those.

    Expected from folds, as fractions of one: that of images like the training images.

    Parameters
    ----------
    n_before, n_after : int
        How many added classes there are.
    learned_before, learned_after : float
        Mean accuracy over the learned classes.
    added : float
        Mean accuracy over the added classes afterwards.
    """

    n_before: int
    n_after: int
    learned_before: float
    learned_after: float
    added: float

    def sentence(self, added: float | None = None) -> str:
        """Say it in one line; where more is known of the new ones, `added` is their accuracy.

        Examples
        --------
        >>> Costs(0, 16, 0.741, 0.688, 0.163).sentence()
        'learned classes: 74 % → 69 % expected; the 16 new ones: 16 %'
        >>> Costs(3, 4, 0.741, 0.738, 0.163).sentence(added=0.24)
        'learned classes: 74.1 % → 73.8 % expected; the new one: 24 %'
        """
        before, after = 100.0 * self.learned_before, 100.0 * self.learned_after
        if self.n_after == 0:
            return f"learned classes: {after:.0f} % expected"
        digits = 1 if round(before) == round(after) else 0
        n_new = self.n_after - self.n_before
        who = "the new one" if n_new == 1 else f"the {n_new} new ones"
        own = 100.0 * (self.added if added is None else added)
        return (
            f"learned classes: {before:.{digits}f} % → {after:.{digits}f} % expected; "
            f"{who}: {own:.0f} %"
        )


@dataclass(frozen=True)
class ExpectedAccuracies:
    """Mean accuracies of learned and of added classes, by γ and by how many were added.

    Parameters
    ----------
    gammas : ndarray of shape (G,)
        Ascending. The first is so low that nothing is called added, the last so high that nothing
        is called learned.
    numbers : ndarray of shape (K,)
        Numbers of added classes, ascending from 1 to as many as every fold held out.
    learned, added : ndarray of shape (K, G)
        Mean accuracies over classes, as fractions.
    """

    gammas: NDArray[np.float64]
    numbers: NDArray[np.float64]
    learned: NDArray[np.float64]
    added: NDArray[np.float64]

    def at(self, gamma: float, n_added: int) -> tuple[float, float]:
        """Return the accuracies of learned and of added classes.

        Between the numbers of classes that were tried, and beyond them, accuracies go on as a
        line in the logarithm of the number.
        """
        if n_added <= 0:
            return float(self.learned[0, 0]), 0.0
        logs = np.log(self.numbers)
        rows = np.zeros(2, dtype=int)
        if len(logs) > 1:
            high = int(np.clip(np.searchsorted(logs, np.log(n_added)), 1, len(logs) - 1))
            rows = np.array([high - 1, high])
        width = logs[rows[1]] - logs[rows[0]]
        share = (np.log(n_added) - logs[rows[0]]) / width if width > 0 else 0.0
        found = []
        for table in (self.learned, self.added):
            low, high_value = (np.interp(gamma, self.gammas, table[row]) for row in rows)
            found.append(float(np.clip(low + share * (high_value - low), 0.0, 1.0)))
        return found[0], found[1]

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return what the constructor takes, each a plain array."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def fit_accuracies(folds: Sequence[FoldSample]) -> ExpectedAccuracies:
    """Find what accuracies to expect, on validation folds.

    Every subset of the held-out classes could have been the one that was added; the mean over all
    subsets of a size is exact, without drawing any.

    Parameters
    ----------
    folds : sequence of FoldSample
        Validation rows.
    """
    most = min(fold.n_classes - fold.n_seen for fold in folds)
    numbers = np.unique(np.round(np.geomspace(1, most, 2 + int(np.log2(most)))))
    gaps = np.concatenate([_gaps(fold) for fold in folds])
    gammas = np.unique(np.quantile(gaps, np.linspace(0.0, 1.0, _N_GAMMAS)))
    ends = np.array([np.nextafter(gammas[0], -np.inf), np.nextafter(gammas[-1], np.inf)])
    gammas = np.concatenate([ends[:1], gammas, ends[1:]])
    tables = np.mean([_tables(fold, gammas, numbers) for fold in folds], axis=0)
    return ExpectedAccuracies(gammas, numbers, *tables)


def _gaps(fold: FoldSample) -> NDArray[Any]:
    """Return how far the best learned class of each row (n,) is ahead of the best added one."""
    gaps: NDArray[Any] = fold.scores[:, : fold.n_seen].max(axis=1).astype(np.float64)
    gaps -= fold.scores[:, fold.n_seen :].max(axis=1)
    return gaps


def _tables(
    fold: FoldSample, gammas: NDArray[np.float64], numbers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return accuracies (2, K, G) of learned and of added classes in one fold."""
    of_seen, scores = fold.of_seen, fold.scores.astype(np.float64)
    learned, added = scores[:, : fold.n_seen], scores[:, fold.n_seen :]
    n_added = added.shape[1]
    # A learned row stays right where none of the added classes that beat it was drawn.
    right = of_seen & (learned.argmax(axis=1) == fold.truth)
    best, rivals = learned[right].max(axis=1), added[right]
    weights = class_weights(fold.truth[of_seen])[right[of_seen]]
    kept = []
    for gamma in gammas:
        n_beaten_by = (rivals > (best - gamma)[:, None]).sum(axis=1)
        kept.append(weights @ _none_drawn(n_beaten_by, n_added, numbers))
    # An added row is right where it is ahead of learned classes and of those drawn beside its own.
    rows = np.flatnonzero(~of_seen)
    own = scores[rows, fold.truth[rows]]
    n_beaten_by = (added[rows] > own[:, None]).sum(axis=1)
    alone = _none_drawn(n_beaten_by, n_added - 1, numbers - 1)
    alone *= class_weights(fold.truth[rows])[:, None]
    ahead = (own - learned[rows].max(axis=1))[:, None] > -gammas
    return np.stack([np.transpose(kept), alone.T @ ahead])


def _none_drawn(
    n_bad: NDArray[np.intp], n_all: int, n_drawn: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the chance (n, K) that none of `n_bad` (n,) is among so many drawn (K,) of all."""
    bad, drawn = n_bad[:, None].astype(np.float64), n_drawn[None]
    rest = n_all - bad - drawn
    logs = gammaln(n_all - bad + 1) - gammaln(np.maximum(rest, 0) + 1)
    logs += gammaln(n_all - drawn + 1) - gammaln(n_all + 1)
    return np.where(rest >= 0, np.exp(logs), 0.0)
