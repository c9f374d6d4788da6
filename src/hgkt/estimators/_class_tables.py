"""The classes of a fitted model: they come, go, and are found by name or by group."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._validation import attribute_matrix, attribute_table, label_array, label_list, label_text
from hgkt.estimators._inputs import CheckedInputs
from hgkt.estimators._known import KnownClasses, warn_of_doubts
from hgkt.estimators._order import ClassOrder
from hgkt.estimators._rows import GrowingRows
from hgkt.estimators._snapshots import changing, snapshot
from hgkt.exceptions import ClassWarning, DataError
from hgkt.statistics import ExampleSums

ClassTable = dict[str, NDArray[Any]]
"""What scoring needs of each class: named arrays whose rows are classes."""


class ClassTables(CheckedInputs, metaclass=ABCMeta):
    """An estimator with a table of seen and a table of added classes.

    The tables have seen classes first, sorted, and added ones in the order they came; what a
    user meets is ordered as ``classes_``, which is sorted as scikit-learn expects it.

    Threads may share one estimator: classes may be added and removed while others predict, and
    every call sees the classes of one moment.
    """

    can_grow: ClassVar[bool] = False
    """Whether classes can learn from examples after `fit`: `grow`, `example_sums`."""

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

    # ------------------------------------------------------------------ classes that change
    def example_sums(self, X: ArrayLike) -> ExampleSums:
        """Sum up examples of one class; only a method that `can_grow` does."""
        raise DataError(self._cannot_grow())

    def grow(self, examples: Mapping[Any, ExampleSums], class_attributes: Any = None) -> Self:
        """Take in sums over examples of some classes; only a method that `can_grow` does."""
        raise DataError(self._cannot_grow())

    def _cannot_grow(self) -> str:
        return (
            f"{type(self).__name__} cannot learn from more examples once it is fitted; "
            "HGKTClassifier can, others have to be fitted again"
        )

    def edit_classes(self, class_attributes: Any) -> Self:
        """Replace the attributes of classes that were added; all or nothing.

        The model is the one in which they had these attributes from the beginning; a class that
        has grown keeps what it learned from its examples.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            New attribute vector of each class, keyed by class.
        """
        self._refuse_without_attributes()
        table = attribute_table(class_attributes)
        names = list(table)
        with changing(self) as draft:
            draft._refuse_fitted(names, "edited", "fit anew to give it other attributes")
            attributes = attribute_matrix(table, names, draft._seen_attributes.shape[1])
            edited = dict(zip(names, attributes, strict=True))
            for sentence in draft._others(names).doubts(
                {name: row for name, row in edited.items() if not draft._has_learned(name)}
            ):
                warnings.warn(sentence, ClassWarning, stacklevel=2)
            draft._edit(edited)
        return self

    def _edit(self, table: Mapping[Any, NDArray[np.float64]]) -> None:
        """Replace attribute vectors (d,) of added classes that are known to be good."""
        rows = [self._rows[name] - len(self.seen_classes_) for name in table]
        attributes = self._added_attributes.array.copy()
        attributes[rows] = list(table.values())
        tables = {key: kept.array.copy() for key, kept in self._added_table.items()}
        for key, embedded in self._embed_classes(attributes[rows]).items():
            tables[key][rows] = embedded
        self._set_added(self.unseen_classes_, attributes, tables)

    def rename_classes(self, names: Mapping[Any, Any]) -> Self:
        """Give classes other names; all or nothing. Every class may be renamed.

        Renamed classes keep their place among ``seen_classes_`` or ``unseen_classes_``.

        Parameters
        ----------
        names : mapping
            The new name of each class, by its old one. Two classes may swap their names.
        """
        check_is_fitted(self)
        with changing(self) as draft:
            changed = {old: new for old, new in names.items() if old != new}
            for name in names:
                draft.column_of(name)
            new = list(changed.values())
            for name in new:
                if new.count(name) > 1:
                    raise DataError(f"two classes cannot both be named {label_text(name)}")
            strings = draft.seen_classes_.dtype.kind in "UO"
            draft._others(list(changed)).refuse(new, strings=strings)
            if changed:
                draft._rename(changed)
        return self

    def _rename(self, names: Mapping[Any, Any]) -> None:
        """Rename classes; the new names are known to be good."""
        labels = self.seen_classes_.tolist() + self.unseen_classes_.tolist()
        renamed = label_array([names.get(name, name) for name in labels], self.seen_classes_)
        self.seen_classes_, unseen = np.split(renamed, [len(self.seen_classes_)])
        tables = {key: rows.array for key, rows in self._added_table.items()}
        self._set_added(unseen, self._added_attributes.array, tables)

    def _others(self, names: Sequence[Any]) -> KnownClasses:
        """Return what is known of all classes but some."""
        stays = ~np.isin(self.classes_, names) if len(names) else np.ones(len(self.classes_), bool)
        return KnownClasses(self.classes_[stays].tolist(), self.class_attributes_[stays])

    def _has_learned(self, name: Any) -> bool:
        """Tell whether a known class has learned from instances."""
        return self._rows[name] < len(self.seen_classes_)

    def _refuse_fitted(self, names: Collection[Any], done: str, instead: str) -> None:
        """Refuse classes that are unknown, or that the model was fitted on."""
        for name in names:
            row = self._row_of(name)
            if row is None:
                raise DataError(f"class {label_text(name)} is unknown, so it cannot be {done}")
            if row < len(self.seen_classes_) and not self._grown[row]:
                raise DataError(
                    f"class {label_text(name)} was learned from instances and cannot be {done}; "
                    f"{instead}"
                )

    def remove_classes(self, classes: Sequence[Any]) -> Self:
        """Remove added classes; all or nothing. Classes that the model was fitted on stay.

        A class that was added and has grown leaves nothing behind: the model is the one in which
        it never was.

        Parameters
        ----------
        classes : sequence of class labels
            Classes that were added with `add_classes`.
        """
        check_is_fitted(self)
        names = label_list(classes)
        with changing(self) as draft:
            draft._refuse_fitted(names, "removed", "leave it out of a prediction with among=")
            draft._remove(set(names))
        return self

    def _remove(self, names: set[Any]) -> None:
        """Remove added classes."""
        keep = np.array([name not in names for name in self.unseen_classes_.tolist()], dtype=bool)
        self._set_added(
            self.unseen_classes_[keep],
            self._added_attributes.array[keep],
            {key: rows.array[keep] for key, rows in self._added_table.items()},
        )

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
