"""What class folds say of a model: γ, how sure its answers are, how well held-out classes do.

One pass for all who validate: `fit` on rows, `fit_statistics` on sums, and selection, which has
scored its folds already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hgkt.calibration import (
    Calibration,
    Confidence,
    ExpectedAccuracies,
    Favour,
    Fold,
    FoldSample,
    HeldOutClasses,
    HeldOutRows,
    ScoredFold,
    class_folds,
    fit_accuracies,
    fit_calibration,
    fit_confidence,
    folds_of_rows,
    folds_of_sums,
    sample_folds,
)
from hgkt.estimators.scoring import table_scores
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics, Sums

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

MIN_CLASSES = 6
"""Of fewer seen classes a fold would hold out too many to tell anything."""
_MAX_ROWS = 20_000  # γ is two numbers; more rows would cost time and change nothing


@dataclass(frozen=True)
class Validation:
    """What class folds say of a model.

    Parameters
    ----------
    calibration : Calibration
        γ; 0 where there were too few classes for folds.
    confidence : Confidence or None
        Temperatures and thresholds.
    held_out : HeldOutClasses or None
        How well seen classes were recognised when they were held out.
    accuracies : ExpectedAccuracies or None
        What adding classes costs the learned ones.
    """

    calibration: Calibration = field(default_factory=Calibration)
    confidence: Confidence | None = None
    held_out: HeldOutClasses | None = None
    accuracies: ExpectedAccuracies | None = None


@dataclass(frozen=True)
class FoldScores:
    """What is kept of scored folds; their score matrices are not.

    Parameters
    ----------
    calibration : Calibration
        The law of γ that is best for what is favoured.
    samples : list of FoldSample
        Some scored rows of each fold.
    held_out : HeldOutRows
        How far the true class of each row of a held-out class is ahead.
    """

    calibration: Calibration
    samples: list[FoldSample]
    held_out: HeldOutRows

    def under(
        self, law: Calibration, favour: Favour | None = None, random_state: int = 0
    ) -> Validation:
        """Return what the folds say of a model under a calibration.

        Parameters
        ----------
        law : Calibration
            That in force.
        favour : Favour, optional
            What it was found for; by default "balanced".
        random_state : int, default=0
            Seed of which held-out classes stay unknown.
        """
        return Validation(
            law,
            fit_confidence(self.samples, law, random_state, favour),
            self.held_out.at(law),
            fit_accuracies(self.samples),
        )


def read_folds(
    folds: Iterable[ScoredFold], random_state: int = 0, favour: Favour | None = None
) -> FoldScores:
    """Find γ on scored folds, and keep what confidence is found on.

    Parameters
    ----------
    folds : iterable of ScoredFold
        Read once.
    random_state : int, default=0
        Seed of which rows are kept, and of what γ is tried with.
    favour : Favour, optional
        What γ is to favour; by default "balanced".
    """
    samples: list[FoldSample] = []
    held_out = HeldOutRows()
    scored = sample_folds(held_out.watch(folds), samples, random_state)
    law = fit_calibration(scored, random_state, favour)
    return FoldScores(law, samples, held_out)


def score_folds(model: GZSLClassifier, folds: Iterable[Fold]) -> Iterator[ScoredFold]:
    """Fit a clone on each fold and score its validation rows, in the precision of the data."""
    for fold in folds:
        fitted = clone(model).fit_fold(fold)
        yield ScoredFold(fold.rows, table_scores(fitted, [fold.X_eval]))


def validate_on_rows(
    model: GZSLClassifier, X: NDArray[Any], y: NDArray[Any], attributes: Mapping[Any, Any]
) -> Validation:
    """Return what class folds of the training rows say of a model.

    Parameters
    ----------
    model : GZSLClassifier
        Whose clones are fitted, one per fold.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    attributes : mapping
        Attribute vector of every class in `y`.

    Returns
    -------
    Validation
        Without γ where there are fewer than six classes, or so few of two rows that a fold may
        hold out all of those.
    """
    names, counts = np.unique(y, return_counts=True)
    if len(names) < MIN_CLASSES:
        return Validation()
    folds = class_folds(names, model.default_folds(len(names)))
    if (counts > 1).sum() <= max(len(held_out) for _, held_out in folds):
        return Validation()
    few = _few_rows(y)
    return _validate(model, folds_of_rows(X[few], y[few], attributes, folds))


def validate_on_sums(
    model: GZSLClassifier, statistics: Sums, attributes: Mapping[Any, Any]
) -> Validation:
    """Return what the class folds of gathered statistics say of a model; see `validate_on_rows`."""
    if not isinstance(statistics, GatheredStatistics):
        raise DataError(f"calibration={model.calibration!r} needs statistics of hgkt.gather")
    folds = statistics.folds
    if len(statistics.classes) < MIN_CLASSES:
        return Validation()
    if not folds:
        raise DataError(
            "calibration='auto' needs statistics with class folds: gather with folds= or classes=, "
            "or set calibration=0"
        )
    if (statistics.counts > 1).sum() <= max(len(held_out) for _, held_out in folds):
        return Validation()
    return _validate(model, folds_of_sums(statistics, attributes))


def blank_clone(model: GZSLClassifier) -> GZSLClassifier:
    """Return an unfitted clone that does not calibrate itself."""
    blank: GZSLClassifier = clone(model)
    return blank if Favour.of(blank.calibration) is None else blank.set_params(calibration=0.0)


def _validate(model: GZSLClassifier, folds: Iterable[Fold]) -> Validation:
    """Return what folds say of a plain fit."""
    favour = Favour.of(model.calibration)
    found = read_folds(score_folds(model, folds), favour=favour)
    return found.under(found.calibration, favour)


def _few_rows(y: NDArray[Any]) -> NDArray[np.intp]:
    """Return rows (n,), at most `_MAX_ROWS`: the first ones of each class, as many of each."""
    if len(y) <= _MAX_ROWS:
        return np.arange(len(y))
    order = np.argsort(y, kind="stable")
    _, first, counts = np.unique(y[order], return_index=True, return_counts=True)
    rank = np.arange(len(y)) - np.repeat(first, counts)
    return np.sort(order[rank < max(2, _MAX_ROWS // len(first))])
