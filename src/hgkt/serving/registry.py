"""The classes that were added to a served model: an event log that several processes share."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self, TypedDict

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from hgkt._files import sha256
from hgkt.exceptions import DataError
from hgkt.serving import database as db
from hgkt.serving.database import Database, FileId, RegistryError
from hgkt.serving.events import (
    NO_FOLDER,
    NOBODY,
    ClassEvent,
    ClassTable,
    FolderClasses,
    Origin,
    UnknownRevisionError,
    replay,
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
    n_classes : int
        How many classes the model had afterwards.
    doubts : tuple of str
        What was doubtful about them.
    n_examples : int
        How many examples a class that was changed had grown by then.
    """

    revision: int
    names: tuple[str, ...]
    n_classes: int
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
    """By what a change is asked for: who and why, and by a request with an idempotency key."""

    request: KeyedRequest | None
    origin: Origin


Planned = tuple[Sequence[ClassEvent], Sequence[str]]
"""The events of a change, and what is doubtful about it, in sentences."""


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

    Parameters
    ----------
    url : str or Database
        ``sqlite:///file`` or ``postgresql://user:password@host/database``; or one that is open.
    model_id : str
        Which model the classes belong to; see `model_identity`.
    file : tuple of (str, int, int), optional
        Path, device and number that a SQLite file must have; see `Database.file`.
    folder : FolderClasses
        The classes of the model folder, whose names are taken too.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.serving.events import ClassEntry, add_events, remove_events
    >>> place = tempfile.TemporaryDirectory()
    >>> registry = ClassRegistry(f"sqlite:///{place.name}/classes.sqlite", "some model")
    >>> zebra = ClassEntry("zebra", np.array([0.5, 1.0]))
    >>> registry.change(lambda table: (add_events(table, registry.folder, [zebra]), []))
    Receipt(revision=1, names=('zebra',), n_classes=1, doubts=(), n_examples=0)
    >>> registry.change(
    ...     lambda table: (remove_events(table, registry.folder, ["zebra"]), []),
    ...     origin=Origin("ann", "it is extinct"),
    ... ).revision
    2
    >>> list(registry.table().classes), list(registry.table_at(1).classes)
    ([], ['zebra'])
    >>> [(event.revision, event.kind, event.origin.reason) for event in registry.events()]
    [(1, 'add', None), (2, 'remove', 'it is extinct')]
    >>> registry.close(); place.cleanup()
    """

    def __init__(
        self,
        url: str | Database,
        model_id: str,
        file: FileId | None = None,
        folder: FolderClasses = NO_FOLDER,
    ) -> None:
        self.model_id, self.folder = model_id, folder
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
    def change(
        self,
        make: Callable[[ClassTable], Planned],
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> Receipt:
        """Write the events that `make` returns for the table as it is; return what was done.

        A request that was answered before changes nothing, and is answered as it was then.

        Parameters
        ----------
        make : callable
            Makes the change within the transaction, or raises what is wrong with it.
        request : KeyedRequest, optional
            What asks for it.
        origin : Origin
            Who and why.
        """
        with self.database.writing() as connection:
            self._lock(connection)
            answered = None if request is None else self._receipt(connection, request)
            if answered is not None:
                return answered
            table, now = self._table(connection), utc_now()
            events, doubts = make(table)
            log = stamp_events(events, table.revision + 1, origin, now)
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
            receipt = Receipt(
                revision=after.revision,
                names=tuple(dict.fromkeys(line.entry.name for line in log if line.entry.name)),
                n_classes=len(self.folder.names(after)),
                doubts=tuple(doubts),
                n_examples=log[-1].n_examples,
            )
            if request is not None:
                self._keep(connection, request, receipt, now)
        return receipt

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
