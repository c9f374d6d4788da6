"""The scores of one row: it is bound by what it reads, and by Python, not by arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators._best import best_columns

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier


_FEW = 512  # candidates of one row that are sorted sooner than selected from


def row_scores(
    model: GZSLClassifier, row: NDArray[Any], seen: bool = True, added: bool = True
) -> NDArray[Any] | None:
    """Return the scores (1, n_classes) of one row without γ, columns in the order of the tables.

    None where the metric is not folded into the tables. Scores of seen classes are a product of
    their own, so that they are bit-identical whatever classes are added.

    Parameters
    ----------
    model : GZSLClassifier
        A snapshot of a fitted model.
    row : ndarray of shape (1, n_features)
        Checked features.
    seen, added : bool
        Whose scores are wanted; those of others are left as they are, arbitrary.
    """
    n_seen, n_classes = len(model.seen_classes_), len(model.classes_)
    folded = model._folded(n_classes)
    if folded is None:
        return None
    unit = folded.unit_row(row)
    scores = np.empty((1, n_classes), dtype=unit.dtype)
    if seen:
        scores[:, :n_seen] = folded.order(unit, model._seen_table["embedding"])
    if added and n_classes > n_seen:
        scores[:, n_seen:] = folded.order(unit, model._added_table["embedding"].array)
    return scores


def best_of_row(
    scores: NDArray[Any], rows: NDArray[np.intp], penalties: NDArray[np.float64], k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the positions in `rows` (1, k) of the best of some classes, and their scores (1, k).

    Parameters
    ----------
    scores : ndarray of shape (1, n_classes)
        Without γ, columns in the order of the tables.
    rows : ndarray of int
        The candidates, as rows of the tables.
    penalties : ndarray of shape (n_classes,)
        What γ takes off.
    k : int
        How many; at most as many as there are candidates.
    """
    own = scores[0, rows] - penalties[rows]
    if len(own) <= _FEW:
        best = np.argsort(-own, kind="stable")[None, :k]
    else:
        best = best_columns(own[None], k)
    return best, own[best]
