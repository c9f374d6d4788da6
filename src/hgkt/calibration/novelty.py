"""Does a row look like none of the known classes? A score that validation classes choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import UNKNOWN
from hgkt.calibration.folds import FoldSample
from hgkt.calibration.gamma import Calibration
from hgkt.calibration.sets import LEVELS, weighted_quantiles
from hgkt.calibration.temperatures import Temperatures

STATISTICS = ("largest probability", "entropy", "best score")
"""What is looked at; none of them moves much with the number of classes that were added."""

COMBINATION = "combination"
CHANCE = 0.6
"""Below this area under the ROC curve a score tells too little to reject by it."""

_HIDDEN_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the held-out classes that stay unknown


def row_statistics(scores: NDArray[Any], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how unfamiliar each row is by each of `STATISTICS`, (n, 3), higher is stranger.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Without γ, which changes with the number of classes.
    probabilities : ndarray of shape (n, n_classes)
    """
    floor = np.finfo(np.float64).tiny
    largest = probabilities.max(axis=1)
    entropy = -(probabilities * np.log(np.maximum(probabilities, floor))).sum(axis=1)
    # Over its largest value, so that it does not grow with the number of classes.
    entropy /= np.log(max(probabilities.shape[1], 2))
    return np.stack([-np.log(np.maximum(largest, floor)), entropy, -scores.max(axis=1)], axis=1)


@dataclass(frozen=True)
class Novelty:
    """A score of how strange a row is: the share of known rows that look less strange.

    Parameters
    ----------
    weights : ndarray of shape (3,)
        Of `STATISTICS`.
    quantiles : ndarray of shape (1001,)
        Of the weighted sum over validation rows of known classes.
    auroc : float
        How well it told rows of classes that stayed unknown from those of known ones, in folds
        that had no say in it; 0.5 is chance.
    """

    weights: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    auroc: float

    @property
    def chosen(self) -> str:
        """Which score validation chose: one of `STATISTICS`, or their combination."""
        used = np.flatnonzero(self.weights)
        return STATISTICS[used[0]] if len(used) == 1 else COMBINATION

    def __call__(
        self, scores: NDArray[Any], probabilities: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the novelty (n,), from 0 to 1.

        Above 1 − r lies a share r of the rows of known classes. Beyond all of them it goes on
        rising towards 1, so that order is kept.
        """
        raw = row_statistics(scores, probabilities) @ self.weights
        low, high = self.quantiles[0], self.quantiles[-1]
        scale = max(high - low, np.finfo(np.float64).tiny)
        inside = np.interp(raw, _ascending(self.quantiles), LEVELS)
        tail = 1.0 - 0.5 * (LEVELS[1] - LEVELS[0]) * np.exp(-(raw - high) / scale)
        head = 0.5 * (LEVELS[1] - LEVELS[0]) * np.exp((raw - low) / scale)
        inside = np.clip(inside, head.clip(max=0.0005), 0.9995)
        return np.where(raw > high, tail, np.where(raw < low, head, inside))


def fit_novelty(
    folds: Sequence[FoldSample],
    law: Calibration,
    temperatures: Temperatures,
    random_state: int = 0,
) -> Novelty:
    """Choose a score on folds in which a part of the held-out classes is never added.

    Each single statistic stands, and their logistic combination, fitted on the other folds. The
    one with the highest mean area under the ROC curve is taken.

    Parameters
    ----------
    folds : sequence of FoldSample
    law : Calibration
        γ, for as many classes as are added.
    temperatures : Temperatures
    random_state : int, default=0
        Seed of which classes stay unknown.
    """
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(random_state)
    parts = [_hidden(fold, law, temperatures, rng) for fold in folds]
    whole = _Rows.joined(parts)
    candidates = {name: _unit(index) for index, name in enumerate(STATISTICS)}
    areas: dict[str, list[float]] = {name: [] for name in (*candidates, COMBINATION)}
    for index, part in enumerate(parts):
        others = [other for number, other in enumerate(parts) if number != index] or [part]
        trained = candidates | {COMBINATION: _combined(_Rows.joined(others))}
        for name, weights in trained.items():
            value = roc_auc_score(
                part.unknown, part.statistics @ weights, sample_weight=part.weights
            )
            areas[name].append(float(value))
    means = {name: float(np.mean(values)) for name, values in areas.items()}
    best = max(means, key=lambda name: means[name])  # the first of equals
    weights = _combined(whole) if best == COMBINATION else candidates[best]
    known = ~whole.unknown
    quantiles = weighted_quantiles(whole.statistics[known] @ weights, whole.weights[known])
    return Novelty(weights, quantiles, means[best])


def rejected(novelty: NDArray[np.float64], reject: float) -> NDArray[np.bool_]:
    """Return which rows (n,) are rejected where a share of known ones may be, by mistake."""
    return novelty > 1.0 - reject


def with_unknown(labels: NDArray[Any], unknown: NDArray[np.bool_]) -> NDArray[Any]:
    """Return labels with `UNKNOWN` in the rows where it is said; numbers come as objects.

    Examples
    --------
    >>> with_unknown(np.array(["zebra", "lion"]), np.array([True, False])).tolist()
    ['<unknown>', 'lion']
    """
    if labels.dtype.kind == "U":
        return np.where(unknown, UNKNOWN, labels)
    result = labels.astype(object)
    result[unknown] = UNKNOWN
    return result


@dataclass(frozen=True)
class _Rows:
    """Statistics (n, 3), whether a row's class is unknown, and its weight."""

    statistics: NDArray[np.float64]
    unknown: NDArray[np.bool_]
    weights: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: Sequence[_Rows]) -> _Rows:
        return cls(
            np.concatenate([part.statistics for part in parts]),
            np.concatenate([part.unknown for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )


def _hidden(
    fold: FoldSample, law: Calibration, temperatures: Temperatures, rng: np.random.Generator
) -> _Rows:
    """Score a fold again and again, other held-out classes being known each time."""
    found, n_seen = [], fold.n_seen
    n_added = fold.n_classes - n_seen
    for share in _HIDDEN_SHARES:
        n_hidden = max(round(share * n_added), 1)
        kept = np.sort(rng.permutation(n_added)[n_hidden:]) + n_seen
        part = fold.among(np.concatenate([np.arange(n_seen), kept]))
        probabilities = temperatures.probabilities(part.calibrated(law), part.groups)
        statistics = row_statistics(part.scores.astype(np.float64), probabilities)
        found.append(_Rows(statistics, part.truth < 0, _known_weights(fold, part)))
    return _Rows.joined(found)


def _known_weights(fold: FoldSample, part: FoldSample) -> NDArray[np.float64]:
    """Weights (n,): unknown rows sum to one, known ones too, seen and added classes alike."""
    weights: NDArray[np.float64] = fold.weights
    unknown = part.truth < 0
    groups = [fold.of_seen, ~fold.of_seen & ~unknown, unknown]
    shares = [0.5, 0.5, 1.0] if groups[1].any() else [1.0, 0.0, 1.0]
    for rows, share in zip(groups, shares, strict=True):
        if rows.any():
            weights[rows] *= share / weights[rows].sum()
    return weights


def _unit(index: int) -> NDArray[np.float64]:
    row: NDArray[np.float64] = np.eye(len(STATISTICS))[index]
    return row


def _combined(rows: _Rows) -> NDArray[np.float64]:
    """Return the weights (3,) of a logistic regression on standardised statistics."""
    from sklearn.linear_model import LogisticRegression

    mean = np.average(rows.statistics, axis=0, weights=rows.weights)
    deviation = np.sqrt(np.average((rows.statistics - mean) ** 2, axis=0, weights=rows.weights))
    deviation = np.where(deviation > 0, deviation, 1.0)
    model = LogisticRegression(max_iter=1000)
    scaled = rows.weights * len(rows.weights) / rows.weights.sum()
    model.fit((rows.statistics - mean) / deviation, rows.unknown, sample_weight=scaled)
    weights: NDArray[np.float64] = model.coef_[0] / deviation
    return weights


def _ascending(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sorted values, equal ones a hair apart, as np.interp needs them."""
    steps = np.arange(len(values)) * np.finfo(np.float64).eps * max(1.0, float(np.ptp(values)))
    return values + steps
