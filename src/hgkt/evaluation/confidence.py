"""How right the confidence of answers is: calibration error, log loss, sets, risk at a coverage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
_BLOCK_NUMBERS = 2**22  # probabilities held at once: 32 MiB


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
    step = max(1, _BLOCK_NUMBERS // rows.n_classes)
    facts = [
        _RowFacts.of(rows.part(slice(start, start + step)), law, confidence)
        for start in range(0, len(rows.truth), step)
    ]
    joined = _RowFacts(*(np.concatenate(parts) for parts in zip(*facts, strict=True)))
    seen, unseen = (_measured(joined.among(part)) for part in (rows.of_seen, ~rows.of_seen))
    return seen, unseen


class _RowFacts(NamedTuple):
    """What is left of the probabilities of each row (n,), after temperatures and before."""

    sure: NDArray[Any]  # the highest probability
    right: NDArray[Any]  # whether it is that of the true class
    own: NDArray[Any]  # the probability of the true class
    sure_before: NDArray[Any]
    right_before: NDArray[Any]
    own_before: NDArray[Any]
    held: NDArray[Any]  # (n, coverages): whether a set holds the true class
    sizes: NDArray[Any]  # (n, coverages): how many classes it holds

    @classmethod
    def of(cls, rows: FoldSample, law: Calibration, confidence: Confidence) -> _RowFacts:
        scores, each = rows.calibrated(law), np.arange(len(rows.truth))
        after = confidence.temperatures.probabilities(scores, rows.groups)
        before = _PLAIN.probabilities(scores, rows.groups)
        learned = (rows.groups == SEEN).astype(np.float64)
        sets = [confidence.sets.members(after, learned, coverage) for coverage in COVERAGES]
        return cls(
            after.max(axis=1),
            after.argmax(axis=1) == rows.truth,
            after[each, rows.truth],
            before.max(axis=1),
            before.argmax(axis=1) == rows.truth,
            before[each, rows.truth],
            np.stack([inside[each, rows.truth] for inside in sets], axis=1),
            np.stack([inside.sum(axis=1) for inside in sets], axis=1),
        )

    def among(self, rows: NDArray[np.bool_]) -> _RowFacts:
        """Return the facts of some rows."""
        return _RowFacts(*(array[rows] for array in self))


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
    return _bins(table.max(axis=1), table.argmax(axis=1) == labels, n_bins)


def _bins(sure: NDArray[np.float64], right: NDArray[np.bool_], n_bins: int = N_BINS) -> list[Any]:
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


def _measured(rows: _RowFacts) -> GroupConfidence:
    bins = _bins(rows.sure, rows.right)
    risks = risk_coverage(rows.sure, rows.right)
    kept = np.maximum((_POINTS * len(risks)).astype(int) - 1, 0)
    coverage, sizes = rows.held.mean(axis=0), rows.sizes.mean(axis=0)
    asked = COVERAGES.index(0.9)
    return GroupConfidence(
        ece=100 * calibration_error(bins),
        ece_before=100 * calibration_error(_bins(rows.sure_before, rows.right_before)),
        log_loss=_log_loss(rows.own),
        log_loss_before=_log_loss(rows.own_before),
        set_coverage=100 * float(coverage[asked]),
        set_size=float(sizes[asked]),
        aurc=100 * float(risks.mean()),
        reliability=bins,
        risk=np.stack([_POINTS, risks[kept]], axis=1).tolist(),
        sets=np.stack([COVERAGES, coverage, sizes], axis=1).tolist(),
    )


def _log_loss(own: NDArray[np.float64]) -> float:
    return float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())
