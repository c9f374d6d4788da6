"""The best classes of each row, the best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._arrays import is_tensor
from hgkt.confidence.novelty import rejected
from hgkt.estimators._best import best_columns
from hgkt.estimators._one_row import row_scores
from hgkt.estimators._rows import row_chunks
from hgkt.estimators._scoring import top_classes
from hgkt.estimators._snapshots import snapshot
from hgkt.estimators.base import GZSLClassifier
from hgkt.exceptions import DataError


@dataclass(frozen=True)
class SureRanking:
    """The best classes of some rows, and how sure that is.

    Parameters
    ----------
    best : ndarray of shape (n, k)
        Columns of ``classes_``, the best first.
    scores, probabilities : ndarray of shape (n, k)
        Of those classes.
    novelty : ndarray of shape (n,)
        See `GZSLClassifier.novelty`.
    unknown : ndarray of shape (n,)
        Whether the row is rejected.
    sets : list of list, or None
        Labels of each prediction set, the likeliest first.
    """

    best: NDArray[np.intp]
    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    novelty: NDArray[np.float64]
    unknown: NDArray[np.bool_]
    sets: list[list[Any]] | None


def rank_surely(
    model: GZSLClassifier,
    X: ArrayLike,
    columns: NDArray[np.intp],
    k: int,
    reject: float | None = None,
    coverage: float | None = None,
) -> SureRanking:
    """Return the `k` best of some classes for each row, and how sure each answer is.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model with ``confidence_``.
    X : array-like of shape (n, n_features)
        Features.
    columns : ndarray of int
        The candidates, as columns of ``classes_``.
    k : int
        How many; fewer where there are fewer candidates.
    reject, coverage : float, optional
        See `GZSLClassifier.answers`.
    """
    if model.confidence_ is None:
        raise DataError(
            "this model cannot say how sure it is: it has no thresholds from validation classes"
        )
    features: Any = X if is_tensor(X) else np.asarray(X)
    among = model.classes_[columns].tolist()
    k = min(k, len(columns))
    parts: list[SureRanking] = []
    for rows in row_chunks(len(features), max(features.shape[1], len(model.classes_))):
        found = model.answers(features[rows], among, reject, coverage)
        order = best_columns(found.scores, k)
        strange = np.asarray(found.novelty)
        parts.append(
            SureRanking(
                columns[order],
                np.take_along_axis(found.scores, order, axis=1),
                np.take_along_axis(found.probabilities, order, axis=1),
                strange,
                np.zeros(len(strange), bool) if reject is None else rejected(strange, reject),
                None if coverage is None else [names.tolist() for names in found.sets()],
            )
        )
    return SureRanking(
        np.concatenate([part.best for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.probabilities for part in parts]),
        np.concatenate([part.novelty for part in parts]),
        np.concatenate([part.unknown for part in parts]),
        None if coverage is None else [names for part in parts for names in part.sets or ()],
    )


def rank_classes(
    model: GZSLClassifier, X: ArrayLike, columns: NDArray[np.intp], k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the `k` best of some classes for each row; the first one of equals.

    Scores of all classes are never held for all rows.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    X : array-like of shape (n, n_features)
        Features.
    columns : ndarray of int
        The candidates, as columns of ``classes_``; see `GZSLClassifier.candidates`.
    k : int
        How many; fewer where there are fewer candidates.

    Returns
    -------
    best : ndarray of shape (n, k)
        Columns of ``classes_``, the best first.
    scores : ndarray of shape (n, k)
        Their scores.
    """
    check_is_fitted(model)
    now = snapshot(model)
    found, scores = top_classes(now, now._check_rows(X), columns, min(k, len(columns)))
    return columns[found], scores


def prepare_rows(model: GZSLClassifier) -> None:
    """Compute now what the first single row would wait for.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    """
    check_is_fitted(model)
    now = snapshot(model)
    row_scores(now, np.zeros((1, now.n_features_in_), dtype=np.float32))
