"""Choose parameters and calibration on validation classes; test data cannot reach it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from hgkt._plain import plain
from hgkt._typing import Progress
from hgkt._validation import attribute_table, check_choice, check_number
from hgkt.calibration import Calibration, Favour, Fold, ScoredFold, folds_of_rows, folds_of_sums
from hgkt.calibration.curve import (
    SeenUnseenCurve,
    ValidationRows,
    best_calibration,
    mean_accuracy,
)
from hgkt.calibration.folds import ClassFolds, class_folds
from hgkt.calibration.gamma import FEW_CLASSES
from hgkt.closed_form.ensemble import area, choose_ensemble, single_setting
from hgkt.data import GZSLDataset
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.fold_fit import MIN_CLASSES, blank_clone, read_folds, score_folds
from hgkt.evaluation.metrics import harmonic_mean
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics

if TYPE_CHECKING:
    import pandas as pd

Stage = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
METRICS = ("ausuc", "H", "zsl", "favoured")
_NAN = (np.nan, np.nan, np.nan)
_SELECT_FROM = 12  # classes
_MAX_SCORES = 2**25  # numbers of a stage whose scores are kept: 256 MiB in float64


@dataclass(frozen=True)
class SettingResult:
    """What one setting reached on the validation classes, in percent.

    Parameters
    ----------
    stage : int
        Stage of the search, counted from 0.
    params : dict
        The setting: the grid's values and those fixed by earlier stages.
    values : tuple of float
        The metric on each fold.
    mean : float
        Mean of `values`: what is compared.
    calibration : float
        The γ with the highest mean H over the folds; NaN for members of an ensemble.
    H : float
        Mean H over the folds at the calibration that would be in force; NaN as well.
    zsl : float
        Mean ZSL accuracy over the folds; NaN as well.
    """

    stage: int
    params: dict[str, Any]
    values: tuple[float, ...]
    mean: float
    calibration: float
    H: float
    zsl: float


def settings_frame(results: Iterable[SettingResult]) -> pd.DataFrame:
    """Return settings as a table, one row each, with a column for every fold.

    Parameters
    ----------
    results : iterable of SettingResult
        As `ClassFoldSearch.cv_results_` has them.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for result in results:
        folds = {f"fold_{k}": value for k, value in enumerate(result.values)}
        row = {"stage": result.stage, **result.params, "mean": result.mean, **folds}
        rest = {name: getattr(result, name) for name in ("calibration", "H", "zsl")}
        rows.append({**row, **rest})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class SearchData:
    """Data of seen classes that can be divided by classes, and learned from as a whole.

    Parameters
    ----------
    class_attributes : mapping or DataFrame
        Attribute vector of every class, keyed by class.
    classes : ndarray of shape (L,)
        Labels of the classes with rows, sorted.
    counts : ndarray of shape (L,)
        Rows of each.
    folds : callable
        From class folds, the share held out and a seed to one fold at a time.
    fit : callable
        Fits a model on everything.
    """

    class_attributes: Any
    classes: NDArray[Any]
    counts: NDArray[Any]
    folds: Callable[[ClassFolds, float, int], Iterator[Fold]]
    fit: Callable[[GZSLClassifier], GZSLClassifier]

    @classmethod
    def of_rows(cls, X: ArrayLike, y: ArrayLike, class_attributes: Any) -> Self:
        """Return rows (n_samples, n_features) of classes `y` (n_samples,) as data to search on."""
        labels = np.asarray(y)

        def folds(classes: ClassFolds, holdout: float, seed: int) -> Iterator[Fold]:
            table = attribute_table(class_attributes)
            return folds_of_rows(np.asarray(X), labels, table, classes, holdout, seed)

        def fit(model: GZSLClassifier) -> GZSLClassifier:
            return model.fit(X, y, class_attributes=class_attributes)

        return cls(class_attributes, *np.unique(labels, return_counts=True), folds, fit)

    @classmethod
    def of_sums(cls, statistics: GatheredStatistics, class_attributes: Any) -> Self:
        """Return gathered statistics, which have class folds of their own, as data to search on."""

        def folds(classes: ClassFolds, holdout: float, seed: int) -> Iterator[Fold]:
            if not statistics.n_folds:
                raise DataError(
                    "selection needs statistics with class folds: gather with folds= or classes="
                )
            table = attribute_table(class_attributes)
            return folds_of_sums(statistics, table, len(classes), holdout, seed)

        def fit(model: GZSLClassifier) -> GZSLClassifier:
            return model.fit_statistics(statistics, class_attributes=class_attributes)

        return cls(class_attributes, statistics.classes, statistics.counts, folds, fit)


class ClassFoldSearch(ClassifierMixin, BaseEstimator):
    """Search parameters on classes held out of training, then fit on everything.

    In each fold some seen classes play the unseen ones and a part of the images of the others
    plays the test images of seen classes. Stages are searched one after another, each a full grid
    with the best of the earlier ones fixed; the first of equally good settings wins. The
    calibration is found on the same folds for the setting that won: the law of γ that is best for
    what is favoured (:func:`hgkt.calibration.fit_calibration`).

    A fitted search answers as `best_estimator_` does: `predict`, `add_classes`, `save`, `explain`
    and every other attribute are that model's.

    Parameters
    ----------
    estimator : GZSLClassifier
        The method; it is cloned, never changed.
    stages : list of dict, optional
        Grids, each a dict from parameter name to values (or a list of such dicts). By default
        ``estimator.default_stages()``, and for HGKTClassifier an ensemble of closed forms (docs
        page *closed form*); an empty list leaves only γ to choose.
    n_folds : int, optional
        Number of class folds; by default ``estimator.default_folds(n_classes)``. Of the folds
        that `fit` is given the first so many are taken; where it is given none, random ones are
        drawn.
    metric : {"auto", "ausuc", "H", "zsl", "favoured"}, default="auto"
        What is maximised. "H" is taken at the calibration that would be in force; "favoured" is
        what γ favours, at its best γ. "auto" is AUSUC, which no calibration changes, for every
        method; and "favoured" where γ is found for another favour than "balanced", on twenty
        classes or more.
    calibrate : bool or "auto", default="auto"
        Whether `best_estimator_` gets the γ found. "auto": unless the method has a calibration
        set other than 0.
    favour : {"balanced", "classes", "learned", "described"} or float, default="balanced"
        What γ favours, see :class:`hgkt.calibration.Favour`; "balanced" is H. An estimator whose
        ``calibration`` says what to favour, other than "auto", has its way.
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
    _winner: _Winner | None = None

    def __init__(
        self,
        estimator: Any,
        stages: Sequence[Stage] | None = None,
        n_folds: int | None = None,
        metric: str = "auto",
        calibrate: bool | str = "auto",
        favour: str | float = "balanced",
        holdout: float = 0.2,
        random_state: int = 0,
        progress: Progress | None = None,
    ) -> None:
        self.estimator = estimator
        self.stages = stages
        self.n_folds = n_folds
        self.metric = metric
        self.calibrate = calibrate
        self.favour = favour
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
        return self.fit_data(SearchData.of_rows(X, y, class_attributes), folds)

    def fit_statistics(self, statistics: GatheredStatistics, class_attributes: Any) -> Self:
        """Choose on the class folds of gathered statistics, then fit on all of them.

        Parameters
        ----------
        statistics : GatheredStatistics
            See :func:`hgkt.gather`; its sample is what validation scores.
        class_attributes : mapping or DataFrame
            Attribute vector of every class, keyed by class.
        """
        return self.fit_data(SearchData.of_sums(statistics, class_attributes), statistics.folds)

    def fit_data(self, data: SearchData, folds: ClassFolds | None = None) -> Self:
        """Choose on class folds of rows or of statistics, then fit on all of it."""
        check_choice("metric", self.metric, ("auto", *METRICS))
        if data.class_attributes is None:
            raise DataError("selection on validation classes needs class_attributes; got None")
        start, self._winner = time.perf_counter(), None
        favour = favour_of(self.estimator, self.favour)
        names, n_folds = data.classes, self.n_folds
        if n_folds is None:
            n_folds = self.estimator.default_folds(len(names))
        check_number("n_folds", n_folds, low=1, integer=True)
        self.folds_ = list(folds or class_folds(names, n_folds, None, self.random_state))[:n_folds]
        self.calibrated_ = wants_calibration(self.estimator, self.calibrate)
        balanced = favour.value == "balanced"
        self._share = None if balanced else favour.share(*map(len, self.folds_[0]))
        self.metric_ = self.metric
        if self.metric == "auto":
            follows = self.calibrated_ and not balanced and len(names) >= FEW_CLASSES
            self.metric_ = "favoured" if follows else "ausuc"
        if self.stages is None and hasattr(self.estimator, "member_pools"):
            self._choose_ensemble(self._iter_folds(data))
        else:
            self._search(lambda: self._iter_folds(data))
        found = read_folds(self._winner_scores(data), self.random_state, favour)
        self.calibration_, self.fold_samples_ = found.calibration, found.samples
        self.select_time_ = time.perf_counter() - start
        model = self._best_model().on_progress(self.progress)
        self.best_estimator_ = data.fit(model).on_progress(None)
        # Where γ is not that of the folds, nor is what they favour.
        favour = favour if self.calibrated_ else Favour("balanced")
        validation = found.under(model.calibration_, favour, self.random_state)
        self.best_estimator_.keep_validation(validation)
        self.refit_time_ = time.perf_counter() - start - self.select_time_
        return self

    @property
    def best_by_zsl_(self) -> SettingResult:
        """The setting with the highest mean ZSL accuracy of all tried, the first of equal ones."""
        check_is_fitted(self, "cv_results_")
        measured = [result for result in self.cv_results_ if not np.isnan(result.zsl)]
        return max(measured, key=lambda result: result.zsl)

    @property
    def chosen_(self) -> dict[str, Any]:
        """What was chosen: parameters and, where that was asked for, γ; plain values."""
        check_is_fitted(self, "best_params_")
        gamma = {"calibration": self.calibration_} if self.calibrated_ else {}
        chosen: dict[str, Any] = plain({**self.best_params_, **gamma})
        return chosen

    def results_frame(self) -> pd.DataFrame:
        """Return everything tried as a table, one row per setting."""
        return settings_frame(self.cv_results_)

    # ------------------------------------------------------------------ the search
    def _choose_ensemble(self, folds: Iterator[Fold]) -> None:
        """Choose an ensemble of closed forms; what is tried are members, then sums of them."""
        pools = self.estimator.member_pools(sum(map(len, self.folds_[0])))
        # AUSUC by its name: a GPU has it for many members at once.
        value = area if self.metric_ == "ausuc" else self._value
        choice = choose_ensemble(pools, folds, value, self.progress)
        self.cv_results_ = [
            SettingResult(
                0, single_setting(member, choice.metric), values, float(np.mean(values)), *_NAN
            )
            for member, values in choice.members
        ]
        trials = [
            _Trial(
                {"members": found.ensemble.to_list(), "metric": choice.metric},
                Calibration(),
                found.curves,
            )
            for found in choice.ensembles
        ]
        ensembles = [self._result(1, trial) for trial in trials]
        self.cv_results_ += ensembles
        best = max(range(len(ensembles)), key=lambda index: ensembles[index].mean)
        self._take(ensembles[best])
        scored = choice.scored_folds(choice.ensembles[best].ensemble)
        self._winner = _Winner(self._key(self.best_params_), self.best_score_, scored)

    def _winner_scores(self, data: SearchData) -> Iterable[ScoredFold]:
        """Return the winner's scores on each fold: those it was chosen by, where they are kept."""
        winner, self._winner = self._winner, None
        if winner is not None and winner.key == self._key(self.best_params_):
            return winner.scored
        model = blank_clone(self.estimator).set_params(**self.best_params_)
        return score_folds(model, self._iter_folds(data))

    def _search(self, folds: Callable[[], Iterator[Fold]]) -> None:
        default = self.stages is None
        stages = list(self.estimator.default_stages() if default else self.stages or [])
        grids = [list(ParameterGrid(stage)) for stage in stages] or [[{}]]
        self._check_names(grids)
        self.cv_results_, self.best_params_ = [], {}
        tried: dict[str, SettingResult] = {}  # a later stage may come back to a setting
        for number, grid in enumerate(grids):
            fixed = [{**self.best_params_, **params} for params in grid]
            label = "select" if len(grids) == 1 else f"select {number + 1}/{len(grids)}"
            fresh = [params for params in fixed if self._key(params) not in tried]
            for result in self._search_stage(number, label, fresh, folds()) if fresh else []:
                tried[self._key(result.params)] = result
            results = [
                replace(tried[self._key(params)], stage=number, params=params) for params in fixed
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
        self, stage: int, label: str, grid: list[dict[str, Any]], folds: Iterator[Fold]
    ) -> list[SettingResult]:
        trials = [
            _Trial(params, Calibration.of(blank.set_params(**params).calibration))
            for blank, params in ((blank_clone(self.estimator), params) for params in grid)
        ]
        done, total = 0, len(grid) * len(self.folds_)
        for number, fold in enumerate(folds):
            blank, report = blank_clone(self.estimator), self._training_progress(number)
            for index, scores in blank.score_grid(grid, fold, report):
                trials[index].add(fold.rows, scores, scores.size * total <= _MAX_SCORES)
                done += 1
                self._report(label, done, total, trials[index])
        results = [self._result(stage, trial) for trial in trials]
        best = max(range(len(grid)), key=lambda index: results[index].mean)
        score, scored = results[best].mean, trials[best].scored
        if scored and (self._winner is None or score > self._winner.score):
            self._winner = _Winner(self._key(trials[best].params), score, scored)
        return results

    def _result(self, stage: int, trial: _Trial) -> SettingResult:
        params, curves = trial.params, trial.curves
        if len(curves) != len(self.folds_):
            raise DataError(
                f"{type(self.estimator).__name__}.score_grid scored the setting {params} "
                f"{len(curves)} times in {len(self.folds_)} folds; once per fold is expected"
            )
        gamma, harmonic = best_calibration(curves)
        if not self.calibrated_:
            pairs = zip(curves, trial.gammas or [0.0] * len(curves), strict=True)
            harmonic = np.array([_h_at(curve, penalty) for curve, penalty in pairs])
        found = [self._value(*pair) for pair in zip(curves, harmonic.tolist(), strict=True)]
        percent = tuple(100.0 * value for value in found)
        mean_h = 100.0 * float(np.mean(harmonic))
        zsl = 100.0 * float(np.mean([curve.zsl for curve in curves]))
        return SettingResult(stage, params, percent, float(np.mean(percent)), gamma, mean_h, zsl)

    def _value(self, curve: SeenUnseenCurve, harmonic: float | None = None) -> float:
        """Return what is maximised, of one curve; H is its own best one where none is given."""
        if self.metric_ == "ausuc":
            return curve.area
        if self.metric_ == "zsl":
            return curve.zsl
        if self.metric_ == "favoured":
            return float(mean_accuracy(curve.seen, curve.unseen, self._share).max())
        if harmonic is None:
            harmonic = curve.harmonic.max() if self.calibrated_ else _h_at(curve, 0.0)
        return float(harmonic)

    def _iter_folds(self, data: SearchData) -> Iterator[Fold]:
        return data.folds(self.folds_, self.holdout, self.random_state)

    def _best_model(self) -> GZSLClassifier:
        model: GZSLClassifier = blank_clone(self.estimator).set_params(**self.best_params_)
        if hasattr(model, "write_to"):  # clones write nothing, so that only the final fit does
            model.write_to(**self.estimator.output_files)
        if self.calibrated_:
            model.set_params(calibration=self.calibration_.to_dict())
        return model

    def _check_names(self, grids: list[list[dict[str, Any]]]) -> None:
        parameters = self.estimator.get_params()
        for name in {name for grid in grids for params in grid for name in params}:
            if name not in parameters:
                raise DataError(
                    f"{type(self.estimator).__name__} has no parameter {name!r}; choose from: "
                    f"{', '.join(sorted(parameters))}"
                )

    # ------------------------------------------------------------------ progress
    def _report(self, label: str, done: int, total: int, trial: _Trial) -> None:
        if self.progress is None:
            return
        curve = trial.curves[-1]
        h = float(curve.harmonic.max()) if self.calibrated_ else _h_at(curve, trial.gammas[-1])
        value = self._value(curve, h)
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


@dataclass
class _Trial:
    """A setting, its own calibration, and what it reached on each fold.

    A curve is what stays of a score matrix: a few numbers per row, whatever the classes. Where
    they are few, scores stay too.
    """

    params: dict[str, Any]
    law: Calibration
    curves: list[SeenUnseenCurve] = field(default_factory=list)
    gammas: list[float] = field(default_factory=list)
    scored: list[ScoredFold] = field(default_factory=list)

    def add(self, rows: ValidationRows, scores: NDArray[Any], keep: bool) -> None:
        """Take in the scores (n, n_classes) of one fold."""
        self.curves.append(rows.curve(scores))
        self.gammas.append(self.law.gamma(rows.n_seen, rows.n_unseen))
        if keep:
            self.scored.append(ScoredFold(rows, scores))


@dataclass(frozen=True)
class _Winner:
    """The best setting whose scores on the folds are at hand."""

    key: str
    score: float
    scored: Iterable[ScoredFold]


def wants_calibration(estimator: GZSLClassifier, calibrate: bool | str) -> bool:
    """Resolve ``calibrate``: True, False or "auto".

    "auto" leaves a γ that was set by hand alone, 0 included where that is not what the method has
    anyway.
    """
    if calibrate != "auto":
        if not isinstance(calibrate, bool):
            raise DataError(f"calibrate must be True, False or 'auto'; got {calibrate!r}")
        return calibrate
    if Favour.of(estimator.calibration) is not None:
        return True
    default = signature(type(estimator)).parameters["calibration"].default
    return bool(estimator.calibration == default)


def favour_of(estimator: GZSLClassifier, otherwise: str | float) -> Favour:
    """Return what γ is to favour: what the estimator's ``calibration`` says, unless "auto"."""
    own = Favour.of(estimator.calibration)
    return Favour(otherwise) if own is None or estimator.calibration == "auto" else own


def _h_at(curve: SeenUnseenCurve, gamma: float) -> float:
    seen, unseen = curve.at(gamma)
    return harmonic_mean(float(seen), float(unseen))


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
    favour: str | float = "balanced",
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
    favour : {"balanced", "classes", "learned", "described"} or float, default="balanced"
        What γ favours, see `ClassFoldSearch`. "balanced" weighs seen and added classes alike, each
        as a whole, as H does: the fewer are added, the more a seen class pays. "classes" weighs
        every class alike, so that three added ones do not take the rows of three hundred seen
        ones.
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
    data = SearchData.of_rows(X, y, dataset.attributes_of(dataset.seen_classes))
    return _fit_chosen(
        estimator,
        data,
        dataset.class_folds(),
        "published" if dataset.folds else "random",
        select=select,
        calibrate=calibrate,
        favour=favour,
        n_folds=n_folds,
        random_state=random_state,
        progress=progress,
    )


def fit_gathered(
    estimator: GZSLClassifier,
    statistics: GatheredStatistics,
    class_attributes: Any,
    *,
    select: bool | str = False,
    calibrate: bool | str = "auto",
    favour: str | float = "balanced",
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
    select, calibrate, favour, n_folds, random_state, progress
        As for `fit_dataset`.

    Returns
    -------
    Fitted
    """
    return _fit_chosen(
        estimator,
        SearchData.of_sums(statistics, class_attributes),
        statistics.folds,
        "published" if published else "random",
        select=select,
        calibrate=calibrate,
        favour=favour,
        n_folds=n_folds,
        random_state=random_state,
        progress=progress,
    )


def _fit_chosen(
    estimator: GZSLClassifier,
    data: SearchData,
    folds: ClassFolds,
    origin: str,
    *,
    select: bool | str,
    calibrate: bool | str,
    favour: str | float,
    n_folds: int | None,
    random_state: int,
    progress: Progress | None,
) -> Fitted:
    """Fit as `fit_dataset` says; `origin` is where the class folds come from, for the record."""
    wanted = favour_of(estimator, favour)
    if select == "auto":
        select = _have_enough_rows(data.counts, _SELECT_FROM)
    if calibrate == "auto":
        enough = bool(select) or _have_enough_rows(data.counts, MIN_CLASSES)
        calibrate = wants_calibration(estimator, "auto") and enough
    if not calibrate and Favour.of(estimator.calibration) is not None:
        estimator.set_params(calibration=0.0)  # not left to the method's own fit either
    if not select and not calibrate:
        data.fit(estimator.on_progress(progress))
        return Fitted(estimator.on_progress(None))
    # What plain stages try was measured with the balanced γ alone.
    plain = estimator.plain_stages(data.counts) if wanted.value == "balanced" else []
    search = ClassFoldSearch(
        estimator,
        stages=None if select else plain,
        n_folds=n_folds,
        calibrate=bool(calibrate),
        favour=favour,
        random_state=random_state,
        progress=progress,
    ).fit_data(data, folds or None)
    validation = {
        "metric": search.metric_,
        "score": search.best_score_,
        "folds": origin,
        "n_folds": len(search.folds_),
        "n_settings": len(search.cv_results_),
    }
    return Fitted(search.best_estimator_, search.chosen_, validation, bool(select))


def _have_enough_rows(counts: NDArray[Any], n_classes: int) -> bool:
    """Say whether so many classes, and most of all there are, have two rows or more.

    Validation holds out rows of the classes that a fold trains on, and whole classes besides.
    """
    n_good = int((counts > 1).sum())
    return n_good >= n_classes and 2 * n_good > len(counts)
