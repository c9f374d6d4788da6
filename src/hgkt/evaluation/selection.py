"""Choose parameters and calibration on validation classes; test data cannot reach it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from hgkt._typing import Progress
from hgkt._validation import check_choice, check_number
from hgkt.calibration.curve import SeenUnseenCurve, best_calibration
from hgkt.calibration.folds import ClassFolds, class_folds
from hgkt.calibration.held_out import HeldOutRows
from hgkt.calibration.law import Calibration, fit_calibration
from hgkt.closed_form.family import mixture_setting, single_setting
from hgkt.confidence import FoldSample, keep_samples
from hgkt.estimators._calibrating import blank_clone
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.hgkt import HGKTClassifier
from hgkt.evaluation.election import ElectionFold, area, elect_mixture
from hgkt.evaluation.metrics import harmonic_mean
from hgkt.evaluation.search_data import RowData, SearchData, SearchFold, SumsData, score_folds
from hgkt.evaluation.settings import SettingResult, settings_frame
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics

if TYPE_CHECKING:
    import pandas as pd

Stage = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
METRICS = ("ausuc", "H", "zsl")
_UNKNOWN = (np.nan, np.nan, np.nan)


class ClassFoldSearch(ClassifierMixin, BaseEstimator):
    """Search parameters on classes held out of training, then fit on everything.

    In each fold some seen classes play the unseen ones and a part of the images of the others
    plays the test images of seen classes. Stages are searched one after another, each a full grid
    with the best of the earlier ones fixed; the first of equally good settings wins. The
    calibration is found on the same folds for the setting that won: the law of γ with the highest
    mean H (:func:`hgkt.calibration.fit_calibration`).

    A fitted search answers as `best_estimator_` does: `predict`, `add_classes`, `save`, `explain`
    and every other attribute are that model's.

    Parameters
    ----------
    estimator : GZSLClassifier
        The method; it is cloned, never changed.
    stages : list of dict, optional
        Grids, each a dict from parameter name to values (or a list of such dicts). By default
        ``estimator.default_stages()``, and for HGKTClassifier a mixture of closed forms (docs page
        *closed form*); an empty list leaves only γ to choose.
    n_folds : int, optional
        Number of class folds; by default ``estimator.default_folds(n_classes)``. Of the folds
        that `fit` is given the first so many are taken; where it is given none, random ones are
        drawn.
    metric : {"auto", "ausuc", "H", "zsl"}, default="auto"
        What is maximised. "auto" is AUSUC, which no calibration changes, for every method. "H" is
        taken at the calibration that would be in force.
    calibrate : bool or "auto", default="auto"
        Whether `best_estimator_` gets the γ found. "auto": unless the method has a calibration
        set other than 0.
    holdout : float, default=0.2
        Share of the images of a train class that plays its test images.
    random_state : int, default=0
        Seed of the folds and of what is held out.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)`` with the metric and H, in percent.

    Attributes
    ----------
    best_estimator_ : GZSLClassifier
        Fitted on all data, with the best parameters and, if wanted, γ.
    best_params_ : dict
        The values chosen.
    best_score_ : float
        Mean validation metric of the winner, in percent.
    calibration_ : Calibration
        That of the winner, whether it is used or not.
    calibrated_ : bool
        Whether it is used.
    cv_results_ : list of SettingResult
        Everything tried; `results_frame` makes a table.
    folds_ : list of (train classes, validation classes)
        The folds.
    fold_samples_ : list of FoldSample
        Scores of the winner on rows of each fold; what its ``confidence_`` was found on.
    metric_ : str
        What was maximised.
    best_by_zsl_ : SettingResult
        Of everything tried the setting with the highest mean ZSL accuracy.
    select_time_, refit_time_ : float
        Seconds.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.estimators import HGKTClassifier
    >>> data = load_dataset("digits")
    >>> X, y = data.rows("train")
    >>> search = ClassFoldSearch(HGKTClassifier(), stages=[], calibrate=True)
    >>> search = search.fit(X, y, data.attributes_of(data.seen_classes))
    >>> len(search.folds_), search.best_estimator_.calibration_ == search.calibration_
    (6, True)
    """

    cv_results_: list[SettingResult]
    best_params_: dict[str, Any]

    def __init__(
        self,
        estimator: Any,
        stages: Sequence[Stage] | None = None,
        n_folds: int | None = None,
        metric: str = "auto",
        calibrate: bool | str = "auto",
        holdout: float = 0.2,
        random_state: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.estimator = estimator
        self.stages = stages
        self.n_folds = n_folds
        self.metric = metric
        self.calibrate = calibrate
        self.holdout = holdout
        self.random_state = random_state
        self.progress = progress

    def __getattr__(self, name: str) -> Any:
        # Only called for what a search itself has not.
        if name.startswith("_") or "best_estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} (yet)")
        return getattr(self.best_estimator_, name)

    def predict(
        self, X: ArrayLike, among: str | Sequence[Any] = "all", reject: float | None = None
    ) -> NDArray[Any]:
        """Return the best class for each row; see :meth:`GZSLClassifier.predict`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, among, reject)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        class_attributes: Any = None,
        folds: ClassFolds | None = None,
    ) -> Self:
        """Choose on class folds of the data given, then fit on all of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features of seen classes.
        y : array-like of shape (n_samples,)
            Class of each row.
        class_attributes : mapping or DataFrame
            Attribute vector of every class in `y`, keyed by class.
        folds : list of (train classes, validation classes), optional
            Class folds; by default random ones.
        """
        return self.fit_data(RowData(X, y, class_attributes), folds)

    def fit_statistics(self, statistics: GatheredStatistics, class_attributes: Any) -> Self:
        """Choose on the class folds of gathered statistics, then fit on all of them.

        Parameters
        ----------
        statistics : GatheredStatistics
            See :func:`hgkt.gather`; its sample is what validation scores.
        class_attributes : mapping or DataFrame
            Attribute vector of every class, keyed by class.
        """
        return self.fit_data(SumsData(statistics, class_attributes), statistics.folds)

    def fit_data(self, data: SearchData, folds: ClassFolds | None = None) -> Self:
        """Choose on class folds of rows or of statistics, then fit on all of it."""
        check_choice("metric", self.metric, ("auto", *METRICS))
        if data.class_attributes is None:
            raise DataError("selection on validation classes needs class_attributes; got None")
        start = time.perf_counter()
        names, n_folds = data.classes, self.n_folds
        if n_folds is None:
            n_folds = self.estimator.default_folds(len(names))
        check_number("n_folds", n_folds, low=1, integer=True)
        self.folds_ = list(folds or class_folds(names, n_folds, None, self.random_state))[:n_folds]
        self.calibrated_ = wants_calibration(self.estimator, self.calibrate)
        self.metric_ = "ausuc" if self.metric == "auto" else self.metric
        if self.stages is None and isinstance(self.estimator, HGKTClassifier):
            self._elect(self.estimator, self._iter_folds(data))
        else:
            self._search(lambda: self._iter_folds(data))
        winner = blank_clone(self.estimator).set_params(**self.best_params_)
        held_out = HeldOutRows()
        scored = held_out.watch(score_folds(self._iter_folds(data), winner))
        self.fold_samples_: list[FoldSample] = []
        kept = keep_samples(scored, self.fold_samples_, self.random_state)
        self.calibration_ = fit_calibration(kept, self.random_state)
        self.select_time_ = time.perf_counter() - start
        model = self._best_model().on_progress(self.progress)
        self.best_estimator_ = data.fit(model).on_progress(None)
        self.best_estimator_.set_confidence(self.fold_samples_, self.random_state)
        self.best_estimator_.remember_held_out(held_out.at(model.calibration_))
        self.refit_time_ = time.perf_counter() - start - self.select_time_
        return self

    @property
    def best_by_zsl_(self) -> SettingResult:
        """The setting with the highest mean ZSL accuracy of all tried, the first of equal ones."""
        check_is_fitted(self, "cv_results_")
        known = [result for result in self.cv_results_ if not np.isnan(result.zsl)]
        return max(known, key=lambda result: result.zsl)

    def results_frame(self) -> pd.DataFrame:
        """Return everything tried as a table, one row a setting."""
        return settings_frame(self.cv_results_)

    # ------------------------------------------------------------------ the search
    def _elect(self, estimator: HGKTClassifier, folds: Iterator[SearchFold]) -> None:
        """Choose a mixture of closed forms; what is tried are its members and the mixtures."""
        value = {
            "ausuc": area,
            "H": lambda curve: curve.harmonic.max() if self.calibrated_ else _h_at(curve, 0.0),
            "zsl": lambda curve: curve.zsl,
        }[self.metric_]
        families = estimator.mixture_families()
        election = elect_mixture(families, map(_election_fold, folds), value, self.progress)
        self.cv_results_ = [
            SettingResult(0, single_setting(member), values, float(np.mean(values)), *_UNKNOWN)
            for member, values in election.members
        ]
        mixtures = [
            self._result(1, mixture_setting(c.mixture), c.curves, [0.0] * len(c.curves))
            for c in election.mixtures
        ]
        self.cv_results_ += mixtures
        best = max(mixtures, key=lambda result: result.mean)
        self._take(best)

    def _search(self, folds: Callable[[], Iterator[SearchFold]]) -> None:
        default = self.stages is None
        stages = list(self.estimator.default_stages() if default else self.stages or [])
        grids = [list(ParameterGrid(stage)) for stage in stages] or [[{}]]
        self._check_names(grids)
        self.cv_results_, self.best_params_ = [], {}
        known: dict[str, SettingResult] = {}  # a later stage may come back to a setting
        for number, grid in enumerate(grids):
            fixed = [{**self.best_params_, **params} for params in grid]
            label = "select" if len(grids) == 1 else f"select {number + 1}/{len(grids)}"
            fresh = [params for params in fixed if self._key(params) not in known]
            for result in self._search_stage(number, label, fresh, folds()) if fresh else []:
                known[self._key(result.params)] = result
            results = [
                replace(known[self._key(params)], stage=number, params=params) for params in fixed
            ]
            best = max(results, key=lambda result: result.mean)  # the first of equal ones
            self.cv_results_ += results
            self._take(best)

    def _take(self, best: SettingResult) -> None:
        self.best_params_, self.best_score_ = best.params, best.mean

    def _key(self, params: dict[str, Any]) -> str:
        """Tell settings apart by all their parameters, given here or not."""
        return repr(sorted({**self.estimator.get_params(), **params}.items()))

    def _search_stage(
        self, stage: int, label: str, grid: list[dict[str, Any]], folds: Iterator[SearchFold]
    ) -> list[SettingResult]:
        # A curve is what is kept of a score matrix: a few numbers an image, whatever the classes.
        curves: list[list[SeenUnseenCurve]] = [[] for _ in grid]
        laws = [
            Calibration.of(blank_clone(self.estimator).set_params(**params).calibration)
            for params in grid
        ]
        paid: list[list[float]] = [[] for _ in grid]
        done, total = 0, len(grid) * len(self.folds_)
        for number, fold in enumerate(folds):
            penalties = [law.gamma(fold.rows.n_seen, fold.rows.n_unseen) for law in laws]
            blank, tell = blank_clone(self.estimator), self._training_progress(number)
            scored = fold.score(blank, grid, tell)
            for index, scores in scored:
                curves[index].append(fold.rows.curve(scores))
                paid[index].append(penalties[index])
                done += 1
                self._report(label, done, total, curves[index][-1], penalties[index])
        return [self._result(stage, *item) for item in zip(grid, curves, paid, strict=True)]

    def _result(
        self,
        stage: int,
        params: dict[str, Any],
        curves: list[SeenUnseenCurve],
        penalties: Sequence[float],
    ) -> SettingResult:
        if len(curves) != len(self.folds_):
            raise DataError(
                f"{type(self.estimator).__name__}.fit_score_grid scored the setting {params} "
                f"{len(curves)} times in {len(self.folds_)} folds; once a fold is expected"
            )
        gamma, best = best_calibration(curves)
        harmonic = best
        if not self.calibrated_:
            pairs = zip(curves, penalties, strict=True)
            harmonic = np.array([_h_at(curve, penalty) for curve, penalty in pairs])
        options: dict[str, Any] = {
            "ausuc": [curve.area for curve in curves],
            "H": harmonic,
            "zsl": [curve.zsl for curve in curves],
        }
        percent = tuple(100.0 * float(value) for value in options[self.metric_])
        mean_h, zsl = (100.0 * float(np.mean(part)) for part in (harmonic, options["zsl"]))
        return SettingResult(stage, params, percent, float(np.mean(percent)), gamma, mean_h, zsl)

    def _iter_folds(self, data: SearchData) -> Iterator[SearchFold]:
        return data.folds(self.folds_, self.holdout, self.random_state)

    def _best_model(self) -> GZSLClassifier:
        model: GZSLClassifier = blank_clone(self.estimator).set_params(**self.best_params_)
        if hasattr(model, "write_to"):  # clones write nothing, so that only the final fit does
            model.write_to(self.estimator._checkpoint, self.estimator._tensorboard)
        if self.calibrated_:
            model.set_params(calibration=self.calibration_.to_dict())
        return model

    def _check_names(self, grids: list[list[dict[str, Any]]]) -> None:
        known = self.estimator.get_params()
        for name in {name for grid in grids for params in grid for name in params}:
            if name not in known:
                raise DataError(
                    f"{type(self.estimator).__name__} has no parameter {name!r}; choose from: "
                    f"{', '.join(sorted(known))}"
                )

    # ------------------------------------------------------------------ progress
    def _report(
        self, label: str, done: int, total: int, curve: SeenUnseenCurve, penalty: float
    ) -> None:
        if self.progress is None:
            return
        h = float(curve.harmonic.max()) if self.calibrated_ else _h_at(curve, penalty)
        value = {"ausuc": curve.area, "H": h, "zsl": curve.zsl}[self.metric_]
        self.progress(label, done, total, {self.metric_: 100 * value, "H": 100 * h})

    def _training_progress(self, fold: int) -> Progress | None:
        """Pass on what a method says while it trains; settings are counted here."""
        report = self.progress
        if report is None:
            return None

        def forward(stage: str, done: int, total: int, values: dict[str, float]) -> None:
            if stage != "select":
                report(f"fold {fold + 1} {stage}", done, total, values)

        return forward


def _election_fold(fold: SearchFold) -> ElectionFold:
    return ElectionFold(fold.grid_data(), fold.rows)


def wants_calibration(estimator: GZSLClassifier, calibrate: bool | str) -> bool:
    """Resolve ``calibrate``: True, False or "auto".

    "auto" leaves a calibration that was set by hand alone, 0 included where that is not what the
    method has anyway.
    """
    if calibrate != "auto":
        if not isinstance(calibrate, bool):
            raise DataError(f"calibrate must be True, False or 'auto'; got {calibrate!r}")
        return calibrate
    default = signature(type(estimator)).parameters["calibration"].default
    return bool(estimator.calibration == default)


def _h_at(curve: SeenUnseenCurve, gamma: float) -> float:
    seen, unseen = curve.at(gamma)
    return harmonic_mean(float(seen), float(unseen))
