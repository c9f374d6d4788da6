"""The protocol: choose on validation classes, fit on train rows, look at the test rows once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hgkt._plain import plain
from hgkt._typing import Progress
from hgkt.calibration import FoldSample
from hgkt.calibration.curve import SeenUnseenCurve
from hgkt.data import GZSLDataset
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.fold_fit import blank_clone
from hgkt.estimators.methods import METHODS
from hgkt.estimators.scoring import table_scores
from hgkt.estimators.taxonomy import Taxonomy
from hgkt.evaluation.confidence import (
    GroupConfidence,
    UnknownMetrics,
    group_confidence,
    mahalanobis,
    unknown_metrics,
)
from hgkt.evaluation.levels import TaxonomyReport, taxonomy_report
from hgkt.evaluation.metrics import ClassAccuracies, TestScores
from hgkt.evaluation.records import RunRecord, ZSLResult, machine, versions
from hgkt.evaluation.selection import ClassFoldSearch, SearchData, Stage, wants_calibration
from hgkt.exceptions import DataError

OnTest = Callable[[GZSLClassifier, SeenUnseenCurve], None]


def evaluate(
    estimator: GZSLClassifier,
    dataset: GZSLDataset,
    *,
    select: bool = False,
    calibrate: bool | str = "auto",
    metric: str = "auto",
    stages: Sequence[Stage] | None = None,
    n_folds: int | None = None,
    random_state: int = 0,
    progress: Progress | None = None,
    on_test: OnTest | None = None,
    by_zsl: bool = False,
    unknown_classes: int = 0,
) -> RunRecord:
    """Evaluate a method by the generalized zero-shot protocol.

    Whatever is chosen is chosen on class folds of the train rows: the data set's published folds,
    else three random ones. Test rows are first read when the model is final.

    Parameters
    ----------
    estimator : GZSLClassifier
        The method; it is cloned, never changed. A ClassFoldSearch is taken as it is.
    dataset : GZSLDataset
        The data.
    select : bool, default=False
        Whether to choose parameters on validation classes.
    calibrate : bool or "auto", default="auto"
        Whether to choose the calibration γ there and apply it. "auto": for every method, unless it
        has a γ set other than 0. False leaves the method as it is.
    metric : {"auto", "ausuc", "H", "zsl", "favoured"}, default="auto"
        What selection maximises; see `ClassFoldSearch`.
    stages : list of dict, optional
        Grids to search; giving them implies `select`. By default the method's own.
    n_folds : int, optional
        How many class folds to use; by default the method's own number.
    random_state : int, default=0
        Seed of the folds; a method that is random has a seed of its own.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.
    on_test : callable, optional
        Called once as ``on_test(model, curve)`` with the model that was tested and its exact
        seen–unseen curve on the test rows.
    by_zsl : bool, default=False
        Whether to fit, besides, the setting with the highest ZSL accuracy on the validation folds
        among all that the search tried, and to record what it reaches.
    unknown_classes : int, default=0
        So many unseen classes are left out besides, and the record says what happens to their
        rows.

    Returns
    -------
    RunRecord
        ``metrics`` holds at the calibration in force; ``uncalibrated`` and ``calibrated`` show
        the same model without and with γ.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.estimators import HGKTClassifier
    >>> record = evaluate(HGKTClassifier(), load_dataset("digits"), calibrate=False)
    >>> 0 < record.metrics.H <= record.metrics.H_star <= 100
    True
    """
    start = time.perf_counter()
    dataset.check_tests()
    X, y = dataset.rows("train")
    data = SearchData.of_rows(X, y, dataset.attributes_of(dataset.seen_classes))
    search = _make_search(
        estimator,
        data.counts,
        select or stages is not None,
        calibrate,
        stages=stages,
        metric=metric,
        n_folds=n_folds,
        random_state=random_state,
        progress=progress,
    )
    model: GZSLClassifier
    if search is None:
        model = data.fit(blank_clone(estimator).on_progress(progress))
    else:
        search.fit_data(data, dataset.class_folds() or None)
        model = search.best_estimator_
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    model.set_parents(dataset.about.get("parents") or {})
    fitted = time.perf_counter()
    gamma = found = model.gamma_
    if search is not None:
        found = search.calibration_.gamma(len(model.seen_classes_), len(model.unseen_classes_))
    tested = _test(model, dataset)
    if on_test is not None:
        on_test(model, tested.scores.curve)
    metrics = {value: tested.scores.metrics(value) for value in {0.0, gamma, found}}
    per_class = tested.scores.class_accuracies(gamma)
    confidence = _group_confidence(model, tested.rows)
    unknown = _unknown(model, dataset, tested.rows, unknown_classes, random_state)
    taxonomy = _taxonomy(model, tested.rows)
    end = time.perf_counter()
    also = None
    if by_zsl and search is not None:
        also = _by_zsl(search, dataset, data, per_class)
    select_time = search.select_time_ if search is not None else 0.0
    return RunRecord(
        method=METHODS.name_of(type(model)) or type(model).__name__,
        parameters=plain(model.get_params()),
        selected={} if search is None else search.chosen_,
        calibration=gamma,
        data={
            **plain(dataset.summary()),
            "fingerprint": dataset.fingerprint(),
            "about": plain(dataset.about),
        },
        seed=random_state,
        metrics=metrics[gamma],
        uncalibrated=metrics[0.0],
        calibrated=metrics[found] if search is not None or gamma != 0.0 else None,
        validation=_validation(search),
        timings={
            "select": select_time,
            "fit": fitted - start - select_time,
            "test": end - fitted,
            "total": end - start,
        },
        versions=versions(),
        machine=machine(),
        per_class=per_class,
        by_zsl=also,
        confidence_seen=confidence[0],
        confidence_unseen=confidence[1],
        unknown=unknown,
        taxonomy=taxonomy,
    )


def _make_search(
    estimator: GZSLClassifier,
    counts: NDArray[np.intp],
    select: bool,
    calibrate: bool | str,
    *,
    stages: Sequence[Stage] | None,
    progress: Progress | None,
    **options: Any,
) -> ClassFoldSearch | None:
    """Return the search that is asked for, or None where nothing is to be chosen."""
    if isinstance(estimator, ClassFoldSearch):
        search: ClassFoldSearch = clone(estimator)
        return search.set_params(progress=progress) if progress is not None else search
    calibrate = wants_calibration(estimator, calibrate)
    if not select and not calibrate:
        return None
    stages = stages if select else estimator.plain_stages(counts)
    return ClassFoldSearch(
        estimator, stages=stages, calibrate=calibrate, progress=progress, **options
    )


class _Tested(NamedTuple):
    """Test rows of a model, reduced, and as a sample for confidence."""

    scores: TestScores
    rows: FoldSample


def _test(model: GZSLClassifier, dataset: GZSLDataset) -> _Tested:
    """Score the test rows once, without γ."""
    columns = model.candidates()  # seen classes first
    (X_seen, y_seen), (X_unseen, y_unseen) = map(dataset.rows, ("test_seen", "test_unseen"))
    checked = [model._check_features(X) for X in (X_seen, X_unseen)]
    scores = table_scores(model, checked)
    classes, n_seen, n = model.classes_[columns], len(model.seen_classes_), len(y_seen)
    found = TestScores.of(scores[:n], y_seen, scores[n:], y_unseen, classes, n_seen)
    truth = np.concatenate([found.seen.truth, found.unseen.truth])
    return _Tested(found, FoldSample(scores, truth, n_seen, tuple(classes[n_seen:].tolist())))


def _group_confidence(
    model: GZSLClassifier, rows: FoldSample
) -> tuple[GroupConfidence, GroupConfidence] | tuple[None, None]:
    if model.confidence_ is None:
        return None, None
    return group_confidence(rows, model.calibration_, model.confidence_)


def _unknown(
    model: GZSLClassifier, dataset: GZSLDataset, rows: FoldSample, n_unknown: int, seed: int
) -> UnknownMetrics | None:
    if n_unknown == 0:
        return None
    if model.confidence_ is None:
        raise DataError(
            "unknown classes cannot be told without thresholds from validation classes; "
            "let the run select or calibrate"
        )
    distances = mahalanobis(dataset)
    return unknown_metrics(rows, distances, model.calibration_, model.confidence_, n_unknown, seed)


def _taxonomy(model: GZSLClassifier, rows: FoldSample) -> TaxonomyReport | None:
    """Measure answers by group; None without groups, or without probabilities."""
    if not model.parents_ or model.confidence_ is None:
        return None
    classes, scores = model.classes_[model.candidates()], rows.calibrated(model.calibration_)
    probabilities = model.confidence_.temperatures.probabilities(scores, rows.groups)
    tree = Taxonomy.of(classes.tolist(), model.parents_)
    return taxonomy_report(classes[rows.truth], probabilities, tree)


def _by_zsl(
    search: ClassFoldSearch, dataset: GZSLDataset, data: SearchData, per_class: ClassAccuracies
) -> ZSLResult:
    """Test the setting that is best by ZSL; where it is the one tested already, that is it."""
    best = search.best_by_zsl_
    accuracies = per_class.zsl
    if best.params != search.best_params_:
        model = data.fit(clone(search.estimator).set_params(**best.params))
        model.add_classes(dataset.attributes_of(dataset.unseen_classes))
        accuracies = _test(model, dataset).scores.class_accuracies(model.gamma_).zsl
    return ZSLResult(float(np.mean(accuracies)), plain(best.params), best.zsl, accuracies)


def _validation(search: ClassFoldSearch | None) -> dict[str, Any]:
    if search is None:
        return {}
    return {
        "metric": search.metric_,
        "score": search.best_score_,
        "calibration": plain(search.calibration_),
        "n_folds": len(search.folds_),
        "n_settings": len(search.cv_results_),
    }
