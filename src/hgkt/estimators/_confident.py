"""Answers that know how sure they are: probabilities, rejection and prediction sets."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_number
from hgkt.confidence import Confidence, FoldSample, fit_confidence, plain_probabilities
from hgkt.confidence.novelty import CHANCE, rejected, with_unknown
from hgkt.confidence.samples import ADDED, GROWN, SEEN
from hgkt.confidence.sets import set_columns
from hgkt.estimators._calibrated import CalibratedScores
from hgkt.estimators._snapshots import snapshot
from hgkt.exceptions import ConfidenceWarning, DataError


@dataclass(frozen=True)
class Answers:
    """What a model says of some rows, and how sure it is.

    Parameters
    ----------
    classes : ndarray of shape (C,)
        The candidates.
    labels : ndarray of shape (n,)
        The best class, or `hgkt.UNKNOWN`.
    probabilities : ndarray of shape (n, C)
        Of the candidates; rows sum to one.
    scores : ndarray of shape (n, C)
        Of the candidates, higher is better.
    novelty : ndarray of shape (n,), or None
        From 0 to 1: the share of rows of known classes that look less strange. None where
        validation folds found none.
    members : ndarray of shape (n, C), or None
        Which classes are in the prediction set, where a coverage was asked for.
    """

    classes: NDArray[Any]
    labels: NDArray[Any]
    probabilities: NDArray[np.float64]
    scores: NDArray[Any]
    novelty: NDArray[np.float64] | None = None
    members: NDArray[np.bool_] | None = None

    def sets(self) -> list[NDArray[Any]]:
        """Return the classes in each prediction set, the likeliest first."""
        if self.members is None:
            raise DataError("no prediction sets were asked for; give a coverage")
        return [self.classes[columns] for columns in set_columns(self.members, self.probabilities)]


class ConfidentAnswers(CalibratedScores):
    """Probabilities, novelty and sets of a classifier that has scores.

    ``confidence_`` is found on validation folds by `fit` where it calibrates itself
    (``calibration="auto"``), and by `hgkt.ClassFoldSearch`; it is None elsewhere.
    """

    _confidence: Confidence | None = None

    @abstractmethod
    def score_classes(self, X: ArrayLike, penalty: bool = True) -> NDArray[Any]:
        """Score every class for every row."""

    @property
    def confidence_(self) -> Confidence | None:
        """Temperatures and thresholds in force; None where no validation folds gave any."""
        return self._confidence

    def set_confidence(self, folds: Sequence[FoldSample], random_state: int = 0) -> Self:
        """Find ``confidence_`` on rows of validation folds, under the calibration in force.

        Parameters
        ----------
        folds : sequence of FoldSample
            Scores of this method, with these parameters, on folds of validation classes.
        random_state : int, default=0
            Seed of which held-out classes stay unknown.
        """
        self._confidence = fit_confidence(folds, self.calibration_, random_state)
        return self

    def class_groups(self) -> NDArray[np.intp]:
        """Return 0, 1 or 2 for classes learnt from images, added, or added and then grown.

        Ordered as ``classes_``.
        """
        now = snapshot(self)
        groups = np.full(len(now.classes_), ADDED)
        groups[now.candidates("seen")] = np.where(now._grown, GROWN, SEEN)
        return groups

    def answers(
        self,
        X: ArrayLike,
        among: str | Sequence[Any] = "all",
        reject: float | None = None,
        coverage: float | None = None,
    ) -> Answers:
        """Classify rows and say how sure each answer is; rows are scored once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        reject : float, optional
            The share of rows of known classes that may be rejected by mistake, above 0 and below
            1. Rows that look like none of the known classes are labelled `hgkt.UNKNOWN`.
        coverage : float, optional
            How often a prediction set is to hold the true class, above 0 and below 1.
        """
        for name, value in (("reject", reject), ("coverage", coverage)):
            if value is not None:
                check_number(name, value, low=0, high=1, open_low=True, open_high=True)
        now = snapshot(self)
        columns, groups = now.candidates(among), now.class_groups()
        confidence = now._checked_confidence(reject, coverage)
        everything = now.score_classes(X)
        scores, classes = everything[:, columns], now.classes_[columns]
        labels = classes[scores.argmax(axis=1)]
        if confidence is None:
            return Answers(classes, labels, plain_probabilities(scores), scores)
        probabilities = confidence.temperatures.probabilities(scores, groups[columns])
        # Whether a row looks like a known class does not depend on who is asked for.
        whole = probabilities
        if len(columns) < len(groups):
            whole = confidence.temperatures.probabilities(everything, groups)
        novelty = confidence.novelty(everything + now.penalties_, whole)
        if reject is not None:
            labels = with_unknown(labels, rejected(novelty, reject))
        members = None
        if coverage is not None:
            learned = now.learned_shares()[columns]
            members = confidence.sets.members(probabilities, learned, coverage)
        return Answers(classes, labels, probabilities, scores, novelty, members)

    def predict_proba(self, X: ArrayLike, among: str | Sequence[Any] = "all") -> NDArray[Any]:
        """Return the probability of every class for each row; rows sum to one.

        Images of seen and of added classes are taken to be equally frequent. The most probable
        class is what `predict` returns. A model without ``confidence_`` warns: its numbers are
        ordered, but not calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates)
            Columns ordered as ``classes_`` for "all", else as `candidates` has them.
        """
        now = snapshot(self)
        columns = now.candidates(among)
        if isinstance(among, str) and among == "all":
            columns = np.arange(len(columns))
        scores = now.score_classes(X)[:, columns]
        if now._confidence is None:
            warnings.warn(_UNCALIBRATED, ConfidenceWarning, stacklevel=2)
            return plain_probabilities(scores)
        groups = now.class_groups()[columns]
        return now._confidence.temperatures.probabilities(scores, groups)

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how little each row looks like any known class, from 0 to 1.

        A share r of the rows of known classes lies above 1 − r, so ``novelty(X) > 0.95`` is what
        ``predict(X, reject=0.05)`` rejects.
        """
        if self._confidence is None:
            raise DataError(f"novelty cannot be told: {_NO_FOLDS}")
        novelty = self.answers(X).novelty
        assert novelty is not None
        return novelty

    def predict_set(
        self, X: ArrayLike, coverage: float = 0.9, among: str | Sequence[Any] = "all"
    ) -> list[NDArray[Any]]:
        """Return for each row the classes among which the true one is, with a stated probability.

        Conformal sets: the promise holds if new images are like the validation images of seen
        classes, and new classes like the seen classes that validation folds held out. Where too
        few classes were held out for the promise a warning says what can be promised.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            How often a set is to hold the true class.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.

        Returns
        -------
        list of ndarray
            The classes of each set, the likeliest first; never empty.
        """
        return self.answers(X, among, coverage=coverage).sets()

    def _checked_confidence(
        self, reject: float | None, coverage: float | None
    ) -> Confidence | None:
        """Return the confidence; refuse or warn where it cannot do what is asked."""
        confidence = self._confidence
        if confidence is None:
            for name, value in (("reject", reject), ("coverage", coverage)):
                if value is not None:
                    raise DataError(f"{name} cannot be kept: {_NO_FOLDS}")
            return None
        if reject is not None and confidence.novelty.auroc < CHANCE:
            warnings.warn(
                "on validation classes this model tells images of unknown classes from known ones "
                f"hardly better than by chance (area under the ROC curve "
                f"{confidence.novelty.auroc:.2f}, chance is 0.5); what it rejects says little",
                ConfidenceWarning,
                stacklevel=4,
            )
        if coverage is not None and (self.class_groups() == ADDED).any():
            promised = confidence.sets.added.largest_promise()
            if coverage > promised:
                warnings.warn(
                    f"{confidence.sets.added.n_units} held-out classes can promise a coverage of "
                    f"{promised:.2f} for added classes, not {coverage:g}; their sets may hold the "
                    "true class less often",
                    ConfidenceWarning,
                    stacklevel=4,
                )
        return confidence


_NO_FOLDS = (
    "this model has no thresholds from validation classes; fit it by hgkt.ClassFoldSearch, or with "
    'calibration="auto" on six classes or more'
)
_UNCALIBRATED = f"probabilities are not calibrated: {_NO_FOLDS}"
