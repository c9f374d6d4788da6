"""The classes that were added to a served model: an event log that several processes share."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self, TypedDict, Unpack

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from hgkt._files import sha256
from hgkt.exceptions import DataError, HGKTError
from hgkt.serving import database as db
from hgkt.serving.database import Database, FileId, RegistryError
from hgkt.serving.events import (
    NOBODY,
    ClassEntry,
    ClassEvent,
    ClassTable,
    Origin,
    UnknownRevisionError,
    add_events,
    edit_events,
    grow_events,
    remove_events,
    replay,
    rollback_events,
    stamp_events,
    utc_now,
)
from hgkt.statistics import ExampleSums

KEPT = timedelta(days=1)
"""How long an idempotency key is remembered."""

_LOG = db.events
_LISTED = tuple(column for column in _LOG.columns if column.name != "sums")


# ---------------------------------------------------------------------- requests
@dataclass(frozen=True)
class Receipt:
    """What a change did, as its first answer said it.

    Parameters
    ----------
    revision : int
        The change's number.
    names : tuple of str
        The classes that were changed, by the names that they have now.
    n_added : int
        How many added classes the model had afterwards, grown ones among them.
    doubts : tuple of str
        What was doubtful about them.
    n_examples : int
        How many examples a class that was changed had grown by then.
    """

    revision: int
    names: tuple[str, ...]
    n_added: int
    doubts: tuple[str, ...] = ()
    n_examples: int = 0


@dataclass(frozen=True)
class KeyedRequest:
    """A request with an idempotency key: made once, answered again.

    Parameters
    ----------
    key : str
        What the client calls it.
    fingerprint : str
        Digest of what it asks for.

    Examples
    --------
    >>> first, second = (KeyedRequest.of("k1", "DELETE", name) for name in ("zebra", "horse"))
    >>> first.fingerprint == second.fingerprint
    False
    """

    key: str
    fingerprint: str

    @classmethod
    def of(cls, key: str, *content: str) -> Self:
        """Make the request of its key and all that it asks for."""
        return cls(key, sha256(json.dumps(content)))


class Asked(TypedDict, total=False):
    """By what a change is asked for: who and why, and by a request with an idempotency key.

    A request that was answered before changes nothing and raises `AnsweredError`.
    """

    request: KeyedRequest | None
    origin: Origin


class Written(Asked, total=False):
    """What a registry takes besides; see `ClassRegistry`."""

    saved: Collection[str]
    doubts: Sequence[str]


class AnsweredError(HGKTError):
    """A change was made already, under the same key; its receipt can be had."""

    def __init__(self, request: KeyedRequest) -> None:
        super().__init__(f"the request with the idempotency key {request.key!r} was answered")


@dataclass(frozen=True)
class KnownModel:
    """A model that has classes in a database, or had some.

    Parameters
    ----------
    model_id : str
        Its identity.
    table : ClassTable
        Its classes.
    changed_at : str or None
        When the last change was, ISO 8601, UTC.
    facts : str or None
        What is known of it, as JSON.
    """

    model_id: str
    table: ClassTable
    changed_at: str | None
    facts: str | None


class ClassRegistry:
    """The event log of one model's classes in SQLite or PostgreSQL.

    A change is one transaction: all of it is there or nothing, it is on disk when the call returns,
    and changes of all processes come one after another, counted by the revision. Every event
    carries a digest of itself and the event before it, so that a damaged log is noticed. Instances
    may be shared between threads.

    Every change takes, by keyword, what `Asked` has; `saved`: the added classes that the model
    folder itself holds, whose names are taken as long as they were not removed here (a mapping to
    their entries where they are to be edited, renamed or shown in the log); and `doubts`: what is
    doubtful about it, for the receipt.

    Parameters
    ----------
    url : str or Database
        ``sqlite:///file`` or ``postgresql://user:password@host/database``; or one that is open.
    model_id : str
        Which model the classes belong to; see `model_identity`.
    file : tuple of (str, int, int), optional
        Path, device and number that a SQLite file must have; see `Database.file`.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> registry = ClassRegistry(f"sqlite:///{folder.name}/classes.sqlite", "some model")
    >>> registry.add([ClassEntry("zebra", np.array([0.5, 1.0]))])
    1
    >>> registry.add([ClassEntry("zebra", np.array([0.5, 1.0]))])
    Traceback (most recent call last):
    hgkt.serving.events.ClassExistsError: class 'zebra' is there already
    >>> registry.edit({"zebra": "quagga"}, origin=Origin("ann", "it is extinct"))
    2
    >>> registry.remove(["quagga"]), registry.table().entries
    (3, ())
    >>> registry.rollback(2), list(registry.table().classes)
    (4, ['quagga'])
    >>> [(event.revision, event.kind, event.origin.reason) for event in registry.events(after=1)]
    [(2, 'rename', 'it is extinct'), (3, 'remove', None), (4, 'rollback', None), \
(4, 'rollback', None)]
    >>> registry.close(); folder.cleanup()
    """

    def __init__(self, url: str | Database, model_id: str, file: FileId | None = None) -> None:
        self.model_id = model_id
        self.database = url if isinstance(url, Database) else Database(url, file)
        self._known = ClassTable()

    @property
    def place(self) -> str:
        """Where the registry is, without passwords."""
        return self.database.place

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    # ------------------------------------------------------------------ reading
    def revision(self) -> int:
        """Return the number of changes so far."""
        return self.head()[0]

    def head(self) -> tuple[int, str]:
        """Return the number of changes so far, and the digest of them all."""
        with self.database.reading() as connection:
            return self._head(connection)

    def table(self) -> ClassTable:
        """Return the classes as they are now."""
        with self.database.reading() as connection:
            return self._table(connection)

    def table_at(self, revision: int) -> ClassTable:
        """Return the classes right after a change; 0 is before the first one.

        Raises `UnknownRevisionError` where there is no such revision yet.
        """
        with self.database.reading() as connection:
            return self._table_at(connection, revision)

    def follow(self, known: ClassTable) -> tuple[ClassTable, dict[str, ExampleSums] | None]:
        """Return the classes as they are now, and what they grew by since a table.

        None in the place of growth where the log does not lead from that table to today's: the
        database was replaced by another history.
        """
        with self.database.reading() as connection:
            return self._follow(connection, known)

    def events_after(self, revision: int) -> list[ClassEvent]:
        """Return what happened after `revision`, the last one known, in order."""
        with self.database.reading() as connection:
            return [line for line in self._whole_log(connection) if line.revision > revision]

    def events(self, after: int = 0, limit: int = 100, name: str | None = None) -> list[ClassEvent]:
        """Return lines of the log after a revision, in order, without the sums of examples.

        Parameters
        ----------
        after : int
            The last revision that is known.
        limit : int
            The most lines, but for a single change with more of them: changes come whole.
        name : str, optional
            Only lines of a class that has or had this name.
        """
        wanted = [_LOG.c.model_id == self.model_id, _LOG.c.revision > after]
        if name is not None:
            wanted.append(sa.or_(_LOG.c.name == name, _LOG.c.old_name == name))
        numbers = sa.select(_LOG.c.revision).where(*wanted).order_by(_LOG.c.revision)
        with self.database.reading() as connection:
            found = connection.execute(numbers.limit(limit + 1)).scalars().all()
            if not found:
                return []
            last = found[-1]
            if len(found) > limit and last != found[0]:
                last = max(number for number in found if number < last)
            query = sa.select(*_LISTED).where(*wanted, _LOG.c.revision <= last)
            rows = connection.execute(query.order_by(_LOG.c.revision, _LOG.c.position)).all()
            return [self._event(row) for row in rows]

    def receipt(self, request: KeyedRequest) -> Receipt | None:
        """Return what a request was answered before, within a day; None for a new one."""
        with self.database.reading() as connection:
            return self._receipt(connection, request)

    def known_models(self) -> list[KnownModel]:
        """Return all models of the database, the one that changed last first."""
        last = sa.select(sa.func.max(_LOG.c.created_at))
        found = []
        with self.database.reading() as connection:
            for row in connection.execute(sa.select(db.models)).all():
                own = ClassRegistry(self.database, row.model_id)
                table, _ = own._follow(connection, ClassTable())
                changed_at = connection.execute(
                    last.where(_LOG.c.model_id == row.model_id)
                ).scalar()
                found.append(KnownModel(row.model_id, table, changed_at, row.facts))
        return sorted(found, key=lambda one: one.changed_at or "", reverse=True)

    # ------------------------------------------------------------------ changing
    def add(self, entries: Sequence[ClassEntry], **asked: Unpack[Written]) -> int:
        """Add classes, all or nothing; return the revision that has them."""
        saved = asked.get("saved", ())
        return self.change(lambda table: add_events(table, entries, saved), **asked)

    def remove(self, names: Sequence[str], **asked: Unpack[Written]) -> int:
        """Remove classes with what they have grown by, all or nothing; return the revision.

        Classes of the model folder are remembered as removed.
        """
        saved = asked.get("saved", ())
        return self.change(lambda table: remove_events(table, names, saved), **asked)

    def edit(self, entries: Mapping[str, ClassEntry | str], **asked: Unpack[Written]) -> int:
        """Give classes other attributes, another text or another name; return the revision.

        They keep their place and what they have grown by. All or nothing.

        Parameters
        ----------
        entries : mapping of str to ClassEntry or str
            By the name of each class, what it is to be; only another name where that is text.
        **asked
            As for every change.
        """
        saved = asked.get("saved", ())
        return self.change(lambda table: edit_events(table, entries, saved), **asked)

    def grow(
        self,
        sums: Mapping[str, ExampleSums],
        learned: Collection[str] = (),
        **asked: Unpack[Written],
    ) -> int:
        """Take in examples of classes, as their sums, all or nothing; return the revision.

        Parameters
        ----------
        sums : mapping of str to ExampleSums
            What is to be added, by class.
        learned : collection of str
            Classes that the model learned from instances; they may grow too.
        **asked
            As for every change.
        """
        saved = asked.get("saved", ())
        return self.change(lambda table: grow_events(table, sums, saved, learned), **asked)

    def rollback(self, revision: int, **asked: Unpack[Written]) -> int:
        """Make the classes what they were right after a change; return the new revision.

        It is a change like any other, and can be rolled back itself. Raises `UnknownRevisionError`
        where the log does not lead to `revision`.
        """
        with self.database.reading() as connection:
            then = self._table_at(connection, revision)
        return self.change(lambda table: rollback_events(table, then), **asked)

    def change(
        self, make: Callable[[ClassTable], list[ClassEvent]], **asked: Unpack[Written]
    ) -> int:
        """Write the events that `make` returns for the table as it is; return the revision.

        Parameters
        ----------
        make : callable
            Makes the events within the transaction, or raises what is wrong with the change.
        **asked
            As for every change.
        """
        request = asked.get("request")
        with self.database.writing() as connection:
            self._lock(connection)
            if request is not None and self._receipt(connection, request) is not None:
                raise AnsweredError(request)
            table, now = self._table(connection), utc_now()
            log = stamp_events(make(table), table.revision + 1, asked.get("origin", NOBODY), now)
            rows, digest = [], table.digest
            for position, event in enumerate(log):
                row = _event_row(event) | {"model_id": self.model_id, "position": position}
                digest = _chained(digest, row)
                rows.append(row | {"digest": digest})
            after, _ = replay(table, log, digest)
            connection.execute(_LOG.insert(), rows)
            connection.execute(
                db.models.update()
                .where(db.models.c.model_id == self.model_id)
                .values(revision=after.revision, digest=digest)
            )
            if request is not None:
                self._keep(connection, request, _receipt_of(after, log, asked), now)
        return after.revision

    def remember(self, facts: str) -> None:
        """Store what is known of the model, as JSON, where that is news."""
        own = db.models.c.model_id == self.model_id
        with self.database.reading() as connection:
            if connection.execute(sa.select(db.models.c.facts).where(own)).scalar() == facts:
                return
        with self.database.writing() as connection:
            self._lock(connection)
            connection.execute(db.models.update().where(own).values(facts=facts))

    # ------------------------------------------------------------------ within a transaction
    def _lock(self, connection: Connection) -> None:
        """Lock this model's row, so that changes come one after another; make it if need be."""
        new = sa.text(
            "INSERT INTO hgkt_models (model_id, revision, digest) VALUES (:model_id, 0, '') "
            "ON CONFLICT DO NOTHING"
        )
        connection.execute(new, {"model_id": self.model_id})
        own = sa.select(db.models.c.revision).where(db.models.c.model_id == self.model_id)
        connection.execute(own.with_for_update())

    def _head(self, connection: Connection) -> tuple[int, str]:
        query = sa.select(db.models.c.revision, db.models.c.digest)
        row = connection.execute(query.where(db.models.c.model_id == self.model_id)).first()
        return (0, "") if row is None else (row.revision, row.digest)

    def _table(self, connection: Connection) -> ClassTable:
        """Return the classes as they are, read on from the last time where that is possible."""
        self._known, _ = self._follow(connection, self._known)
        return self._known

    def _follow(
        self, connection: Connection, known: ClassTable
    ) -> tuple[ClassTable, dict[str, ExampleSums] | None]:
        head = self._head(connection)
        if head == (known.revision, known.digest):
            return known, {}
        log = self._log(connection, known, head)
        if log is None:
            return replay(ClassTable(), self._whole_log(connection), head[1])[0], None
        return replay(known, log, head[1])

    def _table_at(self, connection: Connection, revision: int) -> ClassTable:
        newest = self._head(connection)[0]
        if not 0 <= revision <= newest:
            raise UnknownRevisionError(revision, newest)
        log = [line for line in self._whole_log(connection) if line.revision <= revision]
        return replay(ClassTable(), log)[0]

    def _whole_log(self, connection: Connection) -> list[ClassEvent]:
        log = self._log(connection, ClassTable(), self._head(connection))
        if log is None:
            raise RegistryError("corrupt", self.place)
        return log

    def _log(
        self, connection: Connection, known: ClassTable, head: tuple[int, str]
    ) -> list[ClassEvent] | None:
        """Return the events after a table; None where they do not lead from it to the head."""
        query = sa.select(_LOG).where(
            _LOG.c.model_id == self.model_id, _LOG.c.revision > known.revision
        )
        rows = connection.execute(query.order_by(_LOG.c.revision, _LOG.c.position)).all()
        digest, revision = known.digest, known.revision
        for row in rows:
            if row.digest != _chained(digest, dict(row._mapping)):
                return None
            digest, revision = row.digest, row.revision
        return [self._event(row) for row in rows] if (revision, digest) == head else None

    def _event(self, row: Any) -> ClassEvent:
        try:
            return _class_event(row)
        except (DataError, ValueError, TypeError, msgspec.DecodeError):
            raise RegistryError("corrupt", self.place) from None

    def _receipt(self, connection: Connection, request: KeyedRequest) -> Receipt | None:
        """Return what a request was answered before; refuse another request of its key."""
        query = sa.select(db.requests).where(
            db.requests.c.model_id == self.model_id,
            db.requests.c.key == request.key,
            db.requests.c.created_at > utc_now(KEPT),
        )
        row = connection.execute(query).first()
        if row is None:
            return None
        if row.fingerprint != request.fingerprint:
            raise DataError(
                f"the idempotency key {request.key!r} was sent before with another request; every "
                "request needs a key of its own"
            )
        try:
            return msgspec.json.decode(row.receipt, type=Receipt)
        except msgspec.DecodeError:
            raise RegistryError("corrupt", self.place) from None

    def _keep(
        self, connection: Connection, request: KeyedRequest, receipt: Receipt, now: str
    ) -> None:
        """Remember what a request is answered, and forget those of long ago."""
        known = db.requests
        connection.execute(known.delete().where(known.c.created_at < utc_now(KEPT)))
        row = {
            "model_id": self.model_id,
            "key": request.key,
            "fingerprint": request.fingerprint,
            "receipt": msgspec.json.encode(receipt).decode(),
            "created_at": now,
        }
        connection.execute(known.insert(), [row])


def _receipt_of(table: ClassTable, log: Sequence[ClassEvent], asked: Written) -> Receipt:
    rest = set(asked.get("saved", ())) - table.classes.keys() - table.removed
    names = tuple(event.entry.name for event in log if event.entry.name)
    n_added, doubts = len(table.classes) + len(rest), asked.get("doubts", ())
    return Receipt(table.revision, names, n_added, tuple(doubts), log[-1].n_examples)


# ---------------------------------------------------------------------- rows
def _chained(previous: str, row: Mapping[str, Any]) -> str:
    """Return the digest of an event and the digest before it."""
    digest = hashlib.sha256(previous.encode())
    for column in _LOG.columns:
        if column.name != "digest":
            value = row[column.name]
            content = value if isinstance(value, bytes) else str(value).encode()
            # Kind and length keep apart what would read the same one after the other.
            digest.update(f"|{type(value).__name__} {len(content)} ".encode())
            digest.update(content)
    return digest.hexdigest()


def _event_row(event: ClassEvent) -> dict[str, Any]:
    """Return what the log keeps of one event, but whose it is and its position."""
    document = msgspec.json.encode(replace(event, sums=None), enc_hook=_octets)
    return {
        "revision": event.revision,
        "name": event.entry.name,
        "old_name": event.old_name,
        "document": document.decode(),
        "created_at": event.created_at,
        "sums": None if event.sums is None else event.sums.to_bytes(),
    }


def _class_event(row: Any) -> ClassEvent:
    """Return the event that a row of the log keeps; its sums where they were read too."""
    event = msgspec.json.decode(row.document, type=ClassEvent, dec_hook=_numbers)
    sums = row._mapping.get("sums")
    return event if sums is None else replace(event, sums=ExampleSums.from_bytes(sums))


def _octets(attributes: Any) -> bytes:
    return np.asarray(attributes, dtype="<f8").tobytes()  # which JSON has in base64


def _numbers(_kind: Any, text: str) -> NDArray[np.float64]:
    return np.frombuffer(b64decode(text, validate=True), dtype="<f8").astype(np.float64)
