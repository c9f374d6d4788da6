"""How sure a model is of its answers, and how right it is in that.

Answers with their probabilities, sets and novelty; calibration error, log loss, sets and risk at a
coverage on test rows; and rows of classes that were never added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score

from hgkt._arrays import batches, torch_device
from hgkt._validation import attribute_matrix, check_number
from hgkt.calibration import Calibration, Confidence, FoldSample, Temperatures
from hgkt.calibration.folds import SEEN
from hgkt.calibration.novelty import rejected, with_unknown
from hgkt.data import GZSLDataset
from hgkt.estimators.scoring import rank_classes, rank_with_confidence

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

N_BINS = 15
COVERAGES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
"""Coverages at which the size of prediction sets is looked at."""

_PLAIN = Temperatures(1.0, 1.0, 1.0)
N_DRAWS = 5
REJECT = 0.05
_POINTS = np.linspace(0.02, 1.0, 50)
_BLOCK_NUMBERS = 2**22  # probabilities held at once: 32 MiB


COLUMNS = {
    "ece": "calibration error",
    "ece_before": "before",
    "log_loss": "log loss",
    "log_loss_before": "before",
    "set_coverage": "in a 90 % set",
    "set_size": "set size",
}
"""What tables show of a `GroupConfidence`, and its titles."""


@dataclass(frozen=True)
class GroupConfidence:
    """Confidence on rows of one group, seen or unseen classes; shares in percent.

    Parameters
    ----------
    ece : float
        Expected calibration error over 15 bins of equal width: how far confidence is from
        accuracy on average.
    ece_before : float
        The same for a softmax of the scores as they are.
    log_loss, log_loss_before : float
        Mean −ln of the probability of the true class.
    set_coverage : float
        How often a 90 % prediction set holds the true class.
    set_size : float
        How many classes it holds on average.
    aurc : float
        Area under the risk–coverage curve: the mean share of errors among the surest rows, over
        all shares of rows one may answer.
    reliability : list of [confidence, accuracy, share of rows]
        The bins that hold rows, as fractions.
    risk : list of [coverage, risk]
        The share of errors among the surest rows, as fractions.
    sets : list of [asked, coverage, size]
        Prediction sets at several coverages, as fractions.
    """

    ece: float
    ece_before: float
    log_loss: float
    log_loss_before: float
    set_coverage: float
    set_size: float
    aurc: float
    reliability: list[list[float]] = field(default_factory=list)
    risk: list[list[float]] = field(default_factory=list)
    sets: list[list[float]] = field(default_factory=list)


def group_confidence(
    rows: FoldSample, law: Calibration, confidence: Confidence
) -> tuple[GroupConfidence, GroupConfidence]:
    """Measure the confidence on test rows of seen and of unseen classes, apart.

    Parameters
    ----------
    rows : FoldSample
        Scores without γ of test rows, columns of seen classes first.
    law : Calibration
        γ in force.
    confidence : Confidence
        What the model has.
    """
    facts = [
        _RowFacts.of(rows.part(part), law, confidence)
        for part in batches(len(rows.truth), max(1, _BLOCK_NUMBERS // rows.n_classes))
    ]
    joined = _RowFacts(*(np.concatenate(parts) for parts in zip(*facts, strict=True)))
    seen, unseen = (_measure_group(joined.among(part)) for part in (rows.of_seen, ~rows.of_seen))
    return seen, unseen


class _RowFacts(NamedTuple):
    """What is left of the probabilities of each row (n,), after temperatures and before."""

    top: NDArray[Any]  # the highest probability
    right: NDArray[Any]  # whether it is that of the true class
    own: NDArray[Any]  # the probability of the true class
    top_before: NDArray[Any]
    right_before: NDArray[Any]
    own_before: NDArray[Any]
    held: NDArray[Any]  # (n, coverages): whether a set holds the true class
    sizes: NDArray[Any]  # (n, coverages): how many classes it holds

    @classmethod
    def of(cls, rows: FoldSample, law: Calibration, confidence: Confidence) -> _RowFacts:
        scores, each = rows.calibrated(law), np.arange(len(rows.truth))
        after = confidence.temperatures.probabilities(scores, rows.groups)
        before = _PLAIN.probabilities(scores, rows.groups)
        learned = (rows.groups == SEEN).astype(np.float64)
        sets = [confidence.sets.members(after, learned, coverage) for coverage in COVERAGES]
        return cls(
            after.max(axis=1),
            after.argmax(axis=1) == rows.truth,
            after[each, rows.truth],
            before.max(axis=1),
            before.argmax(axis=1) == rows.truth,
            before[each, rows.truth],
            np.stack([inside[each, rows.truth] for inside in sets], axis=1),
            np.stack([inside.sum(axis=1) for inside in sets], axis=1),
        )

    def among(self, rows: NDArray[np.bool_]) -> _RowFacts:
        """Return the facts of some rows."""
        return _RowFacts(*(array[rows] for array in self))


def reliability(probabilities: ArrayLike, truth: ArrayLike, n_bins: int = N_BINS) -> list[Any]:
    """Return [confidence, accuracy, share] of the rows in each bin of confidence that has some.

    Parameters
    ----------
    probabilities : array-like of shape (n, n_classes)
    truth : array-like of int, shape (n,)
        The column of each row's class.
    n_bins : int, default=15
        Bins of equal width.

    Examples
    --------
    >>> reliability([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 1, 0], n_bins=2)
    [[0.7666666666666667, 0.6666666666666666, 1.0]]
    """
    table, labels = np.asarray(probabilities, dtype=np.float64), np.asarray(truth)
    return _bins(table.max(axis=1), table.argmax(axis=1) == labels, n_bins)


def _bins(top: NDArray[np.float64], right: NDArray[np.bool_], n_bins: int = N_BINS) -> list[Any]:
    bins = np.minimum((top * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    sums = (np.bincount(bins, values, n_bins) for values in (top, right))
    means = [total / np.maximum(counts, 1) for total in sums]
    stacked = np.stack([*means, counts / max(len(top), 1)], axis=1)
    found: list[Any] = stacked[counts > 0].tolist()
    return found


def calibration_error(bins: ArrayLike) -> float:
    """Return the expected calibration error, a fraction, of what `reliability` returned."""
    confidence, accuracy, share = np.asarray(bins, dtype=np.float64).T
    return float((np.abs(confidence - accuracy) * share).sum())


def risk_coverage(certainty: ArrayLike, right: ArrayLike) -> NDArray[np.float64]:
    """Return the share of errors (n,) among the k surest rows, k from 1 to n.

    Parameters
    ----------
    certainty : array-like of shape (n,)
        Higher is more certain.
    right : array-like of bool, shape (n,)
        Which answers are right.

    Examples
    --------
    >>> risk_coverage([0.9, 0.5, 0.7, 0.6], [True, False, True, False]).round(2)
    array([0.  , 0.  , 0.33, 0.5 ])
    """
    order = np.argsort(-np.asarray(certainty), kind="stable")
    wrong = ~np.asarray(right, dtype=bool)[order]
    result: NDArray[np.float64] = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    return result


def _measure_group(rows: _RowFacts) -> GroupConfidence:
    bins = _bins(rows.top, rows.right)
    risks = risk_coverage(rows.top, rows.right)
    ends = np.maximum((_POINTS * len(risks)).astype(int) - 1, 0)
    coverage, sizes = rows.held.mean(axis=0), rows.sizes.mean(axis=0)
    asked = COVERAGES.index(0.9)
    return GroupConfidence(
        ece=100 * calibration_error(bins),
        ece_before=100 * calibration_error(_bins(rows.top_before, rows.right_before)),
        log_loss=_log_loss(rows.own),
        log_loss_before=_log_loss(rows.own_before),
        set_coverage=100 * float(coverage[asked]),
        set_size=float(sizes[asked]),
        aurc=100 * float(risks.mean()),
        reliability=bins,
        risk=np.stack([_POINTS, risks[ends]], axis=1).tolist(),
        sets=np.stack([COVERAGES, coverage, sizes], axis=1).tolist(),
    )


def _log_loss(own: NDArray[np.float64]) -> float:
    return float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())


# ------------------------------------------------------------------ classes that were never added
@dataclass(frozen=True)
class UnknownMetrics:
    """What happens to rows of unseen classes that were not added; shares in percent.

    Means over several random choices of the classes that stay unknown. Known rows are those of
    seen classes and of the unseen classes that were added.

    Parameters
    ----------
    n_unknown : int
        How many unseen classes are never added.
    score : str
        Which novelty score validation chose.
    validation_auroc : float
        Its area under the ROC curve on validation classes.
    auroc : float
        On test rows: how often an unknown row is stranger than a known one.
    auroc_softmax : float
        The same for the largest probability of a softmax of the scores (Hendrycks and Gimpel,
        2017).
    auroc_mahalanobis : float
        The same for the Mahalanobis distance to the nearest class mean (Lee et al., 2018); means
        of added classes are predicted from their attributes by ridge regression.
    rejected_known : float
        Known rows that ``predict(X, reject=0.05)`` rejects; 5 would be right.
    rejected_unknown : float
        Unknown rows that it rejects.
    oscr, oscr_softmax : float
        Area under the open-set classification rate: share of known rows that are kept and named
        right over the share of unknown rows that are kept (Dhamija et al., 2018).
    """

    n_unknown: int
    score: str
    validation_auroc: float
    auroc: float
    auroc_softmax: float
    auroc_mahalanobis: float
    rejected_known: float
    rejected_unknown: float
    oscr: float
    oscr_softmax: float


def unknown_metrics(
    rows: FoldSample,
    distances: NDArray[np.float64],
    law: Calibration,
    confidence: Confidence,
    n_unknown: int,
    random_state: int = 0,
) -> UnknownMetrics:
    """Leave some unseen classes out, several times, and see what their rows are taken for.

    Parameters
    ----------
    rows : FoldSample
        Scores without γ of all test rows against all classes, seen classes first.
    distances : ndarray of shape (n, n_classes)
        Mahalanobis distances of the same rows; see `mahalanobis`.
    law : Calibration
        γ, for as many classes as are added.
    confidence : Confidence
        What the model has.
    n_unknown : int
        How many classes stay unknown.
    random_state : int, default=0
        Seed of which.
    """
    n_added = rows.n_classes - rows.n_seen
    check_number("unknown_classes", n_unknown, low=1, high=n_added, integer=True)
    rng = np.random.default_rng(random_state)
    draws = [
        _measure_draw(rows, distances, law, confidence, rng.permutation(n_added)[n_unknown:])
        for _ in range(N_DRAWS)
    ]
    means = {name: 100 * float(np.mean([draw[name] for draw in draws])) for name in draws[0]}
    novelty = confidence.novelty
    return UnknownMetrics(n_unknown, novelty.chosen, 100 * novelty.auroc, **means)


def mahalanobis(dataset: GZSLDataset) -> NDArray[np.float64]:
    """Return squared distances (n, n_classes) of test rows, seen ones first, to class means.

    One covariance is shared by all classes, shrunk by Ledoit and Wolf's rule. Columns are seen
    classes, then unseen ones, each as the data set has them.
    """
    X, y = dataset.rows("train")
    names, codes = np.unique(y, return_inverse=True)
    counts = np.bincount(codes)
    means = np.stack(
        [X[codes == code].mean(axis=0, dtype=np.float64) for code in range(len(names))]
    )
    covariance = LedoitWolf(assume_centered=True).fit(X - means[codes])
    seen = attribute_matrix(dataset.attributes_of(dataset.seen_classes), names.tolist())
    unseen = dataset.attributes_of(dataset.unseen_classes)
    new = attribute_matrix(unseen, list(unseen))
    ridge = RidgeCV(np.geomspace(1e-3, 1e3, 13)).fit(seen, means, counts)
    centres = np.concatenate([means, ridge.predict(new)])
    tests = np.concatenate([dataset.rows(part)[0] for part in ("test_seen", "test_unseen")])
    half = tests @ covariance.precision_
    own = (half * tests).sum(axis=1, keepdims=True)
    centre_half = centres @ covariance.precision_
    squared: NDArray[np.float64] = own - 2 * half @ centres.T
    squared += (centre_half * centres).sum(axis=1)
    return squared


def oscr(certainty: NDArray[Any], right: NDArray[np.bool_], unknown: NDArray[np.bool_]) -> float:
    """Return the area under the open-set classification rate, a fraction.

    Parameters
    ----------
    certainty : ndarray of shape (n,)
        Rows above a threshold are answered; all thresholds are gone through.
    right : ndarray of bool, shape (n,)
        Known rows that are named right.
    unknown : ndarray of bool, shape (n,)
        Rows of unknown classes.

    Examples
    --------
    >>> oscr(np.array([4.0, 3.0, 2.0, 1.0]), np.array([1, 0, 1, 0]) > 0, np.array([0, 0, 0, 1]) > 0)
    0.6666666666666666
    """
    order = np.argsort(-certainty, kind="stable")
    ccr = np.cumsum(right[order] & ~unknown[order]) / max(int((~unknown).sum()), 1)
    fpr = np.cumsum(unknown[order]) / max(int(unknown.sum()), 1)
    return float(np.sum(np.diff(np.concatenate([[0.0], fpr])) * ccr))


def _measure_draw(
    rows: FoldSample,
    distances: NDArray[np.float64],
    law: Calibration,
    confidence: Confidence,
    added: NDArray[np.intp],
) -> dict[str, float]:
    columns = np.concatenate([np.arange(rows.n_seen), rows.n_seen + np.sort(added)])
    part = rows.among(columns)
    scores = part.calibrated(law)
    probabilities = confidence.temperatures.probabilities(scores, part.groups)
    novelty = confidence.novelty(part.scores.astype(np.float64), probabilities)
    softmax = _PLAIN.probabilities(scores, part.groups).max(axis=1)
    unknown, right = part.truth < 0, scores.argmax(axis=1) == part.truth
    alarms = rejected(novelty, REJECT)
    return {
        "auroc": float(roc_auc_score(unknown, novelty)),
        "auroc_softmax": float(roc_auc_score(unknown, -softmax)),
        "auroc_mahalanobis": float(roc_auc_score(unknown, distances[:, columns].min(axis=1))),
        "rejected_known": float(alarms[~unknown].mean()),
        "rejected_unknown": float(alarms[unknown].mean()),
        "oscr": oscr(-novelty, right, unknown),
        "oscr_softmax": oscr(softmax, right, unknown),
    }


# ------------------------------------------------------------------ answers
@dataclass(frozen=True)
class Answers:
    """The best classes of n rows.

    Parameters
    ----------
    labels, scores : ndarray of shape (n, k)
        The best first; `hgkt.UNKNOWN` where a row is rejected.
    extra : dict of str to ndarray of shape (n,)
        ``probability`` of the best class, ``novelty``, ``set``: what the model can say and was
        asked for.
    """

    labels: NDArray[Any]
    scores: NDArray[np.float64]
    extra: dict[str, NDArray[Any]]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return ``label``, ``score``, ``label_2``, ``score_2``, … and then the extra columns."""
        found: dict[str, NDArray[Any]] = {}
        for rank in range(self.labels.shape[1]):
            suffix = f"_{rank + 1}" if rank else ""
            found[f"label{suffix}"] = self.labels[:, rank]
            found[f"score{suffix}"] = self.scores[:, rank]
        return found | self.extra


def use_device(model: GZSLClassifier, device: str) -> None:
    """Have a loaded model compute where it is asked to, if its method has a choice.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    device : {"auto", "cpu", "cuda"}
        "auto" leaves it where the model was made to compute.
    """
    where = device if device == "auto" else torch_device(device)
    if where != "auto" and "device" in model.get_params():
        model.set_params(device=where)


def answer_rows(
    model: GZSLClassifier,
    X: NDArray[Any],
    columns: NDArray[np.intp],
    k: int = 1,
    reject: float | None = None,
    coverage: float | None = None,
) -> Answers:
    """Return the `k` best of some classes for each row.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    X : ndarray of shape (n, n_features)
        Features.
    columns : ndarray of int
        The candidates; see `GZSLClassifier.candidates`.
    k : int
        How many; fewer where there are fewer candidates.
    reject, coverage : float, optional
        See `GZSLClassifier.answers`; the model must know how sure it is.
    """
    if model.confidence_ is None and reject is None and coverage is None:
        best, scores = rank_classes(model, X, columns, k)
        return Answers(model.classes_[best], scores, {})
    found = rank_with_confidence(model, X, columns, k, reject, coverage)
    labels = model.classes_[found.best].astype(object)
    labels[:, 0] = with_unknown(labels[:, 0], found.unknown)
    extra: dict[str, NDArray[Any]] = {"probability": found.probabilities[:, 0]}
    if reject is not None:
        extra["novelty"] = found.novelty
    if found.sets is not None:
        extra["set"] = np.array([", ".join(map(str, names)) for names in found.sets])
    return Answers(labels, found.scores, extra)
