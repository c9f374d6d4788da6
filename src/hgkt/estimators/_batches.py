"""Labelled batches as methods that learn from batches need them: checked, with class codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import attribute_matrix, attribute_table, label_text
from hgkt.estimators._calibrating import AUTO
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

LabelledBatches = Callable[[], Iterable[tuple[ArrayLike, ArrayLike]]]
"""Returns, each time it is called, the same batches: features (k, D) and labels (k,)."""


class CodedBatches:
    """Batches whose labels are codes of the classes that have attributes.

    Parameters
    ----------
    model : GZSLClassifier
        The method that learns; the first batch says how many features it has.
    batches : callable
        Features and labels.
    class_attributes : mapping or DataFrame
        Attribute vector of every class.

    Attributes
    ----------
    labels : ndarray of shape (C,)
        All classes, sorted.
    """

    def __init__(
        self, model: GZSLClassifier, batches: LabelledBatches, class_attributes: Any
    ) -> None:
        if model.calibration == AUTO:
            raise DataError(
                "calibration='auto' learns once more without some classes, for which all rows must "
                "be in memory; give a number to learn from batches"
            )
        self._model, self._batches = model, batches
        self._table = attribute_table(class_attributes)
        self.labels = np.unique(np.array(list(self._table)))
        self._is_first = True

    def __call__(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
        """Yield features (k, D) and codes (k,)."""
        for X, y in self._batches():
            if not len(np.asarray(y)):
                continue
            features, names = self._model._check_labelled(X, y, reset=self._is_first)
            self._is_first = False
            codes = np.searchsorted(self.labels, names)
            known = self.labels[np.minimum(codes, len(self.labels) - 1)] == names
            if not known.all():
                name = names[np.argmin(known)]
                raise DataError(f"class_attributes has no class {label_text(name)}, which has rows")
            yield features, codes

    def chosen(self, codes: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return labels (L,) and attributes (L, d) of the classes with rows."""
        classes = self.labels[codes]
        if len(classes) < 2:
            raise DataError(
                f"the batches hold one class only ({label_text(classes[0])}); two are expected"
            )
        return classes, attribute_matrix(self._table, classes.tolist())
