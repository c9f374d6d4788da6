"""Accuracies of generalized zero-shot learning: per class, harmonic mean, AUSUC, confusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import batches
from hgkt.calibration.curve import (
    GroupedScores,
    SeenUnseenCurve,
    class_columns,
    class_weights,
    curve_of,
    group_scores,
)
from hgkt.exceptions import DataError

_TOP = 5


@dataclass(frozen=True)
class GZSLMetrics:
    """The result of one evaluation; everything in percent, 0–100, averaged over classes.

    Parameters
    ----------
    ts : float
        Accuracy on images of unseen classes, all classes being candidates.
    tr : float
        Accuracy on images of seen classes, all classes being candidates.
    H : float
        Harmonic mean of `ts` and `tr`.
    zsl : float
        Accuracy on images of unseen classes, unseen classes only being candidates.
    ausuc : float
        Area under the seen–unseen curve; no calibration changes it.
    H_star : float
        The best H over all calibrations. An oracle: it looks at the test labels.
    top5_ts, top5_tr : float
        As `ts` and `tr`, the true class being among the five best.
    seen_as_unseen : float
        Images of seen classes that are called some unseen class.
    unseen_as_seen : float
        Images of unseen classes that are called some seen class.
    """

    ts: float
    tr: float
    H: float
    zsl: float
    ausuc: float
    H_star: float
    top5_ts: float
    top5_tr: float
    seen_as_unseen: float
    unseen_as_seen: float

    def to_dict(self) -> dict[str, float]:
        """Return the values by name."""
        return asdict(self)


@dataclass(frozen=True)
class ClassAccuracies:
    """Accuracy of every class that has test rows, in percent, in the order of the columns.

    The mean of a field over its classes is the figure of that name in `GZSLMetrics`.

    Parameters
    ----------
    ts, zsl : tuple of float
        Of unseen classes, among all classes and among unseen ones.
    tr : tuple of float
        Of seen classes.
    ts_uncalibrated, tr_uncalibrated : tuple of float
        The same at γ = 0.
    """

    ts: tuple[float, ...]
    tr: tuple[float, ...]
    zsl: tuple[float, ...]
    ts_uncalibrated: tuple[float, ...]
    tr_uncalibrated: tuple[float, ...]


def gzsl_metrics(
    scores_seen: ArrayLike,
    y_seen: ArrayLike,
    scores_unseen: ArrayLike,
    y_unseen: ArrayLike,
    classes: Sequence[Any] | NDArray[Any],
    n_seen: int,
    calibration: float = 0.0,
) -> GZSLMetrics:
    """Compute every figure of the generalized zero-shot protocol from two score matrices.

    Parameters
    ----------
    scores_seen : array-like of shape (n, n_classes)
        Scores of the test images of seen classes; columns of seen classes first.
    y_seen : array-like of shape (n,)
        Their true classes.
    scores_unseen : array-like of shape (m, n_classes)
        Scores of the test images of unseen classes.
    y_unseen : array-like of shape (m,)
        Their true classes.
    classes : sequence of length n_classes
        The class of each column.
    n_seen : int
        How many of the columns are seen classes.
    calibration : float, default=0.0
        γ, taken off the scores of seen classes.

    Returns
    -------
    GZSLMetrics

    Examples
    --------
    >>> scores_seen = [[5.0, 1.0, 2.0], [3.0, 0.0, 4.0]]  # cat and dog seen, fox not
    >>> scores_unseen = [[2.0, 3.0, 2.5]]
    >>> labels = (["cat", "cat"], ["fox"])
    >>> m = gzsl_metrics(scores_seen, labels[0], scores_unseen, labels[1], ["cat", "dog", "fox"], 2)
    >>> m.tr, m.ts, m.H, m.zsl, round(m.H_star, 1)
    (50.0, 0.0, 0.0, 100.0, 66.7)
    """
    data = scores_seen, y_seen, scores_unseen, y_unseen, classes, n_seen
    return TestScores.of(*data).metrics(calibration)


def class_accuracies(
    scores_seen: ArrayLike,
    y_seen: ArrayLike,
    scores_unseen: ArrayLike,
    y_unseen: ArrayLike,
    classes: Sequence[Any] | NDArray[Any],
    n_seen: int,
    calibration: float = 0.0,
) -> ClassAccuracies:
    """Compute the accuracy within each class; parameters are those of `gzsl_metrics`.

    Examples
    --------
    >>> scores_seen = [[5.0, 1.0, 2.0], [3.0, 0.0, 4.0], [0.0, 6.0, 1.0]]
    >>> labels = (["cat", "cat", "dog"], ["fox"])
    >>> names = ["cat", "dog", "fox"]
    >>> found = class_accuracies(scores_seen, labels[0], [[2.0, 3.0, 2.5]], labels[1], names, 2)
    >>> found.tr, found.ts, found.zsl
    ((50.0, 100.0), (0.0,), (100.0,))
    """
    data = scores_seen, y_seen, scores_unseen, y_unseen, classes, n_seen
    return TestScores.of(*data).class_accuracies(calibration)


@dataclass(frozen=True)
class TestScores:
    """Scores of test rows, labels looked up and the best class of each group found once.

    Parameters
    ----------
    scores_seen, scores_unseen : ndarray of shape (n, n_classes)
        Of the rows of each group, without γ; columns of seen classes first.
    seen, unseen : GroupedScores
        What is left of them once the best class of each group is known.
    n_seen : int
        How many of the columns are seen classes.
    """

    __test__ = False  # pytest takes the name for a class of tests

    scores_seen: NDArray[Any]
    scores_unseen: NDArray[Any]
    seen: GroupedScores
    unseen: GroupedScores
    n_seen: int

    @classmethod
    def of(
        cls,
        scores_seen: ArrayLike,
        y_seen: ArrayLike,
        scores_unseen: ArrayLike,
        y_unseen: ArrayLike,
        classes: Sequence[Any] | NDArray[Any],
        n_seen: int,
    ) -> TestScores:
        """Check and reduce scores; parameters are those of `gzsl_metrics`."""
        return cls(
            np.asarray(scores_seen),
            np.asarray(scores_unseen),
            group_scores(scores_seen, y_seen, classes, n_seen, seen=True),
            group_scores(scores_unseen, y_unseen, classes, n_seen, seen=False),
            n_seen,
        )

    @cached_property
    def curve(self) -> SeenUnseenCurve:
        """The seen–unseen curve, which no calibration changes."""
        return curve_of(self.seen, self.unseen)

    def metrics(self, calibration: float = 0.0) -> GZSLMetrics:
        """Return every figure with γ taken off the seen classes."""
        n_seen, curve = self.n_seen, self.curve
        tr, seen_as_unseen = _accuracy_and_leak(self.seen, calibration, n_seen, own=True)
        ts, unseen_as_seen = _accuracy_and_leak(self.unseen, calibration, n_seen, own=False)
        top_ts = _top_k(self.scores_unseen, self.unseen.truth, _TOP, n_seen, calibration)
        top_tr = _top_k(self.scores_seen, self.seen.truth, _TOP, n_seen, calibration)
        return GZSLMetrics(
            ts=100 * ts,
            tr=100 * tr,
            H=100 * harmonic_mean(ts, tr),
            zsl=100 * curve.zsl,
            ausuc=100 * curve.area,
            H_star=100 * float(curve.harmonic.max()),
            top5_ts=100 * top_ts,
            top5_tr=100 * top_tr,
            seen_as_unseen=100 * seen_as_unseen,
            unseen_as_seen=100 * unseen_as_seen,
        )

    def class_accuracies(self, calibration: float = 0.0) -> ClassAccuracies:
        """Return the accuracy within each class with γ taken off the seen classes."""
        seen, unseen = self.seen, self.unseen
        among_all = {
            name: _by_class(group, _predicted(group, gamma) == group.truth)
            for suffix, gamma in (("", calibration), ("_uncalibrated", 0.0))
            for name, group in ((f"ts{suffix}", unseen), (f"tr{suffix}", seen))
        }
        zsl = _by_class(unseen, unseen.best_unseen == unseen.truth)
        return ClassAccuracies(zsl=zsl, **among_all)


def _by_class(group: GroupedScores, right: NDArray[np.bool_]) -> tuple[float, ...]:
    _, position, counts = np.unique(group.truth, return_inverse=True, return_counts=True)
    shares = np.bincount(position, right) / counts
    return tuple((100.0 * shares).tolist())


def _predicted(group: GroupedScores, calibration: float) -> NDArray[np.intp]:
    # On a tie the seen class wins, as in an argmax over columns that begin with seen classes.
    says_seen = group.top_seen - calibration >= group.top_unseen
    predicted: NDArray[np.intp] = np.where(says_seen, group.best_seen, group.best_unseen)
    return predicted


def _accuracy_and_leak(
    group: GroupedScores, calibration: float, n_seen: int, own: bool
) -> tuple[float, float]:
    """Accuracy among all classes, and how much of the group is called the other group."""
    predicted = _predicted(group, calibration)
    accuracy = group.weights @ (predicted == group.truth)
    return float(accuracy), float(group.weights @ ((predicted < n_seen) != own))


def per_class_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean over the classes in `y_true` of the share of their rows predicted right.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True classes.
    y_pred : array-like of shape (n,)
        Predicted classes; others than those of `y_true` are allowed.

    Returns
    -------
    float
        A fraction, 0–1; a class with ten times the rows counts no more than another.

    Examples
    --------
    >>> per_class_accuracy(["a", "a", "a", "b"], ["a", "a", "c", "b"])
    0.8333333333333333
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    if truth.shape != predicted.shape or truth.ndim != 1:
        raise DataError(
            f"y_true has shape {truth.shape} and y_pred {predicted.shape}; two vectors of one "
            "length are expected"
        )
    if not len(truth):
        raise DataError("y_true is empty; at least one row is expected")
    _, codes = np.unique(truth, return_inverse=True)
    return float(class_weights(codes) @ (truth == predicted))


def top_k_accuracy(
    scores: ArrayLike, y: ArrayLike, classes: Sequence[Any] | NDArray[Any], k: int = 5
) -> float:
    """Mean over classes of the share of rows whose true class is among the `k` best scores.

    Parameters
    ----------
    scores : array-like of shape (n, n_classes)
        Higher is better; of equal scores the earlier column ranks first.
    y : array-like of shape (n,)
        True classes.
    classes : sequence of length n_classes
        The class of each column.
    k : int, default=5
        How many of the best count.

    Returns
    -------
    float
        A fraction, 0–1.

    Examples
    --------
    >>> top_k_accuracy([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], ["a", "c"], ["a", "b", "c"], k=2)
    0.5
    """
    matrix = np.asarray(scores)
    truth = class_columns(y, classes)
    if matrix.shape != (len(truth), len(classes)) or not len(truth):
        raise DataError(
            f"scores have shape {matrix.shape}; ({max(len(truth), 1)}, {len(classes)}) is expected"
        )
    return _top_k(matrix, truth, k, 0, 0.0)


def _top_k(
    scores: NDArray[Any], truth: NDArray[np.intp], k: int, n_seen: int, calibration: float
) -> float:
    offsets = np.zeros(scores.shape[1])
    offsets[:n_seen] = calibration
    columns = np.arange(scores.shape[1])
    hits = np.empty(len(scores), dtype=bool)
    for rows in batches(len(scores), max(1, 2**22 // scores.shape[1])):
        chunk, true = scores[rows] - offsets, truth[rows, None]
        own = np.take_along_axis(chunk, true, axis=1)
        ahead = (chunk > own) | ((chunk == own) & (columns < true))
        hits[rows] = ahead.sum(axis=1) < k
    return float(class_weights(truth) @ hits)


def harmonic_mean(a: float, b: float) -> float:
    """Return 2ab / (a + b), and 0 where both are 0.

    Parameters
    ----------
    a, b : float
        Two accuracies, fractions or percents.

    Examples
    --------
    >>> harmonic_mean(50.0, 100.0), harmonic_mean(0.0, 0.0)
    (66.66666666666667, 0.0)
    """
    return 2 * a * b / (a + b) if a + b > 0 else 0.0
