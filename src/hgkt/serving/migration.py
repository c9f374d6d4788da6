"""Classes of an old model for a new one: what can be carried, what cannot, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_class_name
from hgkt.exceptions import DataError, first_line
from hgkt.language import ClassDescription
from hgkt.serving.carrying import Carrier
from hgkt.serving.editions import Edition, label_of
from hgkt.serving.entries import ClassEntry
from hgkt.serving.events import RegistryState
from hgkt.serving.model_facts import ModelFacts
from hgkt.serving.proposals import refuse_unusable
from hgkt.serving.served_model import ServedModel
from hgkt.statistics import ExampleSums

_SAME = 1e-6  # an encoder repeats itself up to the seventh digit


@dataclass(frozen=True)
class Source:
    """Where classes come from.

    Parameters
    ----------
    model_id : str
        The old model's identity.
    state : RegistryState
        Its classes in the registry.
    facts : ModelFacts or None
        What is known of it.
    """

    model_id: str
    state: RegistryState
    facts: ModelFacts | None

    @property
    def title(self) -> str:
        """What it is called in reports and in the log."""
        name = "" if self.facts is None else f"{self.facts.name} "
        return f"{name}{self.model_id[:12]}"


@dataclass(frozen=True)
class Left:
    """Something that is not carried, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Migration:
    """What becomes of the classes of an old model in a new one.

    Parameters
    ----------
    source, target : str
        The old model, and the new one.
    moving : tuple of ClassEntry
        Classes that are added to the new model, as it reads them.
    growing : mapping of str to ExampleSums
        What classes of the new model grow by.
    unfit : tuple of Left
        Classes that the new model cannot take.
    learned : tuple of str
        Classes that it has learned itself.
    there : tuple of str
        Classes that it has already, with the same attributes.
    differing : tuple of str
        Classes that it has already, with other attributes, which they keep.
    left_examples : tuple of Left
        Classes whose examples are not carried.
    doubts : tuple of str
        What is doubtful about the classes that move.
    note : str, optional
        What else there is to know.
    """

    source: str
    target: str
    moving: tuple[ClassEntry, ...] = ()
    growing: Mapping[str, ExampleSums] = field(default_factory=dict, repr=False)
    unfit: tuple[Left, ...] = ()
    learned: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    left_examples: tuple[Left, ...] = ()
    doubts: tuple[str, ...] = ()
    note: str | None = None

    def after(self, state: RegistryState) -> RegistryState:
        """Return a state of the new model's registry with what is carried."""
        growth = MappingProxyType({**state.growth, **self.growing})
        entries = (*state.entries, *self.moving)
        return RegistryState(state.revision, entries, state.removed, growth)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "source": self.source,
            "target": self.target,
            "moving": [entry.name for entry in self.moving],
            "growing": {name: sums.n_examples for name, sums in self.growing.items()},
            "unfit": [vars(one) for one in self.unfit],
            "learned": list(self.learned),
            "there": list(self.there),
            "differing": list(self.differing),
            "left_examples": [vars(one) for one in self.left_examples],
            "doubts": list(self.doubts),
            "note": self.note,
        }


def plan_migration(source: Source, served: ServedModel, facts: ModelFacts) -> Migration:
    """Say what becomes of the classes of an old model in a new one; nothing is written.

    Parameters
    ----------
    source : Source
        The old model's classes.
    served : ServedModel
        The new model with its own.
    facts : ModelFacts
        What is known of the new model.
    """
    edition, carrier = served.refresh(), Carrier(source.facts, facts)
    learned, unfit, described = [], [], {}
    for entry in source.state.entries:
        try:
            name = edition.canonical(entry.name)
            check_class_name(name)
            if name in edition.learned:
                learned.append(name)
                continue
            described[name] = (entry, carrier.describe(replace(entry, name=name)))
        except DataError as error:
            unfit.append(Left(entry.name, first_line(error)))
    vectors, refused = _vectors(served, {name: one for name, (_, one) in described.items()})
    unfit += refused
    there = {
        name: _same(edition, name, row) for name, row in vectors.items() if name in edition.columns
    }
    moving = tuple(
        replace(described[name][0], name=name, attributes=row, place=0)
        for name, row in vectors.items()
        if name not in there
    )
    labels = {label_of(edition.model, entry.name): entry.attributes for entry in moving}
    growing, left = _growth(source, served, facts, {entry.name for entry in moving})
    return Migration(
        source.title,
        f"{facts.name} {served.registry.model_id[:12]}",
        moving,
        growing,
        tuple(unfit),
        tuple(learned),
        tuple(name for name, same in there.items() if same),
        tuple(name for name, same in there.items() if not same),
        tuple(left),
        tuple(edition.model.class_doubts(labels)) if labels else (),
        carrier.note() if source.state.entries else None,
    )


def _vectors(
    served: ServedModel, described: Mapping[str, ClassDescription]
) -> tuple[dict[str, NDArray[np.float64]], list[Left]]:
    """Return the attribute vectors of classes that the model can take, and the others."""

    def make(names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        rows = served.vectors([described[name] for name in names])
        found = dict(zip(names, rows, strict=True))
        new = {name: row for name, row in found.items() if name not in served.current().columns}
        if new:
            refuse_unusable(served._base, new)
        return found

    return _each(list(described), make)


def _each(
    names: Sequence[str], make: Callable[[Sequence[str]], dict[str, NDArray[np.float64]]]
) -> tuple[dict[str, NDArray[np.float64]], list[Left]]:
    """Make something of all names at once, or where that fails of one after another."""
    try:
        return (make(names) if names else {}), []
    except DataError:
        found: dict[str, NDArray[np.float64]] = {}
        left = []
        for name in names:
            try:
                found |= make([name])
            except DataError as error:
                left.append(Left(name, first_line(error)))
        return found, left


def _same(edition: Edition, name: str, row: NDArray[np.float64]) -> bool:
    """Return whether a class of an edition has these attributes."""
    known = edition.model.class_attributes_[edition.columns[name]]
    return bool(np.allclose(known, row, rtol=_SAME, atol=_SAME))


# ---------------------------------------------------------------------- examples
def _growth(
    source: Source, served: ServedModel, facts: ModelFacts, moving: set[str]
) -> tuple[dict[str, ExampleSums], list[Left]]:
    """Return what classes of the new model grow by, and whose examples are left behind.

    A class that has grown there already does not grow by the same examples again.
    """
    edition = served.current()
    added = {entry.name for entry in source.state.entries}
    growing, left = {}, []
    for old_name, sums in sorted(source.state.growth.items()):
        try:
            name = edition.canonical(old_name)
        except DataError as error:
            left.append(Left(old_name, first_line(error)))
            continue
        if name in edition.n_examples:
            continue
        if old_name in added and name in edition.learned:
            left.append(Left(old_name, "the new model has learned the class itself"))
            continue
        if name not in moving and name not in edition.columns:
            left.append(Left(old_name, "the new model does not have the class"))
            continue
        obstacle = _obstacle(sums, served, source.facts, facts)
        if obstacle is not None:
            left.append(Left(old_name, obstacle))
            continue
        growing[name] = sums
    return growing, left


def _obstacle(
    sums: ExampleSums, served: ServedModel, old: ModelFacts | None, new: ModelFacts
) -> str | None:
    """Say why a model cannot take over examples; None where it can."""
    model = served._base
    if not model.can_grow:
        return f"{type(model).__name__} cannot learn from more examples once it is fitted"
    difference = None if old is None else new.feature_difference(old)
    if sums.n_features != model.n_features_in_:
        difference = f"have {sums.n_features} features, and the model reads {model.n_features_in_}"
    if difference is not None:
        return f"they {difference}"
    try:
        for feature_map in model._transfer.spaces:
            sums.sums_under(feature_map)
    except DataError as error:
        return first_line(error)
    return None
