"""A model that calibrates itself: leave seen classes out, see what γ they would have needed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hgkt.calibration import (
    Calibration,
    HeldOutClasses,
    HeldOutRows,
    ScoredFold,
    class_folds,
    fit_calibration,
    validation_folds,
)
from hgkt.calibration.folds import ValidationFold
from hgkt.confidence import Confidence, FoldSample, fit_confidence, keep_samples
from hgkt.exceptions import ClassWarning

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

AUTO = "auto"
MIN_CLASSES = 6
"""Of fewer seen classes a fold would hold out too many to tell anything."""
_MAX_ROWS = 20_000  # γ is two numbers; more rows would cost time and change nothing


@dataclass(frozen=True)
class Found:
    """What class folds said: γ, how sure answers are, and how well held-out classes were told.

    None where they could not say.
    """

    law: Calibration
    confidence: Confidence | None = None
    held_out: HeldOutClasses | None = None


def own_calibration(
    model: GZSLClassifier,
    X: NDArray[Any],
    y: NDArray[Any],
    attributes: Mapping[Any, NDArray[np.float64]],
) -> Found:
    """Return the γ that class folds of the training data ask for, all classes alike.

    Parameters
    ----------
    model : GZSLClassifier
        Whose clones are fitted, once per fold.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
    attributes : mapping
        Attribute vector of every class in `y`.

    Returns
    -------
    Found
        None at all (γ = 0) where there are fewer than six classes, or so few of two rows that a
        fold may hold out all of those.
    """
    names, counts = np.unique(y, return_counts=True)
    if len(names) < MIN_CLASSES:
        return Found(Calibration())
    folds = class_folds(names, model.default_folds(len(names)))
    if (counts > 1).sum() <= max(len(held_out) for _, held_out in folds):
        return Found(Calibration())
    kept = _few_rows(y)
    parts = validation_folds(X[kept], y[kept], attributes, folds)
    kept_folds: list[FoldSample] = []
    rows = HeldOutRows()
    scored = rows.watch(_refitted(model, fold) for fold in parts)
    law = fit_calibration(keep_samples(scored, kept_folds)).for_classes()
    return Found(law, fit_confidence(kept_folds, law), rows.at(law))


def _refitted(model: GZSLClassifier, fold: ValidationFold) -> ScoredFold:
    """Score the validation rows of a fold by a plain fit, in the precision of the data."""
    blank = clone(model).set_params(calibration=0.0)
    blank.fit(fold.X, fold.y, class_attributes=fold.train_attributes)
    with warnings.catch_warnings():  # classes described alike are the user's, not added ones
        warnings.simplefilter("ignore", ClassWarning)
        blank.add_classes(fold.val_attributes)
    scores = blank.score_classes(fold.X_eval, penalty=False)
    return ScoredFold(fold.rows, scores[:, blank.candidates()])


def blank_clone(model: GZSLClassifier) -> GZSLClassifier:
    """Return an unfitted clone that does not calibrate itself."""
    blank: GZSLClassifier = clone(model)
    return blank.set_params(calibration=0.0) if blank.calibration == AUTO else blank


def _few_rows(y: NDArray[Any]) -> NDArray[np.intp]:
    """Return rows (n,), at most `_MAX_ROWS`: the first ones of each class, as many of each."""
    if len(y) <= _MAX_ROWS:
        return np.arange(len(y))
    order = np.argsort(y, kind="stable")
    _, first, counts = np.unique(y[order], return_index=True, return_counts=True)
    rank = np.arange(len(y)) - np.repeat(first, counts)
    return np.sort(order[rank < max(2, _MAX_ROWS // len(first))])
