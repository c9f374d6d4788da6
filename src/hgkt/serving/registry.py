"""The classes that were added to a served model, in a database that several processes share."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.exceptions import DataError
from hgkt.serving import _tables as tables
from hgkt.serving._tables import RegistryError
from hgkt.serving.entries import (
    ClassEntry,
    ClassEvent,
    ClassExistsError,
    ClassLearnedError,
    RegistryState,
    UnknownClassError,
    check_entries,
    utc_now,
)

__all__ = [
    "ClassEntry",
    "ClassEvent",
    "ClassExistsError",
    "ClassLearnedError",
    "ClassRegistry",
    "RegistryError",
    "RegistryState",
    "UnknownClassError",
    "model_identity",
]

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

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> registry = ClassRegistry(f"sqlite:///{folder.name}/classes.sqlite", "some model")
    >>> registry.add([ClassEntry("zebra", np.array([0.5, 1.0]))])
    1
    >>> registry.add([ClassEntry("zebra", np.array([0.5, 1.0]))])
    Traceback (most recent call last):
    hgkt.serving.entries.ClassExistsError: class 'zebra' is there already
    >>> registry.remove(["zebra"]), registry.entries()
    (2, ())
    >>> [(event.revision, event.kind) for event in registry.events_after(0)]
    [(1, 'add'), (2, 'remove')]
    >>> registry.close(); folder.cleanup()
    """

    def __init__(self, url: str, model_id: str) -> None:
        self.model_id = model_id
        self._engine = tables.open_engine(url)
        self.place = tables.place_of(self._engine.url)
        try:
            with self._writing() as connection:
                if tables.create_tables(connection) > tables.SCHEMA_VERSION:
                    raise RegistryError("newer", self.place)
                self._revision_for_update(connection)
        except Exception:
            self._engine.dispose()
            raise

    # ------------------------------------------------------------------ changing
    def add(self, entries: Sequence[ClassEntry], saved: Collection[str] = ()) -> int:
        """Add classes, all or nothing; return the revision that has them.

        Parameters
        ----------
        entries : sequence of ClassEntry
            The classes.
        saved : collection of str
            Added classes that the model folder itself holds; their names are taken as long as
            they were not removed here.
        """
        names = [entry.name for entry in entries]
        if not names:
            raise DataError("no class was given; at least one is expected")
        check_entries(entries)
        now = utc_now()
        entries = [replace(entry, added_at=entry.added_at or now) for entry in entries]
        with self._writing() as connection:
            revision = self._revision_for_update(connection) + 1
            taken = self._present(connection, tables.classes, names)
            taken |= set(names) & set(saved) - self._present(connection, tables.removed, names)
            for name in names:
                if name in taken:
                    raise ClassExistsError(name)
            rows = [_row(entry) | {"model_id": self.model_id} for entry in entries]
            connection.execute(tables.classes.insert(), rows)
            self._log(connection, revision, "add", entries, now)
        return revision

    def remove(self, names: Sequence[str], saved: Collection[str] = ()) -> int:
        """Remove classes, all or nothing; return the revision without them.

        Parameters
        ----------
        names : sequence of str
            The classes.
        saved : collection of str
            Added classes that the model folder itself holds; these are remembered as removed.
        """
        names = list(dict.fromkeys(names))
        if not names:
            raise DataError("no class was given; at least one is expected")
        now = utc_now()
        with self._writing() as connection:
            revision = self._revision_for_update(connection) + 1
            here = self._present(connection, tables.classes, names)
            gone = self._present(connection, tables.removed, names)
            for name in names:
                if name not in here and (name not in saved or name in gone):
                    raise UnknownClassError(name)
            table = tables.classes
            for chunk in _chunks([name for name in names if name in here]):
                connection.execute(table.delete().where(self._named(table, chunk)))
            buried = [name for name in names if name in saved and name not in gone]
            if buried:
                rows = [{"model_id": self.model_id, "name": name} for name in buried]
                connection.execute(tables.removed.insert(), rows)
            nothing = np.empty(0)
            self._log(
                connection, revision, "remove", [ClassEntry(name, nothing) for name in names], now
            )
        return revision

    # ------------------------------------------------------------------ reading
    def revision(self) -> int:
        """Return the number of changes so far."""
        query = sa.select(tables.models.c.revision).where(self._own(tables.models))
        with self._reading() as connection:
            return connection.execute(query).scalar() or 0

    def events_after(self, revision: int) -> list[ClassEvent]:
        """Return what happened after `revision`, in order.

        Parameters
        ----------
        revision : int
            The last one known.
        """
        log = tables.events
        query = (
            sa.select(log)
            .where(self._own(log), log.c.revision > revision)
            .order_by(log.c.revision, log.c.position)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [ClassEvent(row.revision, row.kind, _entry(row, row.created_at)) for row in rows]

    def state(self) -> RegistryState:
        """Return revision, classes and removed names as they are at one moment."""
        table = tables.classes
        with self._reading(consistent=True) as connection:
            revision = connection.execute(
                sa.select(tables.models.c.revision).where(self._own(tables.models))
            ).scalar()
            rows = connection.execute(
                sa.select(table).where(self._own(table)).order_by(table.c.id)
            ).all()
            gone = connection.execute(
                sa.select(tables.removed.c.name).where(self._own(tables.removed))
            ).scalars()
            return RegistryState(
                revision or 0, tuple(_entry(row, row.added_at) for row in rows), frozenset(gone)
            )

    def entries(self) -> tuple[ClassEntry, ...]:
        """Return the added classes in the order they came."""
        return self.state().entries

    def ping(self) -> None:
        """Raise `RegistryError` unless the database answers."""
        with self._reading() as connection:
            connection.execute(sa.select(1))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # ------------------------------------------------------------------ transactions
    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """One write transaction; it is committed, and on disk, where the block ends well."""
        with self._translated(), self._engine.connect() as plain:
            connection = plain.execution_options(hgkt_writes=True)
            with connection.begin():
                if connection.dialect.name == "postgresql":
                    _prepare_postgresql(connection)
                yield connection

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
            raise tables.translate(error, self._engine.url) from None

    def _revision_for_update(self, connection: Connection) -> int:
        """Lock this model's row, so that changes come one after another; return its revision."""
        query = sa.select(tables.models.c.revision).where(self._own(tables.models))
        revision: int | None = connection.execute(query.with_for_update()).scalar()
        if revision is None:
            connection.execute(tables.models.insert().values(model_id=self.model_id, revision=0))
            return 0
        return revision

    def _log(
        self,
        connection: Connection,
        revision: int,
        kind: str,
        entries: Sequence[ClassEntry],
        now: str,
    ) -> None:
        rows = []
        for position, entry in enumerate(entries):
            row = _row(entry)
            row.pop("added_at")
            if kind == "remove":
                row["attributes"] = None
            row |= {"model_id": self.model_id, "revision": revision, "position": position}
            rows.append(row | {"kind": kind, "created_at": now})
        connection.execute(tables.events.insert(), rows)
        connection.execute(
            tables.models.update().where(self._own(tables.models)).values(revision=revision)
        )

    # ------------------------------------------------------------------ conditions
    def _own(self, table: sa.Table) -> sa.ColumnElement[bool]:
        condition: sa.ColumnElement[bool] = table.c.model_id == self.model_id
        return condition

    def _named(self, table: sa.Table, names: Sequence[str]) -> sa.ColumnElement[bool]:
        return sa.and_(self._own(table), table.c.name.in_(names))

    def _present(self, connection: Connection, table: sa.Table, names: Sequence[str]) -> set[str]:
        """Return which of `names` a table holds."""
        found: set[str] = set()
        for chunk in _chunks(names):
            query = sa.select(table.c.name).where(self._named(table, chunk))
            found.update(connection.execute(query).scalars())
        return found


def model_identity(model: Any) -> str:
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
    digest = hashlib.sha256()
    digest.update(f"{type(model).__qualname__} {model.seen_classes_.tolist()!r}".encode())
    state = {key: rows for key, rows in model._state().items() if not key.startswith("added/")}
    for key, rows in sorted((state | {"attributes": model._seen_attributes}).items()):
        array = np.ascontiguousarray(rows)
        digest.update(f"\n{key} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes() if array.dtype.kind in "OU" else array.data)
    return digest.hexdigest()


def _row(entry: ClassEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "attributes": np.asarray(entry.attributes, dtype="<f8").tobytes(),
        "text": entry.text,
        "added_at": entry.added_at,
    }


def _entry(row: Any, time: str) -> ClassEntry:
    attributes = np.frombuffer(row.attributes or b"", dtype="<f8").astype(np.float64)
    return ClassEntry(row.name, attributes, row.text, time)


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _CHUNK):
        yield names[start : start + _CHUNK]


def _prepare_postgresql(connection: Connection) -> None:
    """Wait for other writers a while, not for ever; be durable even where the server is not."""
    settings = {"lock_timeout": f"{int(tables.BUSY_SECONDS * 1000)}ms"}
    if connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off":
        settings["synchronous_commit"] = "on"
    for name, value in settings.items():
        connection.execute(sa.select(sa.func.set_config(name, value, True)))
