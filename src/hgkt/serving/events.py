"""The history of the classes: what happened, by whom and why, and the state that it leads to.

These types know neither the database nor HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from hgkt.exceptions import DataError
from hgkt.serving.entries import ClassEntry, check_text
from hgkt.statistics import ExampleSums

EventKind = Literal["add", "remove", "edit", "rename", "grow", "rollback", "snapshot"]
MAX_REASON = 1000


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
                check_text(text, what)
                if len(text) > most:
                    raise DataError(f"{what} has {len(text)} characters; at most {most} are kept")


NOBODY = Origin()


@dataclass(frozen=True)
class ClassEvent:
    """One line of the registry's log: what a change did to one class.

    Parameters
    ----------
    revision : int
        The change that it belongs to.
    kind : {"add", "remove", "edit", "rename", "grow", "rollback", "snapshot"}
        What happened. A rollback begins with a line without a name, and has one for each class
        that it changed. A snapshot stands at the beginning of a log that was pruned.
    entry : ClassEntry
        The class afterwards; only its name where it was removed or has grown.
    before : ClassEntry, optional
        The class before, as far as that was known.
    there : bool
        Whether `entry` is a class of the registry afterwards.
    hides : bool, optional
        Whether a class of the model folder that had the name counts no more; None where a
        release before the third version of the tables did not say.
    n_before, n_examples : int
        How many examples the class had grown by before and afterwards.
    sums : ExampleSums, optional
        What the examples of this change add; in a rollback and a snapshot, all that the class has.
    target : int, optional
        The revision that a rollback went back to.
    origin : Origin
        Who and why.
    created_at : str
        When, ISO 8601 in UTC.
    """

    revision: int
    kind: EventKind
    entry: ClassEntry
    before: ClassEntry | None = None
    there: bool = True
    hides: bool | None = None
    n_before: int = 0
    n_examples: int = 0
    sums: ExampleSums | None = field(default=None, repr=False)
    target: int | None = None
    origin: Origin = NOBODY
    created_at: str = ""

    @property
    def old_name(self) -> str:
        """The name that the class had before."""
        return self.entry.name if self.before is None else self.before.name


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
    growth : mapping of str to ExampleSums
        What classes, added or seen, have grown by.
    """

    revision: int
    entries: tuple[ClassEntry, ...]
    removed: frozenset[str]
    growth: Mapping[str, ExampleSums] = field(default_factory=lambda: MappingProxyType({}))

    def same_classes(self, other: RegistryState) -> bool:
        """Return whether two states hold the same classes, whenever these came."""
        return self._content() == other._content()

    def _content(self) -> tuple[object, ...]:
        entries = [(e.name, e.attributes.tobytes(), e.text) for e in self.entries]
        counts = {name: sums.n_examples for name, sums in self.growth.items()}
        return entries, self.removed, counts


NOTHING = RegistryState(0, (), frozenset())
"""The state of revision 0."""


class Ledger:
    """Follows a log, line by line.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.follow([ClassEvent(1, "add", ClassEntry("zebra"))])
    >>> after = ClassEvent(2, "rename", ClassEntry("quagga"), before=ClassEntry("zebra"))
    >>> ledger.follow([after])
    >>> [entry.name for entry in ledger.state(2).entries]
    ['quagga']
    """

    def __init__(self) -> None:
        self._entries: dict[str, ClassEntry] = {}
        self._removed: set[str] = set()
        self._growth: dict[str, ExampleSums] = {}

    def follow(self, log: Iterable[ClassEvent]) -> None:
        """Apply the lines of a log, in order."""
        for event in log:
            if event.kind in ("rollback", "snapshot"):
                self._put(event)
            elif event.kind == "grow":
                self._grow(event)
            elif event.kind == "remove":
                self._leave(event)
            else:
                self._enter(event)

    def state(self, revision: int) -> RegistryState:
        """Return where the lines so far lead to, as the state of `revision`."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.place)
        growth = MappingProxyType(dict(self._growth))
        return RegistryState(revision, tuple(entries), frozenset(self._removed), growth)

    def _enter(self, event: ClassEvent) -> None:
        """A class was added, edited or renamed."""
        sums = self._growth.pop(event.old_name, None)
        if event.kind != "add":
            self._entries.pop(event.old_name, None)
            if sums is not None:
                self._growth[event.entry.name] = sums
        if event.hides:
            self._removed.add(event.old_name)
        self._entries[event.entry.name] = event.entry

    def _leave(self, event: ClassEvent) -> None:
        name = event.entry.name
        known = self._entries.pop(name, None)
        self._growth.pop(name, None)
        if event.hides or (event.hides is None and known is None):
            self._removed.add(name)

    def _grow(self, event: ClassEvent) -> None:
        if event.sums is not None:
            known = self._growth.get(event.entry.name)
            sums = event.sums if known is None else known.merge(event.sums)
            self._growth[event.entry.name] = sums

    def _put(self, event: ClassEvent) -> None:
        """A class is as the line says, whatever it was."""
        name = event.entry.name
        self._entries.pop(name, None)
        self._growth.pop(name, None)
        self._removed.discard(name)
        if event.there:
            self._entries[name] = event.entry
        if event.hides:
            self._removed.add(name)
        if event.sums is not None:
            self._growth[name] = event.sums


def differences(now: RegistryState, then: RegistryState) -> list[ClassEvent]:
    """Return the lines of a rollback that make `then` of `now`, one per class that differs."""
    lines = []
    before = {entry.name: entry for entry in now.entries}
    after = {entry.name: entry for entry in then.entries}
    names = dict.fromkeys((*after, *before, *sorted(now.removed | then.removed)))
    for name in dict.fromkeys((*names, *now.growth, *then.growth)):
        old, new = before.get(name), after.get(name)
        grown, shrunk = now.growth.get(name), then.growth.get(name)
        n_before = 0 if grown is None else grown.n_examples
        n_examples = 0 if shrunk is None else shrunk.n_examples
        hidden = name in then.removed
        if _same_entry(old, new) and hidden == (name in now.removed) and _same_sums(grown, shrunk):
            continue
        lines.append(
            ClassEvent(
                then.revision,
                "rollback",
                ClassEntry(name) if new is None else new,
                before=old,
                there=new is not None,
                hides=hidden,
                n_before=n_before,
                n_examples=n_examples,
                sums=shrunk,
                target=then.revision,
            )
        )
    return lines


def _same_entry(one: ClassEntry | None, other: ClassEntry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.same_as(other)


def _same_sums(one: ExampleSums | None, other: ExampleSums | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.to_bytes() == other.to_bytes()
