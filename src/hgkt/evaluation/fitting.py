"""Fit a method on a data set as it will be used: with what its rows allow to choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import check_choice
from hgkt.calibration.folds import ClassFolds
from hgkt.data import GZSLDataset
from hgkt.estimators._calibrating import AUTO, MIN_CLASSES
from hgkt.estimators.base import GZSLClassifier
from hgkt.evaluation.search_data import RowData, SumsData
from hgkt.evaluation.selection import ClassFoldSearch, wants_calibration
from hgkt.statistics import GatheredStatistics

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
    (['calibration', 'metric'], 'random')
    """
    X, y = dataset.rows("train")
    data = RowData(X, y, dataset.attributes_of(dataset.seen_classes))
    wanted = _Wanted(select, calibrate, balance, n_folds, random_state)
    return wanted.fit(estimator, data, dataset.class_folds(), bool(dataset.folds), progress)


def fit_gathered(
    estimator: GZSLClassifier,
    statistics: GatheredStatistics,
    class_attributes: Any,
    *,
    select: bool | str = False,
    calibrate: bool | str = "auto",
    balance: str = "groups",
    n_folds: int | None = None,
    random_state: int = 0,
    published: bool = False,
    progress: Progress | None = None,
) -> Fitted:
    """Do with gathered statistics, on their own class folds, what `fit_dataset` does with rows.

    Parameters
    ----------
    estimator : GZSLClassifier
        A method that learns from sums.
    statistics : GatheredStatistics
        See :func:`hgkt.gather`.
    class_attributes : mapping
        Attribute vector of every class with rows.
    published : bool
        Whether the folds of the statistics came with the data, for the record.
    select, calibrate, balance, n_folds, random_state, progress
        As for `fit_dataset`.

    Returns
    -------
    Fitted
    """
    data = SumsData(statistics, class_attributes)
    wanted = _Wanted(select, calibrate, balance, n_folds, random_state)
    return wanted.fit(estimator, data, statistics.folds, published, progress)


@dataclass(frozen=True)
class _Wanted:
    """What is to be chosen, and how; the parameters are those of `fit_dataset`."""

    select: bool | str
    calibrate: bool | str
    balance: str
    n_folds: int | None
    random_state: int

    def fit(
        self,
        estimator: GZSLClassifier,
        data: RowData | SumsData,
        folds: ClassFolds,
        published: bool,
        progress: Progress | None,
    ) -> Fitted:
        check_choice("balance", self.balance, ("groups", "classes"))
        counts = data.counts
        select = _enough(counts, _SELECT_FROM) if self.select == "auto" else bool(self.select)
        calibrate = self.calibrate
        if calibrate == "auto":
            wanted = wants_calibration(estimator, "auto")
            calibrate = wanted and (select or _enough(counts, MIN_CLASSES))
        if not calibrate and estimator.calibration == AUTO:
            estimator.set_params(calibration=0.0)  # not left to the method's own fit either
        if not select and not calibrate:
            data.fit(estimator.on_progress(progress))
            return Fitted(estimator.on_progress(None))
        search = ClassFoldSearch(
            estimator,
            stages=None if select else self._plain_stages(estimator, counts),
            n_folds=self.n_folds,
            calibrate=bool(calibrate),
            random_state=self.random_state,
            progress=progress,
        ).fit_data(data, folds or None)
        return self._fitted(search, "published" if published else "random", select)

    def _plain_stages(self, estimator: GZSLClassifier, counts: NDArray[Any]) -> list[Any]:
        # What they try was measured with the γ of groups alone.
        return estimator.plain_stages(counts) if self.balance == "groups" else []

    def _fitted(self, search: ClassFoldSearch, folds: str, select: bool) -> Fitted:
        model, law = search.best_estimator_, search.calibration_
        if self.balance == "classes" and search.calibrated_:
            law = law.for_classes()
            model.set_params(calibration=law.to_dict())
            model.set_confidence(search.fold_samples_, self.random_state)
        gamma = {"calibration": law.to_dict()} if search.calibrated_ else {}
        validation = {
            "metric": search.metric_,
            "score": search.best_score_,
            "folds": folds,
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
    return _enough(np.unique(labels, return_counts=True)[1], n_classes)


def _enough(counts: NDArray[Any], n_classes: int) -> bool:
    n_good = int((counts > 1).sum())
    return n_good >= n_classes and 2 * n_good > len(counts)
