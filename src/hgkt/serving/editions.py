"""The classes of a served model: entries, their history, and the editions that requests read.

These types know neither the database nor HTTP.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._class_names import check_class_name
from hgkt._geometry import unit_rows
from hgkt._validation import attribute_matrix
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError, HGKTError


class ClassExistsError(HGKTError, ValueError):
    """A class was to be added under a name that is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"class {name!r} is there already")
        self.name = name


class UnknownClassError(HGKTError, ValueError):
    """A class was asked for or to be removed that is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no class {name!r}")
        self.name = name


class ClassLearnedError(HGKTError, ValueError):
    """A class was to be removed that the model learned from instances."""

    def __init__(self, name: str) -> None:
        super().__init__(f"class {name!r} was learned from instances and cannot be removed")
        self.name = name


@dataclass(frozen=True)
class ClassEntry:
    """One added class.

    Parameters
    ----------
    name : str
        Up to 200 characters, without control characters; a label that is a number as text.
    attributes : ndarray of shape (n_attributes,)
        Attribute vector, float64; empty where the class is only named.
    text : str, optional
        The description that it was made from.
    added_at : str
        Time in ISO 8601, UTC; filled in by the registry.
    """

    name: str
    attributes: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    text: str | None = None
    added_at: str = ""


@dataclass(frozen=True)
class ClassEvent:
    """One line of the registry's log.

    Parameters
    ----------
    revision : int
        The change that it belongs to.
    kind : {"add", "remove"}
        What happened.
    entry : ClassEntry
        The class; its attributes are empty where it was removed.
    """

    revision: int
    kind: Literal["add", "remove"]
    entry: ClassEntry


@dataclass(frozen=True)
class RegistryState:
    """What the registry holds at one moment.

    Parameters
    ----------
    revision : int
        Number of changes so far.
    entries : tuple of ClassEntry
        Added classes, in the order they came.
    removed : frozenset of str
        Classes of the model folder that were removed.
    """

    revision: int
    entries: tuple[ClassEntry, ...]
    removed: frozenset[str]


@dataclass(frozen=True, eq=False)
class Edition:
    """A served model with the classes of one revision.

    Nobody changes an edition, so that any thread may read it without a lock; a change makes the
    next one. Classes go by their names here: a label that is a number is its text.

    Parameters
    ----------
    model : GZSLClassifier
        The model with the classes of this revision.
    revision : int
        Number of changes so far.
    texts : mapping of str to str
        Descriptions of added classes that have one.
    added_at : mapping of str to str
        When a class was added, ISO 8601 in UTC.
    """

    model: GZSLClassifier
    revision: int = 0
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    added_at: Mapping[str, str] = field(default_factory=dict, repr=False)

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
        """The columns of seen classes, then those of added ones in the order they came."""
        return self.model.candidates()

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which classes were learned from instances, ordered as ``model.classes_``."""
        return self.model.seen_mask_

    @property
    def n_seen(self) -> int:
        """How many classes were learned from instances."""
        return len(self.model.seen_classes_)

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
    def load(cls, base: GZSLClassifier, state: RegistryState) -> Self:
        """Make the edition of a state from the model as its folder has it.

        The registry's classes take the place of those of the same name in the folder.
        """
        new = {entry.name: entry for entry in state.entries}
        return cls(base)._changed(state.revision, {*state.removed, *new}, new)

    def follow(self, log: Sequence[ClassEvent]) -> Self:
        """Make the edition after the events of a log: at least one, in order."""
        gone: set[str] = set()
        new: dict[str, ClassEntry] = {}
        for event in log:
            gone.add(event.entry.name)
            new.pop(event.entry.name, None)
            if event.kind == "add":
                new[event.entry.name] = event.entry
        return self._changed(log[-1].revision, gone, new)

    def _changed(self, revision: int, gone: set[str], new: Mapping[str, ClassEntry]) -> Self:
        """Take added classes away, as far as they are there, and add others."""
        model = view_of(self.model)
        here = {str(label): label for label in model.unseen_classes_.tolist()}
        leaving = here.keys() & gone
        if leaving:
            model.remove_classes([here[name] for name in leaving])
        if new:
            # Checked when they were added; what an earlier release took in stays.
            labels = [label_of(model, name) for name in new]
            rows = dict(zip(labels, (entry.attributes for entry in new.values()), strict=True))
            model._add(labels, attribute_matrix(rows, labels, model._seen_attributes.shape[1]))
        texts = {name: text for name, text in self.texts.items() if name not in leaving}
        times = {name: time for name, time in self.added_at.items() if name not in leaving}
        texts |= {name: entry.text for name, entry in new.items() if entry.text is not None}
        times |= {name: entry.added_at for name, entry in new.items()}
        return type(self)(model, revision, MappingProxyType(texts), MappingProxyType(times))


def made_with(model: GZSLClassifier) -> dict[str, Any]:
    """Return what a loaded model was made with; nothing is known of one that was just fitted."""
    return dict(getattr(model, "about_", {}))


def label_of(model: GZSLClassifier, name: str) -> str | int | float:
    """Turn a name, always text, into a label of the kind the model has."""
    kind = model.seen_classes_.dtype.kind
    if kind not in "iuf":
        return name
    try:
        label = float(name) if kind == "f" else int(name)
    except ValueError:
        raise DataError(f"the classes of this model are numbers; got {name!r}") from None
    if not abs(label) < 2**63:  # infinity and NaN neither
        raise DataError(f"the classes of this model are numbers below 2**63; got {name!r}")
    return label


def utc_now() -> str:
    """Return the time as the registry writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def check_entries(entries: Sequence[ClassEntry]) -> None:
    """Refuse entries that no database could hold, or one name twice."""
    names = set()
    for entry in entries:
        check_class_name(entry.name)
        if entry.name in names:
            raise DataError(f"class {entry.name!r} was given twice")
        names.add(entry.name)
        if entry.attributes.ndim != 1 or not np.isfinite(entry.attributes).all():
            raise DataError(
                f"the attributes of class {entry.name!r} must be a vector of finite numbers"
            )
        if entry.text is not None and any(
            character == "\0" or unicodedata.category(character) == "Cs" for character in entry.text
        ):
            raise DataError(f"the text of class {entry.name!r} is not valid Unicode text")
