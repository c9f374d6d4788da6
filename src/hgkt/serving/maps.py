"""The map of classes: two principal components, fitted on the seen classes alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import unit_rows


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
    def of(cls, model: Any) -> ClassMap:
        """Fit the plane on the seen classes of a model.

        Parameters
        ----------
        model : GZSLClassifier
            The model.
        """
        rows, what = class_rows(model)
        seen = rows[: len(model.seen_classes_)]
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

    def project(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the places (n, 2) of class rows (n, D)."""
        return (rows - self.center) @ self.axes


def class_rows(model: Any) -> tuple[NDArray[np.float64], str]:
    """Return a row for each class, ordered as ``classes_``, and what the rows are.

    Parameters
    ----------
    model : GZSLClassifier
        The model; one without embeddings is drawn by its attributes.
    """
    try:
        rows, what = model.class_embeddings_, "the embeddings"
    except AttributeError:
        rows, what = model.class_attributes_, "the attributes"
    rows = np.asarray(rows, dtype=np.float64).reshape(len(model.classes_), -1)
    # Where the cosine decides, lengths mean nothing.
    if getattr(model, "metric", None) == "cosine":
        rows = unit_rows(rows)
    return rows, what


def map_document(plane: ClassMap, model: Any, names: list[str], revision: int) -> bytes:
    """Return the answer of ``/v1/map`` as JSON.

    Parameters
    ----------
    plane : ClassMap
        The plane.
    model : GZSLClassifier
        The model.
    names : list of str
        Its class names.
    revision : int
        Which set of classes this is.
    """
    places = np.nan_to_num(plane.project(class_rows(model)[0])).tolist()
    n_seen = len(model.seen_classes_)
    points = [
        {"name": name, "seen": column < n_seen, "x": x, "y": y}
        for column, (name, (x, y)) in enumerate(zip(names, places, strict=True))
    ]
    document = {
        "revision": revision,
        "method": plane.method,
        "explained": plane.explained.tolist(),
        "points": points,
    }
    return json.dumps(document).encode()
