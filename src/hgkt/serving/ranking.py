"""From feature rows to the best classes and the reasons for them, on one snapshot's model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators.evidence import AlteredClass, seen_pulls
from hgkt.exceptions import DataError
from hgkt.serving.bodies import ClassNames, Ranking
from hgkt.serving.schemas import Evidence, Explanation, Pull

GROUPS = ("all", "seen", "unseen")
N_PULLS = 8
N_ATTRIBUTES = 6
_CHUNK_SCORES = 2**24  # scores held at once: 128 MiB
_FEW = 64  # among so few candidates sorting all is the fastest


def about_model(model: Any) -> dict[str, Any]:
    """Return what a loaded model was made with."""
    about: dict[str, Any] = getattr(model, "about_", {})
    return about


def attribute_titles(model: Any) -> dict[int, str]:
    """Return what attributes are called, by place; the place itself where they have no name.

    The numbers that a sentence encoder makes of a text mean nothing one by one and are left out.

    Parameters
    ----------
    model : GZSLClassifier
        The model.
    """
    about = about_model(model)
    n_attributes = int(model.class_attributes_.shape[1])
    widths = about.get("attribute_blocks") or [n_attributes]
    kinds = about.get("attribute_kinds") or ["att"] * len(widths)
    places: list[int] = []
    start = 0
    for width, kind in zip(widths, kinds, strict=False):
        if kind != "text":
            places += range(start, min(start + width, n_attributes))
        start += width
    names = about.get("attribute_names") or []
    titles = names if len(names) == len(places) else places
    return {place: str(title) for place, title in zip(places, titles, strict=True)}


def names_of(model: Any) -> ClassNames:
    """Return the names of a model's classes; labels that are numbers become text."""
    return ClassNames([str(label) for label in model.classes_.tolist()], len(model.seen_classes_))


def candidates(model: Any, names: ClassNames, among: str | Sequence[str]) -> NDArray[np.intp]:
    """Return the columns that `among` stands for: a group, or class names, each counted once.

    Parameters
    ----------
    model : GZSLClassifier
        The model.
    names : ClassNames
        Its names.
    among : {"all", "seen", "unseen"} or sequence of str
        The candidates.
    """
    if isinstance(among, str):
        if among == "unseen" and names.n_seen == len(names.names):
            raise DataError("among is 'unseen', but no class has been added yet")
        columns: NDArray[np.intp] = model.candidates(among)
        return columns
    for name in among:
        if name not in names.columns:
            raise DataError(f"among names class {name!r}, which the model has not")
    return np.array([names.columns[name] for name in dict.fromkeys(among)], dtype=np.intp)


def rank(model: Any, X: NDArray[Any], columns: NDArray[np.intp], k: int) -> Ranking:
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
    """
    k = min(k, len(columns))
    step = max(1, _CHUNK_SCORES // len(model.classes_))
    every = len(columns) == len(model.classes_)
    places, values = [], []
    for start in range(0, len(X), step):
        scores = model.score_classes(X[start : start + step])
        part = scores if every else scores[:, columns]
        order = best_columns(part, k)
        places.append(order if every else columns[order])
        values.append(np.take_along_axis(part, order, axis=1))
    if len(places) == 1:
        return Ranking(places[0], _finite(values[0]))
    return Ranking(np.concatenate(places), _finite(np.concatenate(values)))


def best_columns(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the columns (n, k) of the highest scores, the best first; the first one of equals.

    Examples
    --------
    >>> best_columns(np.array([[1.0, 3.0, 2.0, 3.0]]), 3)
    array([[1, 3, 2]])
    """
    if k == 1:
        return scores.argmax(axis=1)[:, None]
    if scores.shape[1] <= max(_FEW, 2 * k):
        return np.argsort(-scores, axis=1, kind="stable")[:, :k]
    found = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    found.sort(axis=1)  # a stable sort by score then leaves the first one of equals in front
    order = np.argsort(-np.take_along_axis(scores, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)


def explain(model: Any, X: NDArray[Any], ranking: Ranking, n_candidates: int) -> list[Explanation]:
    """Say for each row why the first class of its ranking is first.

    Parameters
    ----------
    model : GZSLClassifier
        The model.
    X : ndarray of shape (n, n_features)
        Feature rows.
    ranking : Ranking
        Their best classes: two at least, where there are two candidates.
    n_candidates : int
        Among how many classes the ranking was made.
    """
    best = ranking.columns[:, 0]
    attributes = _attributes(model, X, best)
    explanations = []
    labels = model.classes_[best].tolist()
    for row, label in enumerate(labels):
        scores = ranking.scores[row]
        pulls = seen_pulls(model, X[row], label, N_PULLS)
        explanations.append(
            Explanation(
                margin=float(scores[0] - scores[1]) if n_candidates > 1 else None,
                pulls=[Pull(label=str(pull.label), weight=pull.weight) for pull in pulls],
                attributes=attributes[row],
            )
        )
    return explanations


def _attributes(model: Any, X: NDArray[Any], best: NDArray[np.intp]) -> list[list[Evidence]]:
    found: list[list[Evidence]] = [[] for _ in best]
    if not explains(model):
        return found
    titles = attribute_titles(model)
    if not titles:
        return found
    places = np.array(list(titles))
    table, labels = model.class_attributes_, model.classes_.tolist()
    for column in np.unique(best).tolist():
        rows = np.flatnonzero(best == column)
        weights = AlteredClass(model, labels[column]).weights(X[rows])
        for row, own in zip(rows.tolist(), _finite(weights), strict=True):
            order = np.argsort(-np.abs(own[places]), kind="stable")[:N_ATTRIBUTES]
            found[row] = [
                Evidence(
                    name=titles[place],
                    value=float(table[column, place]),
                    weight=float(own[place]),
                )
                for place in places[order].tolist()
                if own[place] != 0.0
            ]
    return found


def explains(model: Any) -> bool:
    """Return whether attributes can speak for a class of this model."""
    return bool(model._has_attributes)


def _finite(scores: NDArray[Any]) -> NDArray[Any]:
    """JSON has no infinity: the logarithm of a probability 0 becomes the lowest number."""
    return scores if np.isfinite(scores).all() else np.nan_to_num(scores, nan=0.0)
