"""The classes that were added to a served model, in a database that several processes share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.exceptions import DataError
from hgkt.serving import database as db
from hgkt.serving import schema
from hgkt.serving.changes import Change, entry_of, row_of
from hgkt.serving.database import RegistryError
from hgkt.serving.editions import (
    ClassEntry,
    ClassEvent,
    ClassExistsError,
    RegistryState,
    UnknownClassError,
    check_entries,
    utc_now,
)
from hgkt.serving.idempotency import (
    AnsweredError,
    KeyedRequest,
    Receipt,
    oldest_kept,
    request_row,
)
from hgkt.serving.writer_queue import WriterQueue

_CHUNK = 500  # names in one query; databases bound the number of parameters


class ClassRegistry:
    """Added classes of one model in SQLite or PostgreSQL.

    A change is one transaction: all of it is there or nothing, it is on disk when the call returns,
    and changes of all processes come one after another, counted by the revision. Instances may be
    shared between threads.

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
    hgkt.serving.editions.ClassExistsError: class 'zebra' is there already
    >>> registry.remove(["zebra"]), registry.entries()
    (2, ())
    >>> [(event.revision, event.kind) for event in registry.events_after(0)]
    [(1, 'add'), (2, 'remove')]
    >>> registry.close(); folder.cleanup()
    """

    def __init__(self, url: str, model_id: str, file: tuple[str, int, int] | None = None) -> None:
        self.model_id = model_id
        self._engine = db.open_engine(url, file)
        self.place = db.place_of(self._engine.url)
        self._writers = WriterQueue()
        try:
            with self._translated(), self._engine.connect() as connection:
                db.check_sound(connection)
            with self._writing() as connection:
                if schema.create_tables(connection) > schema.SCHEMA_VERSION:
                    raise RegistryError("newer", self.place)
                self._lock_model(connection)
        except Exception:
            self._engine.dispose()
            raise

    @property
    def file(self) -> tuple[str, int, int] | None:
        """Path, device and number of a SQLite file; None in PostgreSQL."""
        found = self._engine.get_execution_options().get("hgkt_file")
        return None if found is None else found.pin

    # ------------------------------------------------------------------ changing
    def add(
        self,
        entries: Sequence[ClassEntry],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
    ) -> int:
        """Add classes, all or nothing; return the revision that has them.

        Parameters
        ----------
        entries : sequence of ClassEntry
            The classes.
        saved : collection of str
            Added classes that the model folder itself holds; their names are taken as long as
            they were not removed here.
        request : KeyedRequest, optional
            What asks for it; where it was answered before, nothing changes and `AnsweredError` is
            raised.
        """
        check_entries(entries)
        names = [entry.name for entry in entries]
        now = utc_now()
        entries = [replace(entry, added_at=entry.added_at or now) for entry in entries]
        with self._changing("add", entries, now, saved, request) as change:
            taken = self._present(change.connection, schema.classes, names)
            taken |= set(names) & set(saved) - self._present(
                change.connection, schema.removed, names
            )
            for name in names:
                if name in taken:
                    raise ClassExistsError(name)
            change.insert(schema.classes, [row_of(entry) for entry in entries])
        return change.revision

    def remove(
        self,
        names: Sequence[str],
        saved: Collection[str] = (),
        request: KeyedRequest | None = None,
    ) -> int:
        """Remove classes, all or nothing; return the revision without them.

        Parameters
        ----------
        names : sequence of str
            The classes.
        saved : collection of str
            Added classes that the model folder itself holds; these are remembered as removed.
        request : KeyedRequest, optional
            What asks for it; see `add`.
        """
        names = list(dict.fromkeys(names))
        entries = [ClassEntry(name) for name in names]
        with self._changing("remove", entries, utc_now(), saved, request) as change:
            here = self._present(change.connection, schema.classes, names)
            gone = self._present(change.connection, schema.removed, names)
            for name in names:
                if name not in here and (name not in saved or name in gone):
                    raise UnknownClassError(name)
            for chunk in _chunks([name for name in names if name in here]):
                query = sa.select(schema.classes).where(self._named(schema.classes, chunk))
                leaving = self._rows(change.connection, schema.classes, query)
                change.delete(schema.classes, leaving)
            buried = [name for name in names if name in saved and name not in gone]
            change.insert(schema.removed, [{"name": name} for name in buried])
        return change.revision

    # ------------------------------------------------------------------ reading
    def revision(self) -> int:
        """Return the number of changes so far."""
        with self._reading() as connection:
            return self._model(connection)[0]

    def events_after(self, revision: int) -> list[ClassEvent]:
        """Return what happened after `revision`, the last one known, in order."""
        log = schema.events
        query = (
            self._select(log)
            .where(log.c.revision > revision)
            .order_by(log.c.revision, log.c.position)
        )
        with self._reading() as connection:
            rows = self._rows(connection, log, query)
            return [
                ClassEvent(row.revision, row.kind, entry_of(row, row.created_at)) for row in rows
            ]

    def state(self) -> RegistryState:
        """Return revision, classes and removed names as they are at one moment."""
        listed = schema.classes
        with self._reading(consistent=True) as connection:
            revision, content = self._model(connection)
            rows = self._rows(connection, listed, self._select(listed).order_by(listed.c.id))
            gone = self._rows(connection, schema.removed, self._select(schema.removed))
            found = schema.add_digests(schema.EMPTY, (row.digest for row in [*rows, *gone]))
            if found != content:
                raise RegistryError("corrupt", self.place)  # rows are missing, or too many
            entries = tuple(entry_of(row, row.added_at) for row in rows)
            return RegistryState(revision, entries, frozenset(row.name for row in gone))

    def entries(self) -> tuple[ClassEntry, ...]:
        """Return the added classes in the order they came."""
        return self.state().entries

    def receipt(self, request: KeyedRequest) -> Receipt | None:
        """Return what a request was answered before, within a day; None for a new one."""
        with self._reading() as connection:
            row = self._answered(connection, request)
            return None if row is None else Receipt.from_json(row.receipt)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # ------------------------------------------------------------------ transactions
    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """One write transaction; it is committed, and on disk, where the block ends well."""
        with self._translated(), self._turn(), self._engine.connect() as plain:
            connection = plain.execution_options(hgkt_writes=True)
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    _prepare_postgresql(connection)
                yield connection
            db.check_place(connection)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._writers.turn(db.WRITE_SECONDS))
            except TimeoutError:
                raise RegistryError("locked", self.place) from None
            yield

    @contextmanager
    def _changing(
        self,
        kind: str,
        entries: Sequence[ClassEntry],
        now: str,
        saved: Collection[str],
        request: KeyedRequest | None,
    ) -> Iterator[Change]:
        """One change, which is logged and counted where the block ends well."""
        if not entries:
            raise DataError("no class was given; at least one is expected")
        with self._writing() as connection:
            self._lock_model(connection)
            revision, content = self._model(connection)
            if request is not None and self._answered(connection, request) is not None:
                raise AnsweredError(request)
            change = Change(connection, self.model_id, revision + 1, content)
            yield change
            change.log(kind, entries, now)
            if request is not None:
                self._keep(change, request, [entry.name for entry in entries], saved, now)

    def _keep(
        self,
        change: Change,
        request: KeyedRequest,
        names: Sequence[str],
        saved: Collection[str],
        now: str,
    ) -> None:
        """Remember what a request is answered, and forget those of long ago."""
        connection, known = change.connection, schema.requests
        connection.execute(known.delete().where(known.c.created_at < oldest_kept(now)))
        count = sa.select(sa.func.count()).select_from(schema.classes)
        n_added = connection.execute(count.where(self._own(schema.classes))).scalar_one()
        rest = set(saved)
        for table in (schema.classes, schema.removed):
            rest -= self._present(connection, table, sorted(rest))
        row = request_row(request, change.revision, names, n_added + len(rest), now)
        row["model_id"] = self.model_id
        connection.execute(known.insert(), [schema.digested(known, row)])

    @contextmanager
    def _reading(self, consistent: bool = False) -> Iterator[Connection]:
        """One read transaction; `consistent` where several queries must see the same moment."""
        with self._translated(), self._engine.connect() as connection:
            # A transaction of SQLite sees one moment in any case.
            if consistent and connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            # Not "from error": the driver's words may repeat the address with its password.
            raise db.translate(error, self._engine.url) from None

    def _lock_model(self, connection: Connection) -> None:
        """Lock this model's row, so that changes come one after another; make it if need be."""
        query = sa.select(schema.models.c.model_id).where(self._own(schema.models))
        if connection.execute(query.with_for_update()).first() is None:
            row = {"model_id": self.model_id, "revision": 0, "content": schema.EMPTY}
            connection.execute(schema.models.insert(), [schema.digested(schema.models, row)])

    # ------------------------------------------------------------------ queries
    def _own(self, table: sa.Table) -> sa.ColumnElement[bool]:
        return table.c.model_id == self.model_id

    def _select(self, table: sa.Table) -> sa.Select[Any]:
        """Select what a table has of this model alone."""
        return sa.select(table).where(self._own(table))

    def _rows(self, connection: Connection, table: sa.Table, query: Any) -> list[Any]:
        """Return the rows of a table; refuse one that does not say what was written."""
        rows = list(connection.execute(query).all())
        if not all(schema.intact(table, row) for row in rows):
            raise RegistryError("corrupt", self.place)
        return rows

    def _model(self, connection: Connection) -> tuple[int, str]:
        """Return this model's revision and the sum of its digests; nothing may be there yet."""
        rows = self._rows(connection, schema.models, self._select(schema.models))
        return (rows[0].revision, rows[0].content) if rows else (0, schema.EMPTY)

    def _answered(self, connection: Connection, request: KeyedRequest) -> Any:
        """Return the row of a request that was answered before; refuse another of its key."""
        known = schema.requests
        query = self._select(known).where(known.c.key == request.key)
        rows = self._rows(
            connection, known, query.where(known.c.created_at > oldest_kept(utc_now()))
        )
        for row in rows:
            request.check(row.fingerprint)
        return rows[0] if rows else None

    def _named(self, table: sa.Table, names: Sequence[str]) -> sa.ColumnElement[bool]:
        return sa.and_(self._own(table), table.c.name.in_(names))

    def _present(self, connection: Connection, table: sa.Table, names: Sequence[str]) -> set[str]:
        """Return which of `names` a table holds."""
        found: set[str] = set()
        for chunk in _chunks(names):
            query = sa.select(table.c.name).where(self._named(table, chunk))
            found.update(connection.execute(query).scalars())
        return found


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _CHUNK):
        yield names[start : start + _CHUNK]


def _prepare_postgresql(connection: Connection) -> None:
    """Wait for other writers a while, not for ever; be durable even where the server is not."""
    settings = {"lock_timeout": f"{int(db.BUSY_SECONDS * 1000)}ms"}
    if connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off":
        settings["synchronous_commit"] = "on"
    for name, value in settings.items():
        connection.execute(sa.select(sa.func.set_config(name, value, True)))
