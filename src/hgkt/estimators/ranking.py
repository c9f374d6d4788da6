"""The best classes of each row, the best first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt.estimators._rows import row_chunks
from hgkt.estimators.base import GZSLClassifier


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
    features = np.asarray(X)
    k = min(k, len(columns))
    best = np.empty((len(features), k), dtype=np.intp)
    scores = np.empty((len(features), k))
    for rows in row_chunks(len(features), max(features.shape[1], len(model.classes_))):
        part: NDArray[Any] = model.score_classes(features[rows])[:, columns]
        order = np.argsort(-part, axis=1, kind="stable")[:, :k]
        best[rows] = columns[order]
        scores[rows] = np.take_along_axis(part, order, axis=1)
    return best, scores
