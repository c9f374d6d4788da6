"""Sorted class labels over tables in which seen classes come first and added ones as they came."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ClassOrder:
    """Where each class of a table stands among the sorted labels.

    scikit-learn takes for granted that ``classes_`` is sorted and that scores have their columns
    in that order. Tables of classes grow at their end instead, so that adding moves nothing.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        The labels, sorted.
    rows : ndarray of shape (n_classes,)
        The row of the table that each of them has.

    Examples
    --------
    >>> order = ClassOrder.of(np.array(["dog", "fox"])).insert(np.array(["cat"]))
    >>> order.labels.tolist(), order.rows.tolist(), order.columns.tolist()
    (['cat', 'dog', 'fox'], [2, 0, 1], [1, 2, 0])
    """

    labels: NDArray[Any]
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, labels: NDArray[Any]) -> Self:
        """Sort the labels (n_classes,) of a table."""
        rows = np.argsort(labels, kind="stable")
        return cls(labels[rows], rows)

    def insert(self, labels: NDArray[Any]) -> Self:
        """Return the order after `labels` came to the end of the table."""
        new = np.argsort(labels, kind="stable")
        kind = np.result_type(self.labels, labels)  # longer strings would be cut
        # Of one kind both: else the search would convert all labels there are.
        old, labels = self.labels.astype(kind, copy=False), labels[new].astype(kind, copy=False)
        places = np.searchsorted(old, labels)
        return type(self)(
            np.insert(old, places, labels), np.insert(self.rows, places, len(self.rows) + new)
        )

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The position among the sorted labels that each row of the table has."""
        columns = np.empty_like(self.rows)
        columns[self.rows] = np.arange(len(columns))
        return columns
