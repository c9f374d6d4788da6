"""Fit a method on a data set as it will be used: with what its rows allow to choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import check_choice
from hgkt.data import GZSLDataset
from hgkt.estimators._calibrating import AUTO, MIN_CLASSES
from hgkt.estimators.base import GZSLClassifier
from hgkt.evaluation.selection import ClassFoldSearch, wants_calibration

_SELECT_FROM = 12


@dataclass(frozen=True)
class Fitted:
    """A model, and how it was chosen.

    Parameters
    ----------
    model : GZSLClassifier
        Fitted on the train rows.
    chosen : dict
        Values by parameter.
    validation : dict or None
        On what they were chosen: ``metric``, ``score``, ``folds``, ``n_folds``, ``n_settings``.
    selected : bool
        Whether parameters were chosen, not only γ.
    """

    model: Any
    chosen: dict[str, Any] = field(default_factory=dict)
    validation: dict[str, Any] | None = None
    selected: bool = False


def fit_dataset(
    estimator: GZSLClassifier,
    dataset: GZSLDataset,
    *,
    select: bool | str = False,
    calibrate: bool | str = "auto",
    balance: str = "groups",
    n_folds: int | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
) -> Fitted:
    """Fit on the train rows, through a search on class folds where something is to be chosen.

    Parameters
    ----------
    estimator : GZSLClassifier
        The method.
    dataset : GZSLDataset
        Its test rows are never read.
    select : bool or "auto", default=False
        Whether to choose parameters on validation classes; "auto": where there are twelve
        classes of two rows or more.
    calibrate : bool or "auto", default="auto"
        Whether to choose γ there; "auto": where no γ is set and six classes have two rows or more.
    balance : {"groups", "classes"}, default="groups"
        What γ weighs alike. "groups": seen and added classes, each as a whole, as H does; the
        fewer are added, the more a seen class pays. "classes": every class, so that three
        added ones do not take the rows of three hundred seen ones.
    n_folds : int, optional
        How many class folds; by default the method's own number.
    random_state : int, default=0
        Seed of the folds.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.

    Returns
    -------
    Fitted

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.estimators import HGKTClassifier
    >>> fitted = fit_dataset(HGKTClassifier(), load_dataset("digits"), select="auto")
    >>> sorted(fitted.chosen), fitted.validation["folds"]
    (['calibration'], 'random')
    """
    check_choice("balance", balance, ("groups", "classes"))
    X, y = dataset.rows("train")
    attributes = dataset.attributes_of(dataset.seen_classes)
    select = enough_classes(y, _SELECT_FROM) if select == "auto" else bool(select)
    if calibrate == "auto":
        wanted = wants_calibration(estimator, "auto")
        calibrate = wanted and (select or enough_classes(y, MIN_CLASSES))
    if not calibrate and estimator.calibration == AUTO:
        estimator.set_params(calibration=0.0)  # not left to the method's own fit either
    if not select and not calibrate:
        estimator.on_progress(progress).fit(X, y, class_attributes=attributes)
        return Fitted(estimator.on_progress(None))
    search = ClassFoldSearch(
        estimator,
        stages=None if select else [],
        n_folds=n_folds,
        calibrate=bool(calibrate),
        random_state=random_state,
        progress=progress,
    ).fit(X, y, attributes, folds=dataset.class_folds() or None)
    model, law = search.best_estimator_, search.calibration_
    if balance == "classes" and search.calibrated_:
        law = law.for_classes()
        model.set_params(calibration=law.to_dict())
        model.set_confidence(search.fold_samples_, random_state)
    gamma = {"calibration": law.to_dict()} if search.calibrated_ else {}
    validation = {
        "metric": search.metric_,
        "score": search.best_score_,
        "folds": "published" if dataset.folds else "random",
        "n_folds": len(search.folds_),
        "n_settings": len(search.cv_results_),
    }
    return Fitted(model, {**search.best_params_, **gamma}, validation, select)


def enough_classes(labels: NDArray[Any], n_classes: int) -> bool:
    """Say whether so many classes, and most of all there are, have two rows or more.

    Validation holds out rows of the classes that a fold trains on, and whole classes besides.

    Examples
    --------
    >>> enough_classes(np.array(["a", "a", "b", "b", "c"]), 2)
    True
    >>> enough_classes(np.array(["a", "a", "b", "c"]), 1)
    False
    """
    counts = np.unique(labels, return_counts=True)[1]
    n_good = int((counts > 1).sum())
    return n_good >= n_classes and 2 * n_good > len(counts)
