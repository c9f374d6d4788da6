"""From feature rows to the best classes and the reasons for them, on one edition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._predictions import Evidence, Explanation, Pull, Question
from hgkt.estimators import GZSLClassifier, scoring
from hgkt.estimators.explain import AlteredClass, seen_pulls
from hgkt.estimators.scoring import ConfidentRanking
from hgkt.exceptions import DataError
from hgkt.serving.class_facts import ClassMap, attribute_names, complements, explains
from hgkt.serving.edition import Edition

N_PULLS = 8
N_ATTRIBUTES = 6


@dataclass(frozen=True)
class Ranking:
    """The best classes of some rows.

    Parameters
    ----------
    columns : ndarray of shape (n, k)
        Columns of ``classes_``, the best first.
    scores : ndarray of shape (n, k)
        Their scores.
    sureness : ConfidentRanking, optional
        How sure that is, where it was asked for.
    """

    columns: NDArray[np.intp]
    scores: NDArray[np.float64]
    sureness: ConfidentRanking | None = None

    def first(self, k: int) -> Ranking:
        """Return the `k` best of each row."""
        return replace(self, columns=self.columns[:, :k], scores=self.scores[:, :k])


def candidates(edition: Edition, among: str | Sequence[str]) -> NDArray[np.intp]:
    """Return the columns that `among` stands for: a group, or class names, each counted once."""
    if isinstance(among, str):
        if among == "unseen" and edition.n_seen == len(edition.names):
            raise DataError("among is 'unseen', but no class has been added yet")
        return edition.model.candidates(among)
    for name in among:
        if name not in edition.columns:
            raise DataError(f"among names class {name!r}, which the model has not")
    return np.array([edition.columns[name] for name in dict.fromkeys(among)], dtype=np.intp)


def rank(
    model: GZSLClassifier,
    X: NDArray[Any],
    columns: NDArray[np.intp],
    k: int,
    question: Question | None = None,
) -> Ranking:
    """Return the `k` best of the candidates for each row.

    Parameters
    ----------
    model : GZSLClassifier
        The model.
    X : ndarray of shape (n, n_features)
        Feature rows.
    columns : ndarray of int
        The candidates, as columns of ``classes_``.
    k : int
        How many; fewer where there are fewer candidates.
    question : Question, optional
        Whether and how it is asked how sure answers are.
    """
    if question is None or not question.asks_confidence:
        best, scores = scoring.rank_classes(model, X, columns, k)
        return Ranking(best, _finite(scores))
    found = scoring.rank_with_confidence(model, X, columns, k, question.reject, question.coverage)
    return Ranking(found.best, _finite(found.scores), found)


def explain(
    model: GZSLClassifier, X: NDArray[Any], ranking: Ranking, plane: ClassMap
) -> list[Explanation]:
    """Say for each row why the first class of its ranking is first.

    Parameters
    ----------
    model : GZSLClassifier
        The model.
    X : ndarray of shape (n, n_features)
        Feature rows.
    ranking : Ranking
        Their best classes: two at least, where there are two candidates.
    plane : ClassMap
        The map of the model's classes.
    """
    best = ranking.columns[:, 0]
    margins: list[Any] = [None] * len(best)
    if ranking.scores.shape[1] > 1:
        margins = (ranking.scores[:, 0] - ranking.scores[:, 1]).tolist()
    labels, places = model.classes_[best].tolist(), plane.instance_places(model, X)
    reasons = []
    for x, label, margin, attributes, place in zip(
        X, labels, margins, _evidence(model, X, best), places, strict=True
    ):
        pulls = seen_pulls(model, x, label, N_PULLS)
        named = [Pull(str(pull.label), float(pull.weight)) for pull in pulls]
        reasons.append(Explanation(margin, named, attributes, place))
    return reasons


def _evidence(
    model: GZSLClassifier, X: NDArray[Any], best: NDArray[np.intp]
) -> list[list[Evidence]]:
    """Return for each row the attributes that weigh most for or against its best class."""
    found: list[list[Evidence]] = [[] for _ in best]
    places, names = attribute_names(model)
    if not explains(model) or not len(places):
        return found
    titles = dict(zip(places.tolist(), names or map(str, places), strict=True))
    table, labels = model.class_attributes_, model.classes_.tolist()
    # An attribute and its complement are one reason: its weight is that of both.
    merged = complements(names, table[: len(model.seen_classes_), places]) if names else {}
    negative, positive = places[[*merged]], places[[*merged.values()]]
    places = np.setdiff1d(places, negative)
    for column in np.unique(best).tolist():
        rows = np.flatnonzero(best == column)
        weights = _finite(AlteredClass(model, labels[column]).weights(X[rows]))
        weights[:, positive] += weights[:, negative]
        for row, own in zip(rows.tolist(), weights, strict=True):
            order = np.argsort(-np.abs(own[places]), kind="stable")[:N_ATTRIBUTES]
            found[row] = [
                Evidence(titles[place], float(table[column, place]), float(own[place]))
                for place in places[order].tolist()
                if own[place] != 0.0
            ]
    return found


def _finite(scores: NDArray[Any]) -> NDArray[Any]:
    """Make every score a number: the logarithm of a probability 0 becomes the lowest one."""
    return scores if np.isfinite(scores).all() else np.nan_to_num(scores, nan=0.0)
