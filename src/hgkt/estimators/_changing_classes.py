"""The life of a class: it grows, is edited, renamed, and goes."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._validation import attribute_matrix, attribute_table, label_array, label_list, label_text
from hgkt.estimators._class_tables import ClassTables
from hgkt.estimators._known import KnownClasses
from hgkt.estimators._snapshots import changing
from hgkt.exceptions import ClassWarning, DataError
from hgkt.statistics import ExampleSums


class ChangingClasses(ClassTables):
    """An estimator whose classes change after they came; every change is all or nothing."""

    can_grow: ClassVar[bool] = False
    """Whether classes can learn from examples after `fit`: `grow`, `example_sums`."""

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
            if edited:
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
