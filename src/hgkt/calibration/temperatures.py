"""From scores to probabilities: one temperature for each group of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from hgkt.calibration.folds import ADDED, SEEN, FoldSample
from hgkt.calibration.gamma import Calibration, Favour

# Temperatures tried, as multiples of how far the scores of a row lie apart.
_TRIED = np.geomspace(0.02, 5.0, 24)
# What a mean confidence that is off costs beside the log loss: one point costs 0.001.
_GAP_COST = 10.0
_SAME = 1e-3  # keeps a temperature that no row speaks for at the other one


@dataclass(frozen=True)
class Temperatures:
    """Temperatures of the classes learnt from images, added by attributes, and grown.

    A row is divided by the temperature of its best class. So probabilities never contradict
    `predict`, and an answer of a class that is only described may be trusted less than one of a
    class with images.

    Parameters
    ----------
    seen, added, grown : float
        In units of the scores.

    Examples
    --------
    >>> Temperatures(1.0, 2.0, 1.0).probabilities(np.log([[3.0, 1.0]]), np.array([0, 1]))
    array([[0.75, 0.25]])
    """

    seen: float
    added: float
    grown: float

    def probabilities(self, scores: NDArray[Any], groups: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return probabilities (n, C) of scores (n, C); `groups` (C,) are codes of classes."""
        if not scores.size:
            return np.zeros(scores.shape)
        top = scores.argmax(axis=1)
        own = np.asarray(astuple(self))[groups[top]]
        best = scores[np.arange(len(scores)), top]
        return _softmax(scores, best, own)


def plain_probabilities(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Return probabilities of a model that has no temperatures: scores over their deviation.

    Each row is divided by how far its own scores lie apart. That orders classes as `predict`
    does, but the numbers are not calibrated.
    """
    if not scores.size:
        return np.zeros(scores.shape)
    spread = scores.std(axis=1)
    return _softmax(scores, scores.max(axis=1), np.where(spread > 0, spread, 1.0))


def fit_temperatures(
    folds: Sequence[FoldSample], law: Calibration, favour: Favour | None = None
) -> Temperatures:
    """Find the temperatures with the lowest log loss whose confidence is right in each group.

    Log loss alone is right on average over all rows: rows of seen classes then come out too sure
    and rows of added ones not sure enough, or the other way round. So the difference between mean
    confidence and accuracy is held down in each of the two, and each weighs what it does for γ.

    Parameters
    ----------
    folds : sequence of FoldSample
        Validation rows.
    law : Calibration
        γ in force.
    favour : Favour, optional
        What that γ was found for; by default both groups weigh alike.
    """
    favour = favour or Favour("balanced")
    rows = [_TopRows.of(fold, law, favour) for fold in folds]
    spread = float(np.mean([part.spread for part in rows]))
    if not spread > 0:
        return Temperatures(1.0, 1.0, 1.0)
    tried = spread * _TRIED
    # A row depends on the temperature of its best class only, so a table of 24 is enough.
    loss = {top: np.zeros(len(tried)) for top in (SEEN, ADDED)}
    confidence = {(top, group): np.zeros(len(tried)) for top in loss for group in (SEEN, ADDED)}
    right = {SEEN: 0.0, ADDED: 0.0}
    for part in rows:
        for top in loss:
            for index, temperature in enumerate(tried):
                losses, sure = part.at(temperature, top)
                loss[top][index] += losses.sum() / len(rows)
                for group, value in zip((SEEN, ADDED), part.by_group(sure, top), strict=True):
                    confidence[top, group][index] += value / part.shares[group] / len(rows)
        for group, value in zip((SEEN, ADDED), part.accuracy(), strict=True):
            right[group] += value / part.shares[group] / len(rows)
    weights = np.mean([part.shares for part in rows], axis=0) * 2.0
    logs = np.log(tried)
    losses_of = {top: CubicSpline(logs, values) for top, values in loss.items()}
    sure_of = {key: CubicSpline(logs, values) for key, values in confidence.items()}

    def cost(point: NDArray[np.float64]) -> float:
        seen, added = np.clip(point, logs[0], logs[-1])
        total = losses_of[SEEN](seen) + losses_of[ADDED](added) + _SAME * (seen - added) ** 2
        for group, accuracy in right.items():
            gap = sure_of[SEEN, group](seen) + sure_of[ADDED, group](added) - accuracy
            total += weights[group] * _GAP_COST * gap**2
        return float(total)

    start = logs[np.argmin(loss[SEEN] + loss[ADDED])]
    found = minimize(cost, [start, start], method="Nelder-Mead").x
    seen, added = np.exp(np.clip(found, logs[0], logs[-1]))
    # A class that grew is compared as an added one is: its temperature fits, whereas that of
    # classes learnt from images leaves it too unsure where folds have many classes.
    return Temperatures(float(seen), float(added), float(added))


@dataclass(frozen=True)
class _TopRows:
    """Scores below the best (n, C), what is known of each row, and the weights of both groups."""

    below: NDArray[np.float32]
    truth: NDArray[np.intp]
    top: NDArray[np.intp]
    top_group: NDArray[np.intp]
    of_seen: NDArray[np.bool_]
    weights: NDArray[np.float64]
    shares: tuple[float, float]
    spread: float

    @classmethod
    def of(cls, fold: FoldSample, law: Calibration, favour: Favour) -> _TopRows:
        scores = fold.calibrated(law)
        top = scores.argmax(axis=1)
        below = (scores - scores.max(axis=1, keepdims=True)).astype(np.float32)
        spread = float(scores.std(axis=1).mean())
        group = fold.groups[top]
        share = favour.share(fold.n_seen, fold.n_classes - fold.n_seen)
        weights = fold.weights * np.where(fold.of_seen, 2.0 * (1.0 - share), 2.0 * share)
        shares = (1.0 - share, share)
        return cls(below, fold.truth, top, group, fold.of_seen, weights, shares, spread)

    def at(self, temperature: float, group: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weighted log loss and weighted confidence of the rows with a best class of `group`."""
        rows = np.flatnonzero(self.top_group == group)
        logits = self.below[rows] / np.float32(temperature)
        total = np.exp(logits).sum(axis=1, dtype=np.float64)
        own = logits[np.arange(len(rows)), self.truth[rows]]
        return self.weights[rows] * (np.log(total) - own), self.weights[rows] / total

    def by_group(self, values: NDArray[np.float64], group: int) -> tuple[float, float]:
        """Sum what `at` returned over rows of seen and of added classes."""
        seen = self.of_seen[self.top_group == group]
        return float(values[seen].sum()), float(values[~seen].sum())

    def accuracy(self) -> tuple[float, float]:
        """Weighted share of right answers among rows of seen and of added classes."""
        right = self.weights * (self.top == self.truth)
        return float(right[self.of_seen].sum()), float(right[~self.of_seen].sum())


def _softmax(
    scores: NDArray[Any], best: NDArray[Any], temperatures: NDArray[np.float64]
) -> NDArray[np.float64]:
    values = np.exp((scores - best[:, None]) / temperatures[:, None])
    result: NDArray[np.float64] = values / values.sum(axis=1, keepdims=True)
    return result
