"""Rows of classes that were never added: how well a model sees that it does not know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score

from hgkt._validation import attribute_matrix, check_number
from hgkt.calibration import Calibration
from hgkt.confidence import Confidence, FoldSample, Temperatures
from hgkt.confidence.novelty import rejected
from hgkt.data import GZSLDataset

N_DRAWS = 5
REJECT = 0.05
_PLAIN = Temperatures(1.0, 1.0, 1.0)


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
        _measured(rows, distances, law, confidence, rng.permutation(n_added)[n_unknown:])
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
    known = attribute_matrix(dataset.attributes_of(dataset.seen_classes), names.tolist())
    unseen = dataset.attributes_of(dataset.unseen_classes)
    new = attribute_matrix(unseen, list(unseen))
    ridge = RidgeCV(np.geomspace(1e-3, 1e3, 13)).fit(known, means, counts)
    centres = np.concatenate([means, ridge.predict(new)])
    tests = np.concatenate([dataset.rows(part)[0] for part in ("test_seen", "test_unseen")])
    half = tests @ covariance.precision_
    own = (half * tests).sum(axis=1, keepdims=True)
    centre_half = centres @ covariance.precision_
    squared: NDArray[np.float64] = own - 2 * half @ centres.T
    squared += (centre_half * centres).sum(axis=1)
    return squared


def oscr(sureness: NDArray[Any], right: NDArray[np.bool_], unknown: NDArray[np.bool_]) -> float:
    """Return the area under the open-set classification rate, a fraction.

    Parameters
    ----------
    sureness : ndarray of shape (n,)
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
    order = np.argsort(-sureness, kind="stable")
    ccr = np.cumsum(right[order] & ~unknown[order]) / max(int((~unknown).sum()), 1)
    fpr = np.cumsum(unknown[order]) / max(int(unknown.sum()), 1)
    return float(np.sum(np.diff(np.concatenate([[0.0], fpr])) * ccr))


def _measured(
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
