"""Evidence for one class of one instance: its attributes, and the seen classes behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_number
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.explanation import Contribution
from hgkt.estimators.transfer import TransferClassifier
from hgkt.exceptions import DataError

_CHUNK_CLASSES = 512  # altered classes embedded at once: bounds memory for long text vectors


@dataclass(frozen=True)
class AttributeEvidence:
    """One attribute of a class and what it does for the class's score.

    Parameters
    ----------
    position : int
        Place of the attribute in the class's vector.
    value : float
        The class's own value.
    weight : float
        Score of the class minus its score were this attribute at the mean of the seen classes;
        negative where the attribute speaks against the class.
    """

    position: int
    value: float
    weight: float


def attribute_evidence(
    model: GZSLClassifier, x: ArrayLike, label: Any, n: int | None = None
) -> list[AttributeEvidence]:
    """Say which attributes of a class speak for it, given one instance.

    Each attribute in turn is set to the mean of the seen classes; the altered class is embedded
    as a new class would be, and its score is compared with that of the class embedded the same
    way. A calibration shifts both alike and has no part in the difference.

    Parameters
    ----------
    model : GZSLClassifier
        Any fitted method; calibrated or not.
    x : array-like of shape (n_features,) or (1, n_features)
        The instance.
    label : str or int
        A class of the model.
    n : int, optional
        How many attributes to return; by default all.

    Returns
    -------
    list of AttributeEvidence
        The strongest first, by absolute weight.

    Examples
    --------
    >>> from hgkt import HGKTClassifier
    >>> X = np.array([[3.0, 1.0, 1.0], [3.0, 1.2, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]])
    >>> attributes = {"cat": [1.0, 0.0, 0.5], "dog": [0.0, 1.0, 0.5], "fox": [0.0, 0.0, 0.5]}
    >>> model = HGKTClassifier().fit(X, ["cat", "cat", "dog", "fox"], attributes)
    >>> strongest, *others = attribute_evidence(model, [3.0, 1.1, 1.0], "cat")
    >>> strongest.weight > 0, others[-1].position, others[-1].weight
    (True, 2, 0.0)
    """
    if n is not None:
        check_number("n", n, low=0, integer=True)
    row = model.one_row(x)
    attributes = model.class_attributes_[model.column_of(label)]
    weights = AlteredClass(model, label).weights(row)[0]
    order = np.argsort(-np.abs(weights), kind="stable")[:n]
    return [AttributeEvidence(int(i), float(attributes[i]), float(weights[i])) for i in order]


class AlteredClass:
    """A class with each attribute in turn at the mean of the seen classes, ready to score.

    Embedding the altered classes is most of the work; whoever explains many instances of one
    class makes this once.

    Parameters
    ----------
    model : GZSLClassifier
        Any fitted method.
    label : str or int
        A class of the model.
    """

    def __init__(self, model: GZSLClassifier, label: Any) -> None:
        column = model.column_of(label)
        if not model._has_attributes:
            raise DataError(
                "this model was fitted without class_attributes, so no attribute speaks for a class"
            )
        self._model = model
        own = model.class_attributes_[column]
        mean = model._seen_attributes.mean(axis=0)
        # An attribute that is at the mean already has no weight, whatever the rounding.
        self._changed = np.flatnonzero(own != mean)
        self._n_attributes = len(own)
        rows = np.tile(own, (len(self._changed) + 1, 1))
        rows[np.arange(1, len(rows)), self._changed] = mean[self._changed]
        self._tables = [
            model._embed_classes(rows[start : start + _CHUNK_CLASSES])
            for start in range(0, len(rows), _CHUNK_CLASSES)
        ]

    def weights(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the weight of each attribute (n, n_attributes) for rows (n, n_features)."""
        prepared = self._model._map_features(X)
        parts = [self._model._score(prepared, table, False) for table in self._tables]
        scores = np.concatenate(parts, axis=1).astype(np.float64)
        weights = np.zeros((len(X), self._n_attributes))
        weights[:, self._changed] = scores[:, :1] - scores[:, 1:]
        return weights


def seen_pulls(
    model: GZSLClassifier, x: ArrayLike, label: Any, n: int | None = None
) -> tuple[Contribution, ...]:
    """Say which seen classes pulled an instance to a class, the strongest first.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted method; calibrated or not.
    x : array-like of shape (n_features,) or (1, n_features)
        The instance.
    label : str or int
        A class of the model.
    n : int, optional
        How many to return; by default all.

    Returns
    -------
    tuple of Contribution
        Empty for a method that cannot tell (all but HGKT).
    """
    if not isinstance(model, TransferClassifier):
        return ()
    return model.pulls_of(x, label)[:n]
