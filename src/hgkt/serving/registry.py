"""The classes that were added to a served model, in a database that several processes share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hgkt.exceptions import DataError
from hgkt.serving import schema
from hgkt.serving.changes import Change
from hgkt.serving.changing import RegistryChanges
from hgkt.serving.database import RegistryError
from hgkt.serving.entries import ClassEntry, check_entries, utc_now
from hgkt.serving.events import NOBODY, ClassEvent, Origin, differences
from hgkt.serving.idempotency import KeyedRequest
from hgkt.serving.rows import class_row, growth_row
from hgkt.statistics import ExampleSums


class ClassRegistry(RegistryChanges):
    """Added classes of one model in SQLite or PostgreSQL, and what classes have grown by.

    A change is one transaction: all of it is there or nothing, it is on disk when the call returns,
    and changes of all processes come one after another, counted by the revision. Instances may be
    shared between threads.

    Every change takes, by keyword, `saved`: the added classes that the model folder itself holds,
    whose names are taken as long as they were not removed here (a mapping to their entries where
    they are to be edited, renamed or shown in the log); `request`: what asks for it, where it came
    with an idempotency key (one that was answered before changes nothing and raises
    `AnsweredError`); and `origin`: who makes it, and why.

    Parameters
    ----------
    url : str
        ``sqlite:///file`` or ``postgresql://user:password@host/database``.
    model_id : str
        Which model the classes belong to; see `model_identity`.
    file : tuple of (str, int, int), optional
        Path, device and number that a SQLite file must have; see `file`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> folder = tempfile.TemporaryDirectory()
    >>> registry = ClassRegistry(f"sqlite:///{folder.name}/classes.sqlite", "some model")
    >>> registry.add([ClassEntry("zebra", np.array([0.5, 1.0]))])
    1
    >>> registry.add([ClassEntry("zebra", np.array([0.5, 1.0]))])
    Traceback (most recent call last):
    hgkt.serving.entries.ClassExistsError: class 'zebra' is there already
    >>> registry.rename({"zebra": "quagga"}, origin=Origin("ann", "it is extinct"))
    2
    >>> registry.remove(["quagga"]), registry.entries()
    (3, ())
    >>> registry.rollback(2), [entry.name for entry in registry.entries()]
    (4, ['quagga'])
    >>> [(event.revision, event.kind, event.origin.reason) for event in registry.events(after=1)]
    [(2, 'rename', 'it is extinct'), (3, 'remove', None), (4, 'rollback', None), \
(4, 'rollback', None)]
    >>> registry.close(); folder.cleanup()
    """

    # ------------------------------------------------------------------ changing
    def add(
        self,
        entries: Sequence[ClassEntry],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> int:
        """Add classes, all or nothing; return the revision that has them."""
        _refuse_none(entries)
        check_entries(entries)
        names = [entry.name for entry in entries]
        with self._changing(saved, request, origin) as change:
            self._refuse_taken(change, names, saved)
            # What a class of the name grew by that the folder has lost is not this one's.
            grown = self._named_rows(change.connection, schema.growth, names)
            change.delete(schema.growth, list(grown.values()))
            placed = change.placed(entries)
            change.insert(schema.classes, [class_row(entry) for entry in placed])
            change.log([ClassEvent(change.revision, "add", entry) for entry in placed])
        return change.revision

    def remove(
        self,
        names: Sequence[str],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> int:
        """Remove classes with what they have grown by, all or nothing; return the revision.

        Classes of the model folder are remembered as removed.
        """
        names = list(dict.fromkeys(names))
        _refuse_none(names)
        with self._changing(saved, request, origin) as change:
            before, gone = self._known(change, names, saved)
            here = self._named_rows(change.connection, schema.classes, names)
            change.delete(schema.classes, list(here.values()))
            grown = self._named_rows(change.connection, schema.growth, names)
            change.delete(schema.growth, list(grown.values()))
            buried = [name for name in names if name in saved and name not in gone]
            change.insert(schema.removed, [{"name": name} for name in buried])
            change.log(
                [
                    ClassEvent(
                        change.revision,
                        "remove",
                        ClassEntry(name),
                        before=before[name],
                        there=False,
                        hides=name in buried,
                        n_before=grown[name].n_examples if name in grown else 0,
                    )
                    for name in names
                ]
            )
        return change.revision

    def edit(
        self,
        entries: Mapping[str, ClassEntry],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> int:
        """Give classes other attributes, another text or another name; return the revision.

        They keep their place and what they have grown by. All or nothing.

        Parameters
        ----------
        entries : mapping of str to ClassEntry
            By the name of each class, what it is to be.
        saved, request, origin
            As for every change.
        """
        check_entries(list(entries.values()))
        return self._replace(entries, saved, request, origin)

    def rename(
        self,
        names: Mapping[str, str],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> int:
        """Give classes other names, all or nothing; return the revision.

        Parameters
        ----------
        names : mapping of str to str
            The new name by the old one.
        saved, request, origin
            As for every change.
        """
        check_entries([ClassEntry(name) for name in names.values()])
        return self._replace(names, saved, request, origin)

    def grow(
        self,
        sums: Mapping[str, ExampleSums],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
        learned: Collection[str] = (),
    ) -> int:
        """Take in examples of classes, as their sums, all or nothing; return the revision.

        Parameters
        ----------
        sums : mapping of str to ExampleSums
            What is to be added, by class.
        saved, request, origin
            As for every change.
        learned : collection of str
            Classes that the model learned from instances; they may grow too.
        """
        names = list(sums)
        _refuse_none(names)
        with self._changing(saved, request, origin) as change:
            self._known(change, [name for name in names if name not in learned], saved)
            rows = self._named_rows(change.connection, schema.growth, names)
            before = {name: self._sums(row.sums) for name, row in rows.items()}
            after = {
                name: before[name].merge(more) if name in before else more
                for name, more in sums.items()
            }
            change.delete(schema.growth, list(rows.values()))
            change.insert(schema.growth, [growth_row(*item) for item in after.items()])
            change.log(
                [
                    ClassEvent(
                        change.revision,
                        "grow",
                        ClassEntry(name),
                        there=False,
                        n_before=before[name].n_examples if name in before else 0,
                        n_examples=after[name].n_examples,
                        sums=more,
                    )
                    for name, more in sums.items()
                ]
            )
        return change.revision

    # ------------------------------------------------------------------ history
    def rollback(
        self,
        revision: int,
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> int:
        """Make the classes what they were right after a change; return the new revision.

        It is a change like any other, and can be rolled back itself. Raises `UnknownRevisionError`
        where the log does not lead to `revision`.
        """
        with self._changing(saved, request, origin) as change:
            then, now = self._state_at(change.connection, revision)
            if not now.same_classes(self._state(change.connection)):
                raise RegistryError("corrupt", self.place)  # the log is not to be trusted
            lines = differences(now, then)
            names = [line.entry.name for line in lines]
            for table in schema.CONTENT:
                rows = self._named_rows(change.connection, table, names)
                change.delete(table, list(rows.values()))
            change.insert(schema.classes, [class_row(line.entry) for line in lines if line.there])
            change.insert(schema.removed, [{"name": e.entry.name} for e in lines if e.hides])
            change.insert(
                schema.growth,
                [growth_row(e.entry.name, e.sums) for e in lines if e.sums is not None],
            )
            head = ClassEvent(
                change.revision, "rollback", ClassEntry(""), there=False, target=revision
            )
            change.log([head, *lines])
        return change.revision

    def prune(self, revision: int) -> int:
        """Forget how the classes of a revision came about; return how many lines went.

        The log begins with them from then on: no earlier revision can be had. Classes stay as they
        are, and this is no change of them.
        """
        with self._writing() as connection:
            self._lock_model(connection)
            then, _ = self._state_at(connection, revision)
            model = self._model(connection)
            if revision == int(model["oldest"] or 0):
                return 0
            return Change(connection, model, NOBODY, utc_now()).begin_log(then)

    def _replace(
        self,
        wanted: Mapping[str, ClassEntry] | Mapping[str, str],
        saved: Collection[str],
        request: KeyedRequest | None,
        origin: Origin,
    ) -> int:
        """Put other entries, or the same under other names, in the place of classes."""
        names = list(wanted)
        _refuse_none(names)
        with self._changing(saved, request, origin) as change:
            before, gone = self._known(change, names, saved)
            here = self._named_rows(change.connection, schema.classes, names)
            given = [_wanted(name, before[name], new) for name, new in wanted.items()]
            news = [new.name for name, new in zip(names, given, strict=True) if new.name != name]
            self._refuse_taken(change, news, saved)
            kept = [
                replace(new, added_at=here[name].added_at, place=here[name].place or 0)
                if name in here
                else replace(new, added_at="", place=0)
                for name, new in zip(names, given, strict=True)
            ]
            after = dict(zip(names, change.placed(kept), strict=True))
            change.delete(schema.classes, list(here.values()))
            change.insert(schema.classes, [class_row(entry) for entry in after.values()])
            grown = self._named_rows(change.connection, schema.growth, names)
            moved = [row for name, row in grown.items() if after[name].name != name]
            change.delete(schema.growth, moved)
            change.insert(
                schema.growth,
                [growth_row(after[row.name].name, self._sums(row.sums)) for row in moved],
            )
            hidden = {name for name in names if after[name].name != name and name in saved} - gone
            change.insert(schema.removed, [{"name": name} for name in names if name in hidden])
            lines = []
            for name, entry in after.items():
                n_examples = grown[name].n_examples if name in grown else 0
                lines.append(
                    ClassEvent(
                        change.revision,
                        "rename" if _renamed_only(before[name], entry) else "edit",
                        entry,
                        before=before[name],
                        hides=name in hidden,
                        n_before=n_examples,
                        n_examples=n_examples,
                    )
                )
            change.log(lines)
        return change.revision


def _refuse_none(names: Sequence[Any]) -> None:
    if not names:
        raise DataError("no class was given; at least one is expected")


def _wanted(name: str, before: ClassEntry | None, new: ClassEntry | str) -> ClassEntry:
    """Return what a class is to be: another entry, or the same under another name."""
    if not isinstance(new, str):
        return new
    if before is None:
        raise DataError(f"class {name!r} is one of the model folder, and its entry is not known")
    return replace(before, name=new)


def _renamed_only(before: ClassEntry | None, after: ClassEntry) -> bool:
    return (
        before is not None
        and before.name != after.name
        and before.text == after.text
        and (before.attributes.tobytes() == after.attributes.tobytes())
    )
