"""Transactions on the registry's database, and queries of one model's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.serving import database as db
from hgkt.serving import schema
from hgkt.serving.database import RegistryError
from hgkt.serving.schema_versions import create_tables
from hgkt.serving.writer_queue import WriterQueue

CHUNK = 500  # names in one query; databases bound the number of parameters


class RegistryTables:
    """The tables of one model in SQLite or PostgreSQL.

    Parameters
    ----------
    url : str
        ``sqlite:///file`` or ``postgresql://user:password@host/database``.
    model_id : str
        Which model the rows belong to.
    file : tuple of (str, int, int), optional
        Path, device and number that a SQLite file must have; see `file`.
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
                if create_tables(connection) > schema.SCHEMA_VERSION:
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

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

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

    def _model(self, connection: Connection) -> dict[str, Any]:
        """Return this model's row; nothing may be there yet."""
        rows = self._rows(connection, schema.models, self._select(schema.models))
        if rows:
            return dict(rows[0]._mapping)
        return {"model_id": self.model_id, "revision": 0, "content": schema.EMPTY, "oldest": None}

    def _named_rows(
        self, connection: Connection, table: sa.Table, names: Sequence[str]
    ) -> dict[str, Any]:
        """Return the rows of some names, by name."""
        found = {}
        for start in range(0, len(names), CHUNK):
            query = sa.select(table).where(self._named(table, names[start : start + CHUNK]))
            found.update({row.name: row for row in self._rows(connection, table, query)})
        return found

    def _present(self, connection: Connection, table: sa.Table, names: Sequence[str]) -> set[str]:
        """Return which of `names` a table holds."""
        found: set[str] = set()
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            query = sa.select(table.c.name).where(self._named(table, chunk))
            found.update(connection.execute(query).scalars())
        return found

    def _named(self, table: sa.Table, names: Sequence[str]) -> sa.ColumnElement[bool]:
        return sa.and_(self._own(table), table.c.name.in_(names))


def _prepare_postgresql(connection: Connection) -> None:
    """Wait for other writers a while, not for ever; be durable even where the server is not."""
    settings = {"lock_timeout": f"{int(db.BUSY_SECONDS * 1000)}ms"}
    if connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off":
        settings["synchronous_commit"] = "on"
    for name, value in settings.items():
        connection.execute(sa.select(sa.func.set_config(name, value, True)))
