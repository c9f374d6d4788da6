"""How right the confidence of answers is: calibration error, log loss, sets, risk at a coverage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt.calibration import Calibration
from hgkt.confidence import Confidence, FoldSample, Temperatures
from hgkt.confidence.samples import SEEN

N_BINS = 15
COVERAGES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
"""Coverages at which the size of prediction sets is looked at."""

_PLAIN = Temperatures(1.0, 1.0, 1.0)
_POINTS = np.linspace(0.02, 1.0, 50)


COLUMNS = {
    "ece": "calibration error",
    "ece_before": "before",
    "log_loss": "log loss",
    "log_loss_before": "before",
    "set_coverage": "in a 90 % set",
    "set_size": "set size",
}
"""What tables show of a `GroupConfidence`, and its titles."""


@dataclass(frozen=True)
class GroupConfidence:
    """Confidence on rows of one group, seen or unseen classes; shares in percent.

    Parameters
    ----------
    ece : float
        Expected calibration error over 15 bins of equal width: how far confidence is from
        accuracy on average.
    ece_before : float
        The same for a softmax of the scores as they are.
    log_loss, log_loss_before : float
        Mean −ln of the probability of the true class.
    set_coverage : float
        How often a 90 % prediction set holds the true class.
    set_size : float
        How many classes it holds on average.
    aurc : float
        Area under the risk–coverage curve: the mean share of errors among the surest rows, over
        all shares of rows one may answer.
    reliability : list of [confidence, accuracy, share of rows]
        The bins that hold rows, as fractions.
    risk : list of [coverage, risk]
        The share of errors among the surest rows, as fractions.
    sets : list of [asked, coverage, size]
        Prediction sets at several coverages, as fractions.
    """

    ece: float
    ece_before: float
    log_loss: float
    log_loss_before: float
    set_coverage: float
    set_size: float
    aurc: float
    reliability: list[list[float]] = field(default_factory=list)
    risk: list[list[float]] = field(default_factory=list)
    sets: list[list[float]] = field(default_factory=list)


def group_confidence(
    rows: FoldSample, law: Calibration, confidence: Confidence
) -> tuple[GroupConfidence, GroupConfidence]:
    """Measure the confidence on test rows of seen and of unseen classes, apart.

    Parameters
    ----------
    rows : FoldSample
        Scores without γ of test rows, columns of seen classes first.
    law : Calibration
        γ in force.
    confidence : Confidence
        What the model has.
    """
    scores = rows.calibrated(law)
    after = confidence.temperatures.probabilities(scores, rows.groups)
    before = _PLAIN.probabilities(scores, rows.groups)
    learned = (rows.groups == SEEN).astype(np.float64)
    members = {
        coverage: confidence.sets.members(after, learned, coverage) for coverage in COVERAGES
    }
    seen, unseen = (
        _measured(
            after[part],
            before[part],
            rows.truth[part],
            {coverage: inside[part] for coverage, inside in members.items()},
        )
        for part in (rows.of_seen, ~rows.of_seen)
    )
    return seen, unseen


def reliability(probabilities: ArrayLike, truth: ArrayLike, n_bins: int = N_BINS) -> list[Any]:
    """Return [confidence, accuracy, share] of the rows in each bin of confidence that has some.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
    truth : array-like of int, shape (n,)
        The column of each row's class.
    n_bins : int, default=15
        Bins of equal width.

    Examples
    --------
    >>> reliability([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 1, 0], n_bins=2)
    [[0.7666666666666667, 0.6666666666666666, 1.0]]
    """
    table, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(truth)
    sure, right = table.max(axis=1), table.argmax(axis=1) == labels
    bins = np.minimum((sure * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    sums = (np.bincount(bins, values, n_bins) for values in (sure, right))
    means = [total / np.maximum(counts, 1) for total in sums]
    stacked = np.stack([*means, counts / max(len(sure), 1)], axis=1)
    found: list[Any] = stacked[counts > 0].tolist()
    return found


def calibration_error(bins: ArrayLike) -> float:
    """Return the expected calibration error, a fraction, of what `reliability` returned."""
    confidence, accuracy, share = np.asarray(bins, dtype=np.float64).T
    return float((np.abs(confidence - accuracy) * share).sum())


def risk_coverage(sureness: ArrayLike, right: ArrayLike) -> NDArray[np.float64]:
    """Return the share of errors (n,) among the k surest rows, k from 1 to n.

    Parameters
    ----------
    sureness : array-like of shape (n,)
        Higher is surer.
    right : array-like of bool, shape (n,)
        Which answers are right.

    Examples
    --------
    >>> risk_coverage([0.9, 0.5, 0.7, 0.6], [True, False, True, False]).round(2)
    array([0.  , 0.  , 0.33, 0.5 ])
    """
    order = np.argsort(-np.asarray(sureness), kind="stable")
    wrong = ~np.asarray(right, dtype=bool)[order]
    result: NDArray[np.float64] = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    return result


def _measured(
    after: NDArray[np.float64],
    before: NDArray[np.float64],
    truth: NDArray[np.intp],
    members: dict[float, NDArray[np.bool_]],
) -> GroupConfidence:
    rows = np.arange(len(truth))
    bins = reliability(after, truth)
    risks = risk_coverage(after.max(axis=1), after.argmax(axis=1) == truth)
    kept = np.maximum((_POINTS * len(risks)).astype(int) - 1, 0)
    sets = [
        [coverage, float(inside[rows, truth].mean()), float(inside.sum(axis=1).mean())]
        for coverage, inside in members.items()
    ]
    asked = next(entry for entry in sets if entry[0] == 0.9)
    return GroupConfidence(
        ece=100 * calibration_error(bins),
        ece_before=100 * calibration_error(reliability(before, truth)),
        log_loss=_log_loss(after[rows, truth]),
        log_loss_before=_log_loss(before[rows, truth]),
        set_coverage=100 * asked[1],
        set_size=asked[2],
        aurc=100 * float(risks.mean()),
        reliability=bins,
        risk=np.stack([_POINTS, risks[kept]], axis=1).tolist(),
        sets=sets,
    )


def _log_loss(own: NDArray[np.float64]) -> float:
    return float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())
