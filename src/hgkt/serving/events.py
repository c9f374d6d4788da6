"""The event log of the classes: what a change is, what it may be, and the table it leads to.

A change of classes is a list of events, one per class. Functions here make the events of a change
from the table of classes as it is, and refuse a change that cannot be; `replay` makes the next
table from them, and is the only reader of events. Nothing here knows the database, the model or
HTTP.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_class_name, refuse_twin, twin_key
from hgkt.exceptions import DataError, HGKTError
from hgkt.statistics import ExampleSums

EventKind = Literal["add", "remove", "edit", "rename", "grow", "rollback"]
MAX_REASON = 1000
_PLACES = 2**20  # of one change: a class's place is its change's and its own there


# ---------------------------------------------------------------------- what can be wrong
class ClassExistsError(HGKTError, ValueError):
    """A class was to be added under a name that is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"class {name!r} is there already")
        self.name = name


class UnknownClassError(HGKTError, ValueError):
    """A class was asked for or to be changed that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no class {name!r}")
        self.name = name


class ClassLearnedError(HGKTError, ValueError):
    """A class was to be removed or edited that the model learned from instances."""

    def __init__(self, name: str, change: str = "removed") -> None:
        super().__init__(f"class {name!r} was learned from instances and cannot be {change}")
        self.name = name


class NoGrowthError(HGKTError, ValueError):
    """Examples were sent to a model that cannot take them in."""


class UnknownItemError(HGKTError, ValueError):
    """An item was asked for that is not kept."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no item {name!r} is kept")


class UnknownRevisionError(HGKTError, ValueError):
    """A revision was asked for that the log does not lead to."""

    def __init__(self, revision: int, newest: int) -> None:
        super().__init__(f"revision {revision} cannot be had; the newest is {newest}")


# ---------------------------------------------------------------------- values
@dataclass(frozen=True)
class ClassEntry:
    """One added class.

    Parameters
    ----------
    name : str
        Its name; a label that is a number as text.
    attributes : ndarray of shape (n_attributes,)
        Attribute vector, float64; empty where the class is only named.
    text : str, optional
        The description that it was made from.
    added_at : str
        Time in ISO 8601, UTC; filled in by the registry.
    place : int
        By which classes are ordered; filled in by the registry.
    """

    name: str
    attributes: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    text: str | None = None
    added_at: str = ""
    place: int = field(repr=False, default=0)

    def same_as(self, other: ClassEntry | None) -> bool:
        """Return whether two entries agree in everything, bit by bit."""
        return other is self or (
            other is not None
            and (self.name, self.text, self.added_at, self.place)
            == (other.name, other.text, other.added_at, other.place)
            and self.attributes.tobytes() == other.attributes.tobytes()
        )


@dataclass(frozen=True)
class Origin:
    """By whom and why a change is made.

    Parameters
    ----------
    who : str, optional
        An id of whoever asks for it, up to 32 characters; never a secret.
    reason : str, optional
        Why, in words; up to 1,000 characters.
    """

    who: str | None = None
    reason: str | None = None

    def check(self) -> None:
        """Refuse what no database could hold."""
        for what, text, most in (("who", self.who, 32), ("the reason", self.reason, MAX_REASON)):
            if text is not None:
                _check_text(text, what)
                if len(text) > most:
                    raise DataError(f"{what} has {len(text)} characters; at most {most} are kept")


NOBODY = Origin()


@dataclass(frozen=True)
class ClassEvent:
    """One line of the log: what a change did to one class.

    Parameters
    ----------
    kind : {"add", "remove", "edit", "rename", "grow", "rollback"}
        What happened. A rollback begins with a line without a name, and has one for each class
        that it changed.
    entry : ClassEntry
        The class afterwards; only its name where it was removed or has grown.
    before : ClassEntry, optional
        The class before, as far as that was known.
    present : bool
        Whether `entry` is a class of the registry afterwards.
    hidden : bool
        Whether a class of the model folder that had the name counts no more.
    n_before, n_examples : int
        How many examples the class had grown by before and afterwards.
    sums : ExampleSums, optional
        What the examples of this change add; in a rollback, all that the class has.
    target : int, optional
        The revision that a rollback went back to.
    revision : int
        The change that it belongs to; filled in by the registry, as are origin and time.
    origin : Origin
        Who and why.
    created_at : str
        When, ISO 8601 in UTC.
    """

    kind: EventKind
    entry: ClassEntry
    before: ClassEntry | None = None
    present: bool = True
    hidden: bool = False
    n_before: int = 0
    n_examples: int = 0
    sums: ExampleSums | None = field(default=None, repr=False)
    target: int | None = None
    revision: int = 0
    origin: Origin = NOBODY
    created_at: str = ""

    @property
    def old_name(self) -> str:
        """The name that the class had before."""
        return self.entry.name if self.before is None else self.before.name


@dataclass(frozen=True)
class ClassTable:
    """The classes of the registry at one revision.

    Parameters
    ----------
    revision : int
        Number of changes so far.
    classes : mapping of str to ClassEntry
        Added classes by name, in the order they came.
    removed : frozenset of str
        Classes of the model folder that were removed or have another name now.
    growth : mapping of str to ExampleSums
        What classes, added or learned, have grown by.
    digest : str
        Digest of all events that led here.
    """

    revision: int = 0
    classes: Mapping[str, ClassEntry] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    growth: Mapping[str, ExampleSums] = field(default_factory=dict)
    digest: str = ""

    @property
    def entries(self) -> tuple[ClassEntry, ...]:
        """Added classes in the order they came."""
        return tuple(self.classes.values())

    def n_examples(self, name: str) -> int:
        """Return how many examples a class has grown by."""
        return self.growth[name].n_examples if name in self.growth else 0


# ---------------------------------------------------------------------- the one interpreter
def replay(
    table: ClassTable, log: Iterable[ClassEvent], digest: str = ""
) -> tuple[ClassTable, dict[str, ExampleSums] | None]:
    """Return the table that events lead to, and what classes grew by on the way.

    None in the place of growth where a rollback took sums away.

    Parameters
    ----------
    table : ClassTable
        The classes before.
    log : iterable of ClassEvent
        What happened, in order.
    digest : str
        Digest of all events up to the last of them.

    Examples
    --------
    >>> first, _ = replay(ClassTable(), [ClassEvent("add", ClassEntry("zebra"), revision=1)])
    >>> line = ClassEvent("rename", ClassEntry("quagga"), before=ClassEntry("zebra"), revision=2)
    >>> second, _ = replay(first, [line])
    >>> list(second.classes), second.revision
    (['quagga'], 2)
    """
    classes, removed = dict(table.classes), set(table.removed)
    growth, grown = dict(table.growth), dict[str, ExampleSums]()
    revision, went_back = table.revision, False
    for event in log:
        name, old, revision = event.entry.name, event.old_name, event.revision
        if event.kind == "grow":
            if event.sums is not None:
                growth[name] = _merged(growth.get(name), event.sums)
                grown[name] = _merged(grown.get(name), event.sums)
            continue
        classes.pop(old, None)
        sums, more = growth.pop(old, None), grown.pop(old, None)
        if event.kind == "rollback":  # the class is as the line says, whatever it was
            removed.discard(old)
            sums, more, went_back = event.sums, None, True
        elif event.kind in ("add", "remove"):
            sums, more = None, None
        if event.hidden:
            removed.add(old)
        if event.present:
            classes[name] = event.entry
        if sums is not None:
            growth[name] = sums
        if more is not None:
            grown[name] = more
    ordered = dict(sorted(classes.items(), key=lambda item: item[1].place))
    made = ClassTable(
        revision,
        MappingProxyType(ordered),
        frozenset(removed),
        MappingProxyType(growth),
        digest,
    )
    return made, None if went_back else grown


def _merged(known: ExampleSums | None, more: ExampleSums) -> ExampleSums:
    return more if known is None else known.merge(more)


# ---------------------------------------------------------------------- changes
@dataclass(frozen=True)
class FolderClasses:
    """The classes that a model folder brings.

    Parameters
    ----------
    learned : frozenset of str
        Those that it learned from instances: they may grow, and stay as they are.
    added : mapping of str to ClassEntry
        Those that were added before it was saved. They count as long as the table of the registry
        neither has them itself nor names them as removed.
    """

    learned: frozenset[str] = frozenset()
    added: Mapping[str, ClassEntry] = field(default_factory=dict)

    def beside(self, table: ClassTable) -> dict[str, ClassEntry]:
        """Return the added ones that count beside those of a table."""
        gone = table.classes.keys() | table.removed
        return {name: entry for name, entry in self.added.items() if name not in gone}

    def names(self, table: ClassTable) -> set[str]:
        """Return the names of all classes of the model: of its folder, and of a table."""
        return {*self.learned, *self.beside(table), *table.classes}

    def find(self, table: ClassTable, name: str, change: str) -> ClassEntry:
        """Return an added class as it is, to be changed; refuse one that was learned."""
        if name in self.learned:
            raise ClassLearnedError(name, change)
        if name in table.classes:
            return table.classes[name]
        if not self.hides(table, name):
            raise UnknownClassError(name)
        return self.added[name]

    def hides(self, table: ClassTable, name: str) -> bool:
        """Return whether the folder has an added class that counts no more without its name."""
        return name in self.added and name not in table.removed


NO_FOLDER = FolderClasses()


def add_events(
    table: ClassTable,
    folder: FolderClasses,
    entries: Sequence[ClassEntry],
    sums: Mapping[str, ExampleSums] = MappingProxyType({}),
) -> list[ClassEvent]:
    """Return the events that add classes, and let these or others grow by the sums of examples."""
    _refuse_none([*entries, *sums])
    _check_entries(table, folder, entries)
    free = {*folder.learned, *(entry.name for entry in entries)}
    for name in sums:
        if name not in free:
            folder.find(table, name, "grown")
    grown = [
        ClassEvent(
            "grow",
            ClassEntry(name),
            present=False,
            n_before=table.n_examples(name),
            n_examples=table.n_examples(name) + more.n_examples,
            sums=more,
        )
        for name, more in sums.items()
    ]
    return [*(ClassEvent("add", entry) for entry in entries), *grown]


def remove_events(
    table: ClassTable, folder: FolderClasses, names: Sequence[str]
) -> list[ClassEvent]:
    """Return the events that remove classes, with what they have grown by."""
    names = list(dict.fromkeys(names))
    _refuse_none(names)
    return [
        ClassEvent(
            "remove",
            ClassEntry(name),
            before=folder.find(table, name, "removed"),
            present=False,
            hidden=folder.hides(table, name),
            n_before=table.n_examples(name),
        )
        for name in names
    ]


def edit_events(
    table: ClassTable, folder: FolderClasses, wanted: Mapping[str, ClassEntry | str]
) -> list[ClassEvent]:
    """Return the events that give classes another description, or another name where it is text."""
    _refuse_none(wanted)
    before = {name: folder.find(table, name, "edited") for name in wanted}
    after = {
        name: replace(before[name], name=new) if isinstance(new, str) else new
        for name, new in wanted.items()
    }
    _check_entries(table, folder, list(after.values()), wanted)
    events = []
    for name, new in after.items():
        old, count = before[name], table.n_examples(name)
        entry = replace(new, added_at=old.added_at, place=old.place)
        events.append(
            ClassEvent(
                "rename"
                if name != new.name and entry.same_as(replace(old, name=new.name))
                else "edit",
                entry,
                before=old,
                hidden=entry.name != name and folder.hides(table, name),
                n_before=count,
                n_examples=count,
            )
        )
    return events


def rollback_events(now: ClassTable, then: ClassTable) -> list[ClassEvent]:
    """Return the events that make an earlier table of today's, one per class that differs."""
    lines = [ClassEvent("rollback", ClassEntry(""), present=False, target=then.revision)]
    hidden = sorted(now.removed | then.removed)
    names = (*then.classes, *now.classes, *hidden, *now.growth, *then.growth)
    for name in dict.fromkeys(names):
        old, new = now.classes.get(name), then.classes.get(name)
        grown, target = now.growth.get(name), then.growth.get(name)
        if (
            (new is old if new is None else new.same_as(old))
            and (name in now.removed) == (name in then.removed)
            and _octets(grown) == _octets(target)
        ):
            continue
        lines.append(
            ClassEvent(
                "rollback",
                ClassEntry(name) if new is None else new,
                before=old,
                present=new is not None,
                hidden=name in then.removed,
                n_before=now.n_examples(name),
                n_examples=then.n_examples(name),
                sums=target,
                target=then.revision,
            )
        )
    return lines


def stamp_events(
    events: Iterable[ClassEvent], revision: int, origin: Origin = NOBODY, now: str = ""
) -> list[ClassEvent]:
    """Return events with the revision, the origin and the time of their change."""
    origin.check()
    stamped = []
    for number, event in enumerate(events):
        entry = event.entry
        if event.present:
            place = entry.place or revision * _PLACES + number
            entry = replace(entry, added_at=entry.added_at or now, place=place)
        stamped.append(
            replace(event, entry=entry, revision=revision, origin=origin, created_at=now)
        )
    return stamped


def utc_now(ago: timedelta = timedelta(0)) -> str:
    """Return the time, now or earlier, as the registry writes it: ISO 8601, UTC, milliseconds."""
    return (datetime.now(UTC) - ago).isoformat(timespec="milliseconds")


# ---------------------------------------------------------------------- checks
def _check_entries(
    table: ClassTable,
    folder: FolderClasses,
    entries: Sequence[ClassEntry],
    leaving: Collection[str] = (),
) -> None:
    """Refuse classes that no database could hold, or whose name is taken, or nearly so.

    Classes that are `leaving` are those that the entries take the place of, each its own.
    """
    present = folder.names(table)
    own = dict(zip(leaving, (entry.name for entry in entries), strict=False))
    known = {twin_key(name): name for name in present.difference(leaving)}
    names = set()
    for entry in entries:
        name = entry.name
        check_class_name(name)
        if name in names:
            raise DataError(f"class {name!r} was given twice")
        names.add(name)
        if name in present and own.get(name) != name:
            raise ClassExistsError(name)
        refuse_twin(name, known.setdefault(twin_key(name), name))
        if entry.attributes.ndim != 1 or not np.isfinite(entry.attributes).all():
            raise DataError(f"the attributes of class {name!r} must be a vector of finite numbers")
        if entry.text is not None:
            _check_text(entry.text, f"the text of class {name!r}")


def _check_text(text: str, what: str) -> None:
    if any(character == "\0" or unicodedata.category(character) == "Cs" for character in text):
        raise DataError(f"{what} is not valid Unicode text")


def _refuse_none(given: Collection[object]) -> None:
    if not given:
        raise DataError("no class was given; at least one is expected")


def _octets(sums: ExampleSums | None) -> bytes | None:
    return None if sums is None else sums.to_bytes()
