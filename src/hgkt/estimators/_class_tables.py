"""The classes of a fitted model: they come, go, and are found by name or by group."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._validation import attribute_matrix, attribute_table, label_array, label_list, label_text
from hgkt.estimators._inputs import CheckedInputs
from hgkt.estimators._known import KnownClasses, warn_of_doubts
from hgkt.estimators._order import ClassOrder
from hgkt.estimators._rows import GrowingRows
from hgkt.estimators._snapshots import changing, snapshot
from hgkt.exceptions import DataError

ClassTable = dict[str, NDArray[Any]]
"""What scoring needs of each class: named arrays whose rows are classes."""


class ClassTables(CheckedInputs, metaclass=ABCMeta):
    """An estimator with a table of seen and a table of added classes.

    The tables have seen classes first, sorted, and added ones in the order they came; what a
    user meets is ordered as ``classes_``, which is sorted as scikit-learn expects it.

    Threads may share one estimator: classes may be added and removed while others predict, and
    every call sees the classes of one moment.
    """

    classes_: NDArray[Any]
    seen_classes_: NDArray[Any]
    unseen_classes_: NDArray[Any]
    _order: ClassOrder
    _known: KnownClasses | None = None
    _rows: dict[Any, int]
    """The row of each class in the tables: seen classes first, then added ones. It grows in place,
    so it may name classes that a reader of an earlier moment does not have yet: see `_row_of`."""
    _has_attributes: bool
    _seen_table: ClassTable
    _seen_attributes: NDArray[np.float64]
    _added_table: dict[str, GrowingRows]
    _added_attributes: GrowingRows
    _grown: NDArray[np.bool_]
    """Which seen classes (L,) came by their attributes and got their instances later."""
    _learned_shares: NDArray[np.float64]
    """How far each of those (L,) is known by its instances, from 0 to 1; 0 for the others."""

    @abstractmethod
    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        """Return the table rows of new classes from their attributes (U, d)."""

    @property
    def seen_mask_(self) -> NDArray[np.bool_]:
        """Which classes were learned from instances, ordered as ``classes_``."""
        now = snapshot(self)
        return now._order.rows < len(now.seen_classes_)

    def __copy__(self) -> Self:
        """Return an estimator to which classes can be added without changing this one."""
        with changing(self) as now:
            other = snapshot(now)
            if "_rows" in now.__dict__:
                other._detach()
        return other

    def _detach(self) -> None:
        """Own what grows in place, so that classes added here show nowhere else."""
        self._rows = dict(self._rows)
        self._known = None if self._known is None else self._known.copy()

    def add_classes(self, class_attributes: Any) -> Self:
        """Add classes known by their attributes alone; no retraining, all or nothing.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        """
        with changing(self) as draft:
            names, attributes = draft._newcomers(class_attributes)
            warn_of_doubts(draft._acquaintance(), names, attributes)
            draft._add(names, attributes)
        return self

    def class_doubts(self, class_attributes: Any) -> list[str]:
        """Say what `add_classes` would warn of: classes described like others, or by nothing.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        """
        with changing(self) as draft:
            names, attributes = draft._newcomers(class_attributes)
            return list(draft._acquaintance().doubts(dict(zip(names, attributes, strict=True))))

    def _newcomers(self, class_attributes: Any) -> tuple[list[Any], NDArray[np.float64]]:
        """Check the names and attributes (U, d) of classes that are to be added."""
        self._refuse_without_attributes()
        table = attribute_table(class_attributes)
        names = list(table)
        self._acquaintance().refuse(names, strings=self.seen_classes_.dtype.kind in "UO")
        return names, attribute_matrix(table, names, self._seen_attributes.shape[1])

    def _refuse_without_attributes(self) -> None:
        check_is_fitted(self)
        if not self._has_attributes:
            raise DataError(
                "this model was fitted without class_attributes, so nothing is known by which a "
                "new class could be told; fit it with class_attributes to add classes"
            )

    def _acquaintance(self) -> KnownClasses:
        if self._known is None:
            order = self.candidates()
            self._known = KnownClasses(self.classes_[order].tolist(), self.class_attributes_[order])
        return self._known

    def _add(self, names: list[Any], attributes: NDArray[np.float64]) -> Self:
        """Add classes whose names and attributes (U, d) are known to be good."""
        if not names:
            return self
        rows = self._embed_classes(attributes)
        first = len(self._order.rows)
        self._added_attributes = self._added_attributes.append(attributes)
        self._added_table = {key: self._added_table[key].append(rows[key]) for key in rows}
        new = label_array(names, self.seen_classes_)
        self.unseen_classes_ = np.concatenate([self.unseen_classes_, new])
        self._order = self._order.insert(new)
        self.classes_ = self._order.labels
        # What grows in place comes last: nothing after it can fail.
        if self._known is not None:
            self._known.append(names, attributes)
        self._rows.update({name: first + i for i, name in enumerate(names)})
        return self

    def _add_others(self, class_attributes: Any) -> Self:
        """Add the classes of a table that the model has not."""
        table = {} if class_attributes is None else attribute_table(class_attributes)
        others = {name: row for name, row in table.items() if self._row_of(name) is None}
        return self.add_classes(others) if others else self

    def _set_added(
        self, classes: NDArray[Any], attributes: NDArray[np.float64], table: ClassTable
    ) -> None:
        self.unseen_classes_ = classes
        self._known = None
        self._added_attributes = GrowingRows(attributes)
        self._added_table = {key: GrowingRows(rows) for key, rows in table.items()}
        labels = np.concatenate([self.seen_classes_, classes])
        self._order = ClassOrder.of(labels)
        self.classes_ = self._order.labels
        self._rows = {name: row for row, name in enumerate(labels.tolist())}

    @property
    def class_attributes_(self) -> NDArray[np.float64]:
        """Attribute vectors, one row a class, ordered as ``classes_``."""
        now = snapshot(self)
        rows = np.concatenate([now._seen_attributes, now._added_attributes.array])
        return rows[now._order.rows]

    @property
    def class_embeddings_(self) -> NDArray[Any]:
        """Embeddings, one row a class, ordered as ``classes_`` (methods that have them)."""
        now = snapshot(self)
        try:
            added = now._added_table["embedding"].array
            return np.concatenate([now._seen_table["embedding"], added])[now._order.rows]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} embeds no classes") from None

    def candidates(self, among: str | Sequence[Any] = "all") -> NDArray[np.intp]:
        """Return the columns of ``classes_`` that `among` stands for.

        A group comes as ``seen_classes_`` and ``unseen_classes_`` have it, "all" as the two in
        turn; a list of classes comes as it is given.
        """
        check_is_fitted(self)
        now = snapshot(self)
        n_seen, n_classes = len(now.seen_classes_), len(now.classes_)
        groups = {"all": (0, n_classes), "seen": (0, n_seen), "unseen": (n_seen, n_classes)}
        if isinstance(among, str):
            if among not in groups:
                raise DataError(
                    f"among must be 'all', 'seen', 'unseen' or a list of classes; got {among!r}"
                )
            columns = now._order.columns[slice(*groups[among])]
            if not len(columns):
                raise DataError("among='unseen' but no class has been added; use add_classes first")
            return columns
        names = label_list(among)
        if not names:
            raise DataError("among is an empty list; at least one class is expected")
        rows = []
        for name in names:
            row = now._row_of(name)
            if row is None:
                raise DataError(f"among names class {label_text(name)}, which the model has not")
            rows.append(row)
        return now._order.columns[rows]

    def column_of(self, label: Any) -> int:
        """Return the position of a class in ``classes_``; an unknown one is refused."""
        check_is_fitted(self)
        now = snapshot(self)
        row = now._row_of(label)
        if row is None:
            raise DataError(f"class {label_text(label)} is unknown to this model")
        return int(now._order.columns[row])

    def _row_of(self, name: Any) -> int | None:
        """Return the row of a class in the tables of this moment; None where there is none."""
        row = self._rows.get(name)
        return row if row is not None and row < len(self._order.rows) else None
