"""From rows that fit no known class to classes: groups among them, and what to label next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import unit_rows
from hgkt._validation import check_number
from hgkt.estimators import GZSLClassifier

__all__ = ["MIN_SIZE", "Group", "Neighbour", "Suggestion", "find_groups", "suggest"]

MIN_SIZE = 5
"""The fewest rows of a group."""


@dataclass(frozen=True)
class Neighbour:
    """A known class that a group is near to.

    Parameters
    ----------
    label : str or int
        The class.
    probability : float
        Of this class, on average over the rows of the group.
    """

    label: Any
    probability: float


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that lie close together, and may be of one class.

    Parameters
    ----------
    rows : ndarray of int
        Positions of the rows, the most typical first.
    sureness : float
        From 0 to 1, how much the group looks like one class: 1 − a/b, where its rows lie a from
        its middle on average, and as many of the others, the nearest ones, lie b from it.
    neighbours : tuple of Neighbour
        The likeliest known classes, the nearest first.
    """

    rows: NDArray[np.intp]
    sureness: float
    neighbours: tuple[Neighbour, ...]

    @property
    def size(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    @property
    def example(self) -> int:
        """The position of its medoid, the row that is nearest to all others."""
        return int(self.rows[0])


def find_groups(
    model: GZSLClassifier,
    X: ArrayLike,
    min_size: int = MIN_SIZE,
    n_neighbours: int = 3,
    *,
    n_directions: int = 100,
    min_samples: int = 3,
    selection: Literal["leaf", "eom"] = "leaf",
) -> list[Group]:
    """Cluster rows where the model compares them, the largest group first.

    HDBSCAN of scikit-learn, on the principal directions of the rows. Rows that are close to no
    others belong to no group. Give the rows that a model rejects: rows of known classes would be
    found as groups, too.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows.
    min_size : int, default=5
        The fewest rows of a group.
    n_neighbours : int, default=3
        How many known classes to name per group.
    n_directions : int, default=100
        Principal directions of the rows that are looked at; fewer where there are fewer rows.
    min_samples, selection : int, {"leaf", "eom"}
        Of HDBSCAN. The leaves of its tree are many and pure; "eom" finds fewer and larger groups.

    Examples
    --------
    >>> from hgkt import HGKTClassifier, load_dataset
    >>> data = load_dataset("digits")  # "two" and "six" were not learned
    >>> X, y = data.rows("train")
    >>> model = HGKTClassifier().fit(X, y, data.attributes_of(data.seen_classes))
    >>> X_new, y_new = data.rows("test_unseen")
    >>> [np.unique(y_new[group.rows]).tolist() for group in find_groups(model, X_new)[:2]]
    [['two'], ['six']]
    """
    from sklearn.cluster import HDBSCAN

    check_number("min_size", min_size, low=2, integer=True)
    check_number("n_neighbours", n_neighbours, low=0, integer=True)
    check_number("n_directions", n_directions, low=1, integer=True)
    check_number("min_samples", min_samples, low=1, integer=True)
    rows = model.in_metric(X)
    if len(rows) < max(min_size, min_samples):
        return []
    places = _places(rows, n_directions)
    # Where the tree has no leaf, because nothing splits the rows, all of them may be one group.
    for options in ({"cluster_selection_method": selection}, {"allow_single_cluster": True}):
        found = HDBSCAN(
            min_cluster_size=int(min_size), min_samples=min_samples, copy=True, **options
        )
        labels = found.fit_predict(places)
        if labels.max() >= 0:
            break
    answers = model.answers(X)
    groups = []
    for label in range(labels.max() + 1):
        own = np.flatnonzero(labels == label)
        chances = answers.probabilities[own].mean(axis=0)
        nearest = np.argsort(-chances, kind="stable")[:n_neighbours]
        neighbours = [Neighbour(answers.classes[c].item(), float(chances[c])) for c in nearest]
        typical = own[np.argsort(_distances(places[own]), kind="stable")]
        groups.append(Group(typical, _sureness(places, own), tuple(neighbours)))
    return sorted(groups, key=lambda group: (-group.size, group.example))


def _places(rows: NDArray[Any], n_directions: int) -> NDArray[np.float64]:
    """Return rows (n, D) along their principal directions: in fewer of them density is clearer."""
    from sklearn.decomposition import PCA

    n_directions = min(n_directions, len(rows) - 1, rows.shape[1])
    with np.errstate(invalid="ignore"):  # shares of no variance, where all rows are equal
        found: NDArray[np.float64] = PCA(n_directions, random_state=0).fit_transform(
            np.asarray(rows, dtype=np.float64)
        )
    return found


def _sureness(places: NDArray[np.float64], rows: NDArray[np.intp]) -> float:
    """Return how far the rows of a group lie from those around them; see `Group`."""
    distances = np.linalg.norm(places - places[rows].mean(axis=0), axis=1)
    others = np.sort(np.delete(distances, rows))[: len(rows)]
    if not len(others) or others.mean() <= 0.0:
        return 0.0
    return float(np.clip(1.0 - distances[rows].mean() / others.mean(), 0.0, 1.0))


def _distances(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean distance (n,) of each row (n, k) from all."""
    from sklearn.metrics import pairwise_distances_chunked

    parts = pairwise_distances_chunked(places, reduce_func=lambda part, _: part.mean(axis=1))
    return np.concatenate(list(parts))


# ---------------------------------------------------------------------- what to label next
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
