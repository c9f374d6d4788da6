"""What can be told of classes: attributes by name, sources, relatives, places on a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.class_check import attribute_names
from hgkt.estimators.explain import Contribution, TransferClassifier
from hgkt.serving.edition import Edition

N_SOURCES = 8
N_RELATIVES = 5


def explains(model: GZSLClassifier) -> bool:
    """Return whether attributes can speak for a class of this model."""
    return takes_classes(model) and not model.retrains_on_add


def takes_classes(model: GZSLClassifier) -> bool:
    """Return whether classes can be added to this model."""
    return bool(model._table.has_attributes)


def complements(names: Sequence[str], table: NDArray[np.float64]) -> dict[int, int]:
    """Return the places of attributes that say the opposite of another, and of that other.

    "no tail" is the complement of "tail" where the two add up to 1 for every class. Whoever shows
    attributes shows such a pair once.

    Parameters
    ----------
    names : sequence of str
        Names of the attributes.
    table : ndarray of shape (n_classes, n_attributes)
        Their values.

    Examples
    --------
    >>> complements(["tail", "no tail"], np.array([[1.0, 0.0], [0.25, 0.75]]))
    {1: 0}
    """
    opposite = {f"no {name}": place for place, name in enumerate(names)}
    return {
        place: opposite[name]
        for place, name in enumerate(names)
        if name in opposite
        and np.allclose(table[:, place] + table[:, opposite[name]], 1.0, atol=1e-6)
    }


def named_attributes(model: GZSLClassifier, row: NDArray[np.float64]) -> dict[str, float] | None:
    """Return attributes (n_attributes,) by name; None where the model has no names for them."""
    places, names = attribute_names(model)
    return None if names is None else dict(zip(names, row[places].tolist(), strict=True))


def class_sources(edition: Edition, column: int) -> list[Contribution]:
    """Return the seen classes that a class is made of, the strongest first.

    None for a model that cannot tell.
    """
    model = edition.model
    if not isinstance(model, TransferClassifier):
        return []
    sources = model.explain_class(model.classes_.tolist()[column]).sources[:N_SOURCES]
    return [Contribution(str(source.label), source.weight) for source in sources]


def class_relatives(edition: Edition, column: int) -> list[tuple[str, float]]:
    """Return the classes of the most similar attributes, with the cosine, the nearest first."""
    similarities = edition.unit_attributes @ edition.unit_attributes[column]
    similarities[column] = -np.inf
    count = min(N_RELATIVES, len(similarities) - 1)
    order = np.argsort(-similarities, kind="stable")[:count].tolist()
    return [(edition.names[c], float(similarities[c])) for c in order]


@dataclass(frozen=True)
class ClassMap:
    """A plane into which classes are projected; nothing on it moves when a class is added.

    Parameters
    ----------
    method : str
        What the plane is, in words.
    center : ndarray of shape (D,)
        Mean of the seen classes.
    axes : ndarray of shape (D, 2)
        The two directions.
    explained : ndarray of shape (2,)
        Share of the seen classes' variance along each.
    """

    method: str
    center: NDArray[np.float64]
    axes: NDArray[np.float64]
    explained: NDArray[np.float64]

    @classmethod
    def of(cls, model: GZSLClassifier) -> Self:
        """Fit two principal components on the seen classes of a model."""
        rows, what = _class_rows(model)
        seen = rows[model.seen_mask_]
        center = seen.mean(axis=0)
        _, lengths, directions = np.linalg.svd(seen - center, full_matrices=False)
        axes = np.zeros((seen.shape[1], 2))
        explained = np.zeros(2)
        n_axes = min(2, len(lengths))
        total = float((lengths**2).sum())
        if total > 0:
            axes[:, :n_axes] = directions[:n_axes].T
            explained[:n_axes] = lengths[:n_axes] ** 2 / total
        # The sign of a direction is arbitrary; fixed, every worker draws the same map.
        largest = np.abs(axes).argmax(axis=0)
        axes *= np.where(axes[largest, [0, 1]] < 0, -1.0, 1.0)
        return cls(f"principal components of {what} of seen classes", center, axes, explained)

    def places(self, model: GZSLClassifier) -> NDArray[np.float64]:
        """Return the places (n_classes, 2) of a model's classes, ordered as ``classes_``."""
        rows, _ = _class_rows(model)
        if rows.shape[1:] != self.center.shape:
            # A model of few rows has other coordinates once its classes have grown.
            return type(self).of(model).places(model)
        # Not a product of matrices: that rounds a row differently beside another number of rows.
        return np.nan_to_num(np.einsum("nd,dk->nk", rows - self.center, self.axes))

    def instance_places(
        self, model: GZSLClassifier, X: NDArray[Any]
    ) -> list[tuple[float, float] | None]:
        """Return the place of each row (n, n_features), projected as the classes are.

        None where the model does not bring instances to where its classes are embedded.
        """
        if not isinstance(model, TransferClassifier):
            return [None] * len(X)
        rows = np.asarray(model.in_metric(X), dtype=np.float64)
        if rows.shape[1:] != self.center.shape:
            return [None] * len(X)
        if getattr(model, "metric", None) == "cosine":
            rows = unit_rows(rows)
        return [(x, y) for x, y in np.nan_to_num((rows - self.center) @ self.axes).tolist()]


def _class_rows(model: Any) -> tuple[NDArray[np.float64], str]:
    """Return a row per class and what the rows are; without embeddings the attributes."""
    try:
        rows, what = model.class_points(), "the embeddings"
    except AttributeError:
        rows, what = model.class_attributes_, "the attributes"
    rows = np.asarray(rows, dtype=np.float64).reshape(len(model.classes_), -1)
    # Where the cosine decides, lengths mean nothing.
    if getattr(model, "metric", None) == "cosine":
        rows = unit_rows(rows)
    return rows, what
