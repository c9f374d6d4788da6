"""Which rows to label next: those in doubt, far from one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgkt._arrays import unit_rows
from hgkt._validation import check_number
from hgkt.estimators import GZSLClassifier


@dataclass(frozen=True)
class Suggestion:
    """A row that is worth a label.

    Parameters
    ----------
    row : int
        Its position.
    label : str or int
        The class it seems to be of.
    probability : float
        Of that class.
    worth : float
        From 0 to 1, by what it was chosen: 1 less the margin of the two likeliest classes, times
        the distance from the rows that were chosen before.
    """

    row: int
    label: Any
    probability: float
    worth: float


def suggest(model: GZSLClassifier, X: ArrayLike, n: int = 20) -> list[Suggestion]:
    """Choose rows whose labels would help a model most, the best first.

    A label helps where two classes are nearly as likely, and where no row close by gets one
    already: rows are chosen one after another by the margin between their two likeliest classes,
    times their distance from those chosen before, where the model compares them.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    X : array-like of shape (n_samples, n_features)
        Rows without labels.
    n : int, default=20
        How many to choose; all of them where there are fewer.

    Examples
    --------
    >>> from hgkt import HGKTClassifier, load_dataset
    >>> data = load_dataset("digits")  # "two" and "six" were not learned
    >>> X, y = data.rows("train")
    >>> model = HGKTClassifier().fit(X, y, data.attributes_of(data.seen_classes))
    >>> model = model.add_classes(data.attributes_of(data.unseen_classes))
    >>> X_new, y_new = data.rows("test_unseen")
    >>> len({found.row for found in suggest(model, X_new, 5)})
    5
    """
    check_number("n", n, low=1, integer=True)
    answers = model.answers(X)
    chances = answers.probabilities
    order = np.argsort(-chances, axis=1, kind="stable")[:, :2]
    first, second = np.take_along_axis(chances, order, axis=1).T
    doubts = 1.0 - (first - second)
    places = unit_rows(np.asarray(model.in_metric(X), dtype=np.float64))
    distances = np.ones(len(places))  # 1 − cosine, from the nearest row that was chosen
    left = np.ones(len(places), dtype=bool)
    chosen = []
    for _ in range(min(n, len(places))):
        worth = np.where(left, doubts * distances, -1.0)
        row = int(worth.argmax())
        label = answers.classes[order[row, 0]].item()
        chosen.append(Suggestion(row, label, float(first[row]), float(worth[row])))
        distances = np.minimum(distances, np.clip(1.0 - places @ places[row], 0.0, 1.0))
        left[row] = False
    return chosen
