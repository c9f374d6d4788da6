"""The editions of a served model that requests read: the model made from one table of classes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._validation import attribute_matrix, label_of
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.scoring import prepare_rows
from hgkt.exceptions import DataError
from hgkt.language import description_of
from hgkt.serving.events import ClassEntry, ClassTable, FolderClasses, UnknownClassError
from hgkt.statistics import ExampleSums

ClassKind = Literal["described", "grown", "learned"]
"""By what a class is known: its attributes, examples that it got here, or the model's training."""


@dataclass(frozen=True, eq=False)
class Edition:
    """A served model with the classes of one revision.

    Nobody changes an edition, so that any thread may read it without a lock; a change makes the
    next one. Classes go by their names here: a label that is a number is its text.

    Parameters
    ----------
    model : GZSLClassifier
        The model with the classes of this revision.
    table : ClassTable
        The classes that the registry adds to those of the model folder.
    folder : FolderClasses
        The classes of the model folder.
    """

    model: GZSLClassifier
    table: ClassTable = field(default_factory=ClassTable, repr=False)
    folder: FolderClasses = field(default_factory=FolderClasses, repr=False)

    @property
    def learned(self) -> frozenset[str]:
        """Classes that the model folder brings with instances: they may grow, and stay."""
        return self.folder.learned

    @property
    def revision(self) -> int:
        """Number of changes so far."""
        return self.table.revision

    @cached_property
    def columns(self) -> dict[str, int]:
        """The position of every class in ``model.classes_``."""
        return {str(label): column for column, label in enumerate(self.model.classes_.tolist())}

    @cached_property
    def names(self) -> list[str]:
        """The names, ordered as ``model.classes_``."""
        return list(self.columns)

    @cached_property
    def folded_names(self) -> list[str]:
        """The names for a search in which upper and lower case are the same."""
        return [name.casefold() for name in self.names]

    @cached_property
    def unit_attributes(self) -> NDArray[np.float64]:
        """Attribute vectors of length one, one row per class."""
        with np.errstate(over="ignore"):  # a class of enormous numbers is related to none
            return unit_rows(self.model.class_attributes_)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The columns of seen classes, then those of described ones in the order they came."""
        return self.model.candidates()

    @cached_property
    def added(self) -> NDArray[np.bool_]:
        """Which classes were added, grown or not, ordered as ``model.classes_``."""
        return np.array([name not in self.learned for name in self.names], dtype=bool)

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which classes were learned from instances, ordered as ``model.classes_``."""
        return self.model.seen_mask_

    @property
    def n_seen(self) -> int:
        """How many classes were learned from instances, grown ones among them."""
        return len(self.model.seen_classes_)

    @property
    def n_added(self) -> int:
        """How many classes were added, grown ones among them."""
        return len(self.names) - len(self.learned)

    @cached_property
    def n_examples(self) -> dict[str, int]:
        """How many examples classes have grown by."""
        growth = self.table.growth.items()
        return {name: sums.n_examples for name, sums in growth if name in self.columns}

    def entry(self, name: str) -> ClassEntry:
        """Return a class as the registry has it; name and text where it is of the model folder."""
        entry = self.table.classes.get(name)
        if entry is not None or name not in self.columns:
            return entry or ClassEntry(name)
        row = self.model.class_attributes_[self.columns[name]]
        return ClassEntry(name, text=description_of(made_with(self.model), row))

    def kind(self, column: int) -> ClassKind:
        """Return by what a class is known."""
        if not self.added[column]:
            return "learned"
        return "grown" if self.seen[column] else "described"

    def canonical(self, name: str) -> str:
        """Return a name as the model writes it: "007" is "7" where labels are integers."""
        return str(label_of(self.model, name))

    def find(self, name: str) -> int:
        """Return the column of a class; raise `UnknownClassError` where there is none."""
        try:
            return self.columns[self.canonical(name)]
        except (DataError, KeyError):
            raise UnknownClassError(name) from None

    @classmethod
    def load(cls, base: GZSLClassifier, table: ClassTable) -> Self:
        """Make the edition of a table from the model as its folder has it.

        The registry's classes take the place of those of the same name in the folder.
        """
        return cls(base, folder=folder_classes(base)).follow(base, table, table.growth)

    def follow(
        self, base: GZSLClassifier, table: ClassTable, grown: Mapping[str, ExampleSums] | None
    ) -> Self:
        """Make the edition of a later table, by what differs where that gives the very same model.

        Parameters
        ----------
        base : GZSLClassifier
            The model as its folder has it.
        table : ClassTable
            The classes afterwards.
        grown : mapping of str to ExampleSums, or None
            What classes grew by in between; None where `table` did not come of this one.
        """
        old = {entry.place: entry for entry in self.table.classes.values()}
        new = {entry.place: entry for entry in table.classes.values()}
        gone = {entry.name for place, entry in old.items() if place not in new}
        gone |= table.removed - self.table.removed
        fresh = {entry.name: entry for place, entry in new.items() if place not in old}
        if (
            grown is None
            or not self.table.removed <= table.removed
            # Taking sums away again would leave rounding behind.
            or gone & self.table.growth.keys()
            or any(table.growth.get(name) is not grown.get(name) for name in fresh)
        ):
            return type(self).load(base, table)
        kept = [(old[place], entry) for place, entry in new.items() if place in old]
        model = _changed(self.model, gone | fresh.keys(), kept, fresh, grown)
        return type(self)(model, table, self.folder)


def _changed(
    model: GZSLClassifier,
    gone: Set[str],
    kept: Iterable[tuple[ClassEntry, ClassEntry]],
    fresh: Mapping[str, ClassEntry],
    grown: Mapping[str, ExampleSums],
) -> GZSLClassifier:
    """Return a model whose classes went, changed, came and grew, ready to be asked.

    Parameters
    ----------
    model : GZSLClassifier
        The model before; it is not changed.
    gone : set of str
        Described classes to take away, as far as the model has them.
    kept : iterable of pairs of ClassEntry
        Classes as they were, and as they are now: their attributes and names may differ.
    fresh : mapping of str to ClassEntry
        Classes to add, which were checked when they were written.
    grown : mapping of str to ExampleSums
        What classes grow by; those that the folder has lost since are left out.
    """
    model = copy(model)
    leaving = [label for label in model.unseen_classes_.tolist() if str(label) in gone]
    if leaving:
        model.remove_classes(leaving)
    pairs = [(old, new) for old, new in kept if old is not new]
    edited = {
        old.name: new.attributes
        for old, new in pairs
        if old.attributes.tobytes() != new.attributes.tobytes()
    }
    if edited:
        vectors = dict(zip(*_labelled(model, edited), strict=True))
        model.__dict__.update(model._edited(vectors))
    names = {label_of(model, old.name): label_of(model, new.name) for old, new in pairs}
    model.rename_classes(names)
    if fresh:
        model._add(*_labelled(model, {name: new.attributes for name, new in fresh.items()}))
    labels = {str(label): label for label in model.classes_.tolist()} if grown else {}
    known = {labels[name]: sums for name, sums in grown.items() if name in labels}
    if known:
        model.grow(known)
    prepare_rows(model)  # nobody waits for it but who made the change
    return model


def _labelled(
    model: GZSLClassifier, vectors: Mapping[str, Any]
) -> tuple[list[Any], NDArray[np.float64]]:
    """Return the labels of names in a model, and their vectors, one row each."""
    table = {label_of(model, name): vector for name, vector in vectors.items()}
    labels = list(table)
    return labels, attribute_matrix(table, labels, model.class_attributes_.shape[1])


def made_with(model: GZSLClassifier) -> dict[str, Any]:
    """Return what a loaded model was made with; nothing is known of one that was just fitted."""
    return dict(getattr(model, "about_", {}))


def folder_classes(model: GZSLClassifier) -> FolderClasses:
    """Return the classes that a model folder itself holds."""
    learned = frozenset(map(str, model.seen_classes_.tolist()))
    rows = zip(model.unseen_classes_.tolist(), model._table.added_attributes, strict=True)
    return FolderClasses(learned, {str(name): ClassEntry(str(name), row) for name, row in rows})


def refuse_unusable(base: GZSLClassifier, vectors: Mapping[str, Any]) -> None:
    """Refuse classes, attribute vectors by name, that the model cannot take."""
    labels, rows = _labelled(base, vectors)
    if base.retrains_on_add:
        base._embed_classes(rows)  # refuses what it cannot train on; a trial would take as long
        return
    with np.errstate(all="ignore"):
        trial = copy(base)
        trial.remove_classes(trial.unseen_classes_.tolist())
        trial._add(labels, rows)
        scores = trial.score_classes(np.ones((1, trial.n_features_in_)))[0]
    embedded = list(trial._table.added_rows.values())
    for row, name in enumerate(vectors):
        # A score that is infinite or no number would win every prediction.
        good = all(np.isfinite(array[row]).all() for array in embedded)
        if not good or not scores[trial.candidates("unseen")[row]] < np.inf:
            raise DataError(
                f"the attributes of class {name!r} are too large for this model; its "
                "scores would not be finite numbers"
            )


def refuse_unsound(model: GZSLClassifier, name: str) -> None:
    """Refuse examples after which a model's scores are no finite numbers."""
    with np.errstate(all="ignore"):
        scores = model.score_classes(np.ones((1, model.n_features_in_)))
    if not np.isfinite(scores).all():
        raise DataError(
            f"the examples of class {name!r} do not fit this model; its scores would not be "
            "finite numbers"
        )


def model_identity(model: GZSLClassifier) -> str:
    """Return a digest of what a model has learned: its method, seen classes and arrays.

    Classes that were added and the calibration do not count: the same model with a class more is
    the same model. A model fitted again, or on other attributes, is another one.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    state = {key: rows for key, rows in model._state().items() if not key.startswith("added/")}
    state["attributes"] = model.class_attributes_[model.seen_mask_]
    text = f"{type(model).__qualname__} {model.seen_classes_.tolist()!r}"
    digest = hashlib.sha256(text.encode())
    for key, rows in sorted(state.items()):
        array = np.ascontiguousarray(rows)
        digest.update(f"\n{key} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes() if array.dtype.kind in "OU" else array.data)
    return digest.hexdigest()
