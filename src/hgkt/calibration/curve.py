"""The seen–unseen accuracy curve over every calibration, exact, and its area (AUSUC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import label_text
from hgkt.exceptions import DataError


@dataclass(frozen=True)
class SeenUnseenCurve:
    """Accuracy on seen and on unseen classes for every calibration γ.

    Point k holds for ``gammas[k] <= γ < gammas[k + 1]``, where γ is taken off the scores of seen
    classes; the first γ is −∞ (no image is called unseen), and after the last one no image is
    called seen. Accuracies are means over classes, as fractions.

    Parameters
    ----------
    gammas : ndarray of shape (n_points,)
        Where an accuracy changes, ascending, starting with −∞.
    seen : ndarray of shape (n_points,)
        Accuracy on images of seen classes; it never rises.
    unseen : ndarray of shape (n_points,)
        Accuracy on images of unseen classes; it never falls.
    """

    gammas: NDArray[np.float64]
    seen: NDArray[np.float64]
    unseen: NDArray[np.float64]

    @property
    def area(self) -> float:
        """AUSUC: ∫ seen d(unseen) by the trapezoid rule, a fraction."""
        return float(np.sum((self.seen[1:] + self.seen[:-1]) / 2 * np.diff(self.unseen)))

    @property
    def harmonic(self) -> NDArray[np.float64]:
        """Harmonic mean of the two accuracies at every point."""
        return _harmonic(self.seen, self.unseen)

    @property
    def zsl(self) -> float:
        """Accuracy on unseen classes where only they are candidates."""
        return float(self.unseen[-1])

    def best(self) -> tuple[float, float]:
        """Return the highest harmonic mean and a γ that reaches it.

        On test data this is an oracle (H*): the γ was chosen by looking at the answers.
        """
        gamma, values = best_calibration([self])
        return float(values[0]), gamma

    def at(self, gammas: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return seen and unseen accuracy at the given calibrations."""
        index = np.searchsorted(self.gammas, np.asarray(gammas, dtype=float), side="right") - 1
        return self.seen[index], self.unseen[index]


@dataclass(frozen=True)
class GroupedScores:
    """What is left of a score matrix once the best class of each group is known.

    Parameters
    ----------
    truth, best_seen, best_unseen : ndarray of shape (n,)
        Columns of the true class and of the best seen and unseen class.
    top_seen, top_unseen : ndarray of shape (n,)
        The scores of those two.
    weights : ndarray of shape (n,)
        1 / (images of the class · classes that occur): a weighted sum is a mean over classes.
    """

    truth: NDArray[np.intp]
    best_seen: NDArray[np.intp]
    best_unseen: NDArray[np.intp]
    top_seen: NDArray[np.float64]
    top_unseen: NDArray[np.float64]
    weights: NDArray[np.float64]


def seen_unseen_curve(
    scores_seen: ArrayLike,
    y_seen: ArrayLike,
    scores_unseen: ArrayLike,
    y_unseen: ArrayLike,
    classes: Sequence[Any] | NDArray[Any],
    n_seen: int,
) -> SeenUnseenCurve:
    """Compute the curve exactly: sort the images by the γ at which each changes its answer.

    Parameters
    ----------
    scores_seen : array-like of shape (n, n_classes)
        Scores of images of seen classes, without calibration; columns of seen classes first.
    y_seen : array-like of shape (n,)
        Their true classes.
    scores_unseen : array-like of shape (m, n_classes)
        Scores of images of unseen classes.
    y_unseen : array-like of shape (m,)
        Their true classes.
    classes : sequence of length n_classes
        The class of each column.
    n_seen : int
        How many of the columns are seen classes.

    Returns
    -------
    SeenUnseenCurve

    Examples
    --------
    >>> curve = seen_unseen_curve([[3.0, 1.0]], ["a"], [[2.0, 1.0]], ["b"], ["a", "b"], 1)
    >>> curve.gammas, curve.seen, curve.unseen
    (array([-inf,   1.,   2.]), array([1., 1., 0.]), array([0., 1., 1.]))
    >>> curve.area, curve.best()
    (1.0, (1.0, 1.5))
    """
    return curve_of(
        group_scores(scores_seen, y_seen, classes, n_seen, seen=True),
        group_scores(scores_unseen, y_unseen, classes, n_seen, seen=False),
    )


def curve_of(seen: GroupedScores, unseen: GroupedScores) -> SeenUnseenCurve:
    """Compute the curve of images whose best classes are known already."""
    gaps = np.concatenate([part.top_seen - part.top_unseen for part in (seen, unseen)])
    if np.isnan(gaps).any():
        raise DataError("scores contain NaN or infinity; only finite numbers are accepted")
    lost = np.concatenate([seen.weights * (seen.best_seen == seen.truth), 0 * unseen.weights])
    won = np.concatenate([0 * seen.weights, unseen.weights * (unseen.best_unseen == unseen.truth)])
    matters = (lost > 0) | (won > 0)  # an image that is wrong on both sides moves nothing
    gammas, position = np.unique(gaps[matters], return_inverse=True)
    lost = np.bincount(position, lost[matters], len(gammas))
    won = np.bincount(position, won[matters], len(gammas))
    return SeenUnseenCurve(
        np.concatenate([[-np.inf], gammas]),
        # Summed from the right, so that the end is exactly zero.
        np.concatenate([np.cumsum(lost[::-1])[::-1], [0.0]]),
        np.concatenate([[0.0], np.cumsum(won)]),
    )


class ValidationRows:
    """Rows of known class, seen ones first: their curve for any scores, labels looked up once.

    Parameters
    ----------
    y_seen, y_unseen : array-like
        True classes of the rows.
    classes : sequence of length n_classes
        The class of each column of scores, seen ones first.
    n_seen : int
        How many of the columns are seen classes.
    """

    def __init__(
        self,
        y_seen: ArrayLike,
        y_unseen: ArrayLike,
        classes: Sequence[Any] | NDArray[Any],
        n_seen: int,
    ) -> None:
        self.n_seen_rows = len(np.asarray(y_seen))
        self.n_seen, self.n_unseen = n_seen, len(classes) - n_seen
        self.classes = list(classes)
        truths = class_columns(y_seen, classes), class_columns(y_unseen, classes)
        self._groups = [(truth, class_weights(truth)) for truth in truths]

    @property
    def truth(self) -> NDArray[np.intp]:
        """The column of each row's class, rows of seen classes first."""
        return np.concatenate([truth for truth, _ in self._groups])

    def positions(self, step: int) -> NDArray[np.intp]:
        """Return the positions of every `step`-th row of each group."""
        n, total = self.n_seen_rows, len(self.truth)
        return np.concatenate([np.arange(0, n, step), np.arange(n, total, step)])

    def every(self, step: int) -> ValidationRows:
        """Return every `step`-th row of each group."""
        seen, unseen = ([self.classes[t] for t in truth[::step]] for truth, _ in self._groups)
        return ValidationRows(seen, unseen, self.classes, self.n_seen)

    def curve(self, scores: NDArray[Any]) -> SeenUnseenCurve:
        """Return the curve of scores (n, n_classes), rows of seen classes first."""
        n = self.n_seen_rows
        parts = zip((scores[:n], scores[n:]), self._groups, strict=True)
        return curve_of(*(_reduce(part, *group, self.n_seen) for part, group in parts))

    def curve_among(self, scores: NDArray[Any], columns: NDArray[np.intp]) -> SeenUnseenCurve:
        """Return the curve as it would be if only these classes, in ascending order, were there."""
        n, n_seen = self.n_seen_rows, int((columns < self.n_seen).sum())
        position = np.full(scores.shape[1], -1)
        position[columns] = np.arange(len(columns))
        parts = []
        for part, (truth, _) in zip((scores[:n], scores[n:]), self._groups, strict=True):
            new = position[truth]
            kept = np.flatnonzero(new >= 0)
            new = new[kept]
            parts.append(_reduce(part[np.ix_(kept, columns)], new, class_weights(new), n_seen))
        return curve_of(*parts)


@dataclass(frozen=True)
class ScoredFold:
    """Validation rows of one fold and their scores (n, n_classes), seen rows and classes first."""

    rows: ValidationRows
    scores: NDArray[Any]


def best_calibration(
    curves: Sequence[SeenUnseenCurve], shares: Sequence[float | None] | None = None
) -> tuple[float, NDArray[np.float64]]:
    """Find the γ with the highest mean over several curves, exactly: of H, or of accuracy.

    Each curve is a step function of γ, so the mean changes only where one of them does. γ is put
    in the middle of the best plateau, of several equally good ones the widest.

    Parameters
    ----------
    curves : sequence of SeenUnseenCurve
        One curve a validation fold.
    shares : sequence of float or None, optional
        For each curve the weight of unseen classes in the accuracy to maximise, see
        `mean_accuracy`; None is H, which is what all have by default.

    Returns
    -------
    gamma : float
        0 where no calibration gets an image right (for H: one of each group).
    values : ndarray of shape (n_curves,)
        The mean of each curve at that γ.

    Examples
    --------
    >>> first = seen_unseen_curve([[3.0, 1.0]], ["a"], [[2.0, 1.0]], ["b"], ["a", "b"], 1)
    >>> second = seen_unseen_curve([[3.0, 1.0]], ["a"], [[2.5, 1.0]], ["b"], ["a", "b"], 1)
    >>> best_calibration([first, second])  # both are right between 1.5 and 2
    (1.75, array([1., 1.]))
    """
    weights = [None] * len(curves) if shares is None else list(shares)

    def values(gamma: ArrayLike) -> NDArray[np.float64]:
        pairs = zip(curves, weights, strict=True)
        return np.array([mean_accuracy(*curve.at(gamma), share) for curve, share in pairs])

    edges = np.unique(np.concatenate([curve.gammas[1:] for curve in curves]))
    if not len(edges):
        return 0.0, values(0.0)
    # What lies before the first and beyond the last edge are plateaus too; they get an end.
    margin = (edges[-1] - edges[0]) / len(edges)
    edges = np.concatenate([[edges[0] - margin], edges, [edges[-1] + margin]])
    mean = values(edges[:-1]).mean(axis=0)
    if mean.max() <= 0:
        return 0.0, values(0.0)
    good = np.concatenate([[False], mean >= mean.max() - 1e-12, [False]])
    starts = np.flatnonzero(good[1:] & ~good[:-1])
    stops = np.flatnonzero(~good[1:] & good[:-1])
    widest = np.argmax(edges[stops] - edges[starts])
    gamma = float((edges[starts[widest]] + edges[stops[widest]]) / 2)
    return gamma, values(gamma)


def mean_accuracy(
    seen: NDArray[np.float64], unseen: NDArray[np.float64], share: float | None
) -> NDArray[np.float64]:
    """Return the mean of two accuracies where unseen classes have this weight; None: H.

    Examples
    --------
    >>> float(mean_accuracy(np.array(0.75), np.array(0.25), 0.5))
    0.5
    >>> float(mean_accuracy(np.array(0.75), np.array(0.75), None))
    0.75
    """
    if share is None:
        return _harmonic(seen, unseen)
    return (1.0 - share) * seen + share * unseen


def group_scores(
    scores: ArrayLike,
    y: ArrayLike,
    classes: Sequence[Any] | NDArray[Any],
    n_seen: int,
    seen: bool,
) -> GroupedScores:
    """Reduce scores (n, n_classes) of images of one group to the best class of each group."""
    scores, group = np.asarray(scores), "seen" if seen else "unseen"
    if scores.ndim != 2 or scores.shape[1] != len(classes):
        raise DataError(
            f"scores of {group} images have shape {scores.shape}; (n, {len(classes)}) is expected"
        )
    if not 0 < n_seen < len(classes):
        raise DataError(
            f"n_seen is {n_seen} of {len(classes)} classes; at least one seen and one unseen class "
            "are expected"
        )
    truth = class_columns(y, classes)
    if len(truth) != len(scores):
        raise DataError(f"{len(scores)} rows of scores came with {len(truth)} labels")
    if not len(truth):
        raise DataError(f"there are no images of {group} classes; at least one is expected")
    strangers = (truth < n_seen) != seen
    if strangers.any():
        name = label_text(np.asarray(classes)[truth[strangers][0]])
        raise DataError(f"class {name} is among the {group} images but is no {group} class")
    return _reduce(scores, truth, class_weights(truth), n_seen)


def _reduce(
    scores: NDArray[Any], truth: NDArray[np.intp], weights: NDArray[np.float64], n_seen: int
) -> GroupedScores:
    left, right = scores[:, :n_seen], scores[:, n_seen:]
    best_seen, best_unseen = left.argmax(axis=1), right.argmax(axis=1)
    rows = np.arange(len(scores))
    return GroupedScores(
        truth,
        best_seen,
        best_unseen + n_seen,
        left[rows, best_seen].astype(np.float64),
        right[rows, best_unseen].astype(np.float64),
        weights,
    )


def class_columns(y: ArrayLike, classes: Sequence[Any] | NDArray[Any]) -> NDArray[np.intp]:
    """Return the position in `classes` of every label; an unknown label is refused."""
    labels = np.asarray(y)
    positions = {name: column for column, name in enumerate(np.asarray(classes).tolist())}
    names, codes = np.unique(labels, return_inverse=True)
    known = np.array([positions.get(name, -1) for name in names.tolist()], dtype=np.intp)
    columns: NDArray[np.intp] = known[codes]
    if (columns < 0).any():
        row = int(np.flatnonzero(columns < 0)[0])
        raise DataError(f"class {label_text(labels[row])} (row {row}) is not among the classes")
    return columns


def class_weights(codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Weights by which a sum over images becomes a mean over the classes that occur."""
    _, position, counts = np.unique(codes, return_inverse=True, return_counts=True)
    return 1.0 / (counts[position] * len(counts))


def _harmonic(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.asarray(a + b)
    return np.divide(2 * a * b, total, out=np.zeros_like(total), where=total > 0)
