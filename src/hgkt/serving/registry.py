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

from hgkt.estimators import GZSLClassifier
from hgkt.estimators.transfer import TransferClassifier
from hgkt.exceptions import DataError
from hgkt.serving import database as db
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

_CHUNK = 500  # names in one query; databases bound the number of parameters
_TRANSFER = ("center", "counts", "dual", "noise", "projection", "second_moment", "sums")
_CLOSED_FORM_ARRAYS = {"grown", "seen/embedding", *(f"transfer/{name}" for name in _TRANSFER)}


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
    hgkt.serving.editions.ClassExistsError: class 'zebra' is there already
    >>> registry.remove(["zebra"]), registry.entries()
    (2, ())
    >>> [(event.revision, event.kind) for event in registry.events_after(0)]
    [(1, 'add'), (2, 'remove')]
    >>> registry.close(); folder.cleanup()
    """

    def __init__(self, url: str, model_id: str) -> None:
        self.model_id = model_id
        self._engine = db.open_engine(url)
        self.place = db.place_of(self._engine.url)
        try:
            with self._writing() as connection:
                if db.create_tables(connection) > db.SCHEMA_VERSION:
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
        check_entries(entries)
        names = [entry.name for entry in entries]
        now = utc_now()
        entries = [replace(entry, added_at=entry.added_at or now) for entry in entries]
        with self._changing("add", entries, now) as (connection, revision):
            taken = self._present(connection, db.classes, names)
            taken |= set(names) & set(saved) - self._present(connection, db.removed, names)
            for name in names:
                if name in taken:
                    raise ClassExistsError(name)
            rows = [_row(entry) | {"model_id": self.model_id} for entry in entries]
            connection.execute(db.classes.insert(), rows)
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
        entries = [ClassEntry(name) for name in names]
        with self._changing("remove", entries, utc_now()) as (connection, revision):
            here = self._present(connection, db.classes, names)
            gone = self._present(connection, db.removed, names)
            for name in names:
                if name not in here and (name not in saved or name in gone):
                    raise UnknownClassError(name)
            for chunk in _chunks([name for name in names if name in here]):
                connection.execute(db.classes.delete().where(self._named(db.classes, chunk)))
            buried = [name for name in names if name in saved and name not in gone]
            if buried:
                rows = [{"model_id": self.model_id, "name": name} for name in buried]
                connection.execute(db.removed.insert(), rows)
        return revision

    # ------------------------------------------------------------------ reading
    def revision(self) -> int:
        """Return the number of changes so far."""
        with self._reading() as connection:
            return connection.execute(self._select(db.models.c.revision)).scalar() or 0

    def events_after(self, revision: int) -> list[ClassEvent]:
        """Return what happened after `revision`, the last one known, in order."""
        log = db.events
        query = (
            self._select(log)
            .where(log.c.revision > revision)
            .order_by(log.c.revision, log.c.position)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [ClassEvent(row.revision, row.kind, _entry(row, row.created_at)) for row in rows]

    def state(self) -> RegistryState:
        """Return revision, classes and removed names as they are at one moment."""
        with self._reading(consistent=True) as connection:
            revision = connection.execute(self._select(db.models.c.revision)).scalar()
            rows = connection.execute(self._select(db.classes).order_by(db.classes.c.id)).all()
            gone = connection.execute(self._select(db.removed.c.name)).scalars()
            entries = tuple(_entry(row, row.added_at) for row in rows)
            return RegistryState(revision or 0, entries, frozenset(gone))

    def entries(self) -> tuple[ClassEntry, ...]:
        """Return the added classes in the order they came."""
        return self.state().entries

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
    def _changing(
        self, kind: str, entries: Sequence[ClassEntry], now: str
    ) -> Iterator[tuple[Connection, int]]:
        """One change: yield its connection and revision; it is logged where the block ends well."""
        if not entries:
            raise DataError("no class was given; at least one is expected")
        with self._writing() as connection:
            revision = self._revision_for_update(connection) + 1
            yield connection, revision
            rows = []
            for position, entry in enumerate(entries):
                row = _row(entry) | {"attributes": None} if kind == "remove" else _row(entry)
                del row["added_at"]
                row |= {"model_id": self.model_id, "revision": revision, "position": position}
                rows.append(row | {"kind": kind, "created_at": now})
            connection.execute(db.events.insert(), rows)
            own = db.models.c.model_id == self.model_id
            connection.execute(db.models.update().where(own).values(revision=revision))

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

    def _revision_for_update(self, connection: Connection) -> int:
        """Lock this model's row, so that changes come one after another; return its revision."""
        query = self._select(db.models.c.revision).with_for_update()
        revision: int | None = connection.execute(query).scalar()
        if revision is None:
            connection.execute(db.models.insert().values(model_id=self.model_id, revision=0))
            return 0
        return revision

    # ------------------------------------------------------------------ queries
    def _select(self, what: sa.Table | sa.Column[Any]) -> sa.Select[Any]:
        """Select a table or a column of it, of this model alone."""
        table = what if isinstance(what, sa.Table) else what.table
        return sa.select(what).where(table.c.model_id == self.model_id)

    def _named(self, table: sa.Table, names: Sequence[str]) -> sa.ColumnElement[bool]:
        return sa.and_(table.c.model_id == self.model_id, table.c.name.in_(names))

    def _present(self, connection: Connection, table: sa.Table, names: Sequence[str]) -> set[str]:
        """Return which of `names` a table holds."""
        found: set[str] = set()
        for chunk in _chunks(names):
            query = sa.select(table.c.name).where(self._named(table, chunk))
            found.update(connection.execute(query).scalars())
        return found


def model_identity(model: GZSLClassifier) -> str:
    """Return a digest of what a model has learned: its method, seen classes and arrays.

    Classes that were added and the calibration do not count: the same model with a class more is
    the same model. A model fitted again, or on other attributes, is another one. A model that
    release 0.1 saved has the identity that it had there, so that its added classes stay its own:
    the digest has the names and arrays of that release. There closed form and network were one
    class, and no other method said which of its classes had grown.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    name = type(model).__qualname__
    state = {key: rows for key, rows in model._state().items() if not key.startswith("added/")}
    if isinstance(model, TransferClassifier):
        name = "HGKTClassifier"
        if state.keys() >= _CLOSED_FORM_ARRAYS:  # what a later release keeps besides is left out
            state = {key: state[key] for key in _CLOSED_FORM_ARRAYS}
    else:
        state.pop("grown", None)
    digest = hashlib.sha256(f"{name} {model.seen_classes_.tolist()!r}".encode())
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
    settings = {"lock_timeout": f"{int(db.BUSY_SECONDS * 1000)}ms"}
    if connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off":
        settings["synchronous_commit"] = "on"
    for name, value in settings.items():
        connection.execute(sa.select(sa.func.set_config(name, value, True)))
