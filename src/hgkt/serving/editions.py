"""The editions of a served model that requests read, one per revision of its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._validation import attribute_matrix
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.ranking import prepare_rows
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError
from hgkt.serving.entries import ClassEntry, UnknownClassError
from hgkt.serving.events import ClassEvent, RegistryState
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
    revision : int
        Number of changes so far.
    texts : mapping of str to str
        Descriptions of added classes that have one.
    added_at : mapping of str to str
        When a class of the registry was added, ISO 8601 in UTC.
    learned : frozenset of str
        Classes that the model folder brings with instances: they may grow, and stay.
    n_examples : mapping of str to int
        How many examples classes have grown by.
    """

    model: GZSLClassifier
    revision: int = 0
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    added_at: Mapping[str, str] = field(default_factory=dict, repr=False)
    learned: frozenset[str] = field(default=frozenset(), repr=False)
    n_examples: Mapping[str, int] = field(default_factory=dict, repr=False)

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
    def load(cls, base: GZSLClassifier, state: RegistryState) -> Self:
        """Make the edition of a state from the model as its folder has it.

        The registry's classes take the place of those of the same name in the folder.
        """
        draft = _Draft(cls(base, learned=frozenset(map(str, base.seen_classes_.tolist()))))
        draft.remove({*state.removed, *(entry.name for entry in state.entries)})
        draft.add(state.entries)
        draft.grow(state.growth)
        prepare_rows(draft.model)
        return cls(**draft.content(), revision=state.revision)

    def follow(self, log: Sequence[ClassEvent]) -> Self | None:
        """Make the edition after the events of a log: at least one, in order.

        None where that would not save work, or not give the very model that `load` makes.
        """
        if any(event.kind == "rollback" for event in log):
            return None
        draft = _Draft(self)
        for kind, run in groupby(log, lambda event: event.kind):
            events = list(run)
            names = {event.old_name for event in events}
            if kind == "add":
                entries = {event.entry.name: event.entry for event in events}
                draft.remove(set(entries))
                draft.add(list(entries.values()))
            elif kind == "grow":
                draft.grow(_merged(events))
            elif names & draft.n_examples.keys() - self.learned and kind == "remove":
                return None  # taking sums away again would leave rounding behind
            elif kind == "remove":
                draft.remove(names)
            elif names <= draft.added_at.keys():
                draft.edit(events)
            else:
                return None  # a class of the folder becomes one of the registry
        prepare_rows(draft.model)  # nobody waits for it but who made the change
        return type(self)(**draft.content(), revision=log[-1].revision)


class _Draft:
    """An edition in the making."""

    def __init__(self, edition: Edition) -> None:
        self._learned = edition.learned
        self.model = view_of(edition.model)
        self.texts = dict(edition.texts)
        self.added_at = dict(edition.added_at)
        self.n_examples = dict(edition.n_examples)

    def content(self) -> dict[str, Any]:
        """Return the fields of the edition, but its revision."""
        return {
            "model": self.model,
            "learned": self._learned,
            "texts": MappingProxyType(self.texts),
            "added_at": MappingProxyType(self.added_at),
            "n_examples": MappingProxyType(self.n_examples),
        }

    def remove(self, names: set[str]) -> None:
        """Take described classes away, as far as they are there."""
        here = {str(label): label for label in self.model.unseen_classes_.tolist()}
        leaving = here.keys() & names
        if leaving:
            self.model.remove_classes([here[name] for name in leaving])
        for name in leaving:
            self.texts.pop(name, None)
            self.added_at.pop(name, None)

    def add(self, entries: Sequence[ClassEntry]) -> None:
        """Add classes that were checked when they were written."""
        if not entries:
            return
        # What an earlier release took in stays, whatever names are refused today.
        labels = [label_of(self.model, entry.name) for entry in entries]
        self.model._add(labels, self._matrix(labels, entries))
        for entry in entries:
            self._tell(entry)

    def edit(self, events: Sequence[ClassEvent]) -> None:
        """Give classes of the registry other attributes and names, in their places."""
        model = self.model
        for event in events:
            old, new = (label_of(model, name) for name in (event.old_name, event.entry.name))
            if event.kind == "edit":
                row = self._matrix([old], [event.entry])[0]
                model._edit({old: row})
            if old != new:
                model._rename({old: new})
            for table in (self.texts, self.added_at):
                table.pop(event.old_name, None)
            n_examples = self.n_examples.pop(event.old_name, None)
            if n_examples is not None:
                self.n_examples[event.entry.name] = n_examples
            self._tell(event.entry)

    def grow(self, growth: Mapping[str, ExampleSums]) -> None:
        """Let classes grow; those that the folder has lost since are left out."""
        here = {str(label): label for label in self.model.classes_.tolist()}
        known = {name: sums for name, sums in growth.items() if name in here}
        if known:
            self.model.grow({here[name]: sums for name, sums in known.items()})
        for name, sums in known.items():
            self.n_examples[name] = self.n_examples.get(name, 0) + sums.n_examples

    def _matrix(self, labels: list[Any], entries: Sequence[ClassEntry]) -> NDArray[np.float64]:
        rows = dict(zip(labels, (entry.attributes for entry in entries), strict=True))
        return attribute_matrix(rows, labels, self.model._seen_attributes.shape[1])

    def _tell(self, entry: ClassEntry) -> None:
        self.added_at[entry.name] = entry.added_at
        if entry.text is not None:
            self.texts[entry.name] = entry.text


def _merged(events: Sequence[ClassEvent]) -> dict[str, ExampleSums]:
    """Return what some events let each class grow by."""
    growth: dict[str, ExampleSums] = {}
    for event in events:
        if event.sums is not None:
            name = event.entry.name
            growth[name] = growth[name].merge(event.sums) if name in growth else event.sums
    return growth


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
