"""The registry's database: schema, connections to SQLite and PostgreSQL, what errors mean."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from hgkt._validation import import_extra
from hgkt.exceptions import DataError, HGKTError

SCHEMA_VERSION = 1
BUSY_SECONDS = 5.0
_SETUP_LOCK = 0x48474B54  # "HGKT": the advisory lock under which PostgreSQL's tables are made
_ROOM_BYTES = 2**18  # with less than this on the disk, an input/output error means "full"

logger = logging.getLogger(__name__)

metadata = sa.MetaData()

# An integer that grows by itself; in SQLite only an INTEGER PRIMARY KEY does.
_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

schema_table = sa.Table(
    "hgkt_schema", metadata, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
)
models = sa.Table(
    "hgkt_models",
    metadata,
    sa.Column("model_id", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
)
classes = sa.Table(
    "hgkt_classes",
    metadata,
    sa.Column("id", _COUNTER, primary_key=True),
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("attributes", sa.LargeBinary, nullable=False),
    sa.Column("text", sa.Text),
    sa.Column("added_at", sa.String(32), nullable=False),
    sa.UniqueConstraint("model_id", "name"),
)
removed = sa.Table(
    "hgkt_removed",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
)
events = sa.Table(
    "hgkt_events",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("attributes", sa.LargeBinary),
    sa.Column("text", sa.Text),
    sa.Column("created_at", sa.String(32), nullable=False),
)

_MEANINGS = {
    "full": "has no room left on its disk",
    "read-only": "may be read only",
    "locked": "is busy with other writers",
    "unreachable": "cannot be reached",
    "corrupt": "is damaged or is not a database",
    "newer": "was written by a newer release of hgkt; this one cannot use it",
    "failed": "failed",
}
# PostgreSQL's SQLSTATE codes, the longest prefix first.
_STATES = {
    "53100": "full",
    "25006": "read-only",
    "42501": "read-only",
    "55P03": "locked",
    "57014": "locked",
    "40": "locked",
    "08": "unreachable",
    "28": "unreachable",
    "3D": "unreachable",
    "53": "unreachable",
    "57P": "unreachable",
    "XX": "corrupt",
}
_SQLITE_CODES = {
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_PERM: "read-only",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_CANTOPEN: "unreachable",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
}


class RegistryError(HGKTError):
    """The class registry could not be read or written.

    Parameters
    ----------
    kind : {"full", "read-only", "locked", "unreachable", "corrupt", "newer", "failed"}
        What kept it from that.
    place : str
        Where the registry is, without passwords.

    Examples
    --------
    >>> print(RegistryError("full", "birds.registry.sqlite"))
    the class registry birds.registry.sqlite has no room left on its disk
    """

    def __init__(self, kind: str, place: str) -> None:
        super().__init__(f"the class registry {place} {_MEANINGS[kind]}")
        self.kind = kind
        self.place = place


def open_engine(address: str) -> Engine:
    """Return an engine for a SQLite file or a PostgreSQL server; nothing is connected yet.

    Parameters
    ----------
    address : str
        ``sqlite:///file`` or ``postgresql://user:password@host/database``.
    """
    try:
        url = make_url(address)
    except (sa.exc.ArgumentError, ValueError):
        raise DataError(
            "the address of the class registry cannot be read; sqlite:///FILE or "
            "postgresql://USER:PASSWORD@HOST/DATABASE is expected"
        ) from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return _sqlite_engine(url)
    if backend in ("postgresql", "postgres"):
        return _postgresql_engine(url.set(drivername="postgresql+psycopg"))
    raise DataError(f"the class registry can be in SQLite or PostgreSQL; got {backend!r}")


def place_of(url: URL) -> str:
    """Return where a database is, for messages: a file, or host and name; never a password.

    Examples
    --------
    >>> place_of(make_url("postgresql://ann:secret@db.example/birds?password=secret"))
    'db.example/birds'
    """
    if url.get_backend_name() == "sqlite":
        return (url.database or "").removeprefix("file:")
    host = url.host or url.query.get("host") or "the local PostgreSQL server"
    return f"{host if isinstance(host, str) else host[0]}/{url.database or ''}"


def _sqlite_engine(url: URL) -> Engine:
    if url.database in (None, "", ":memory:") or "mode=memory" in str(url.database):
        raise DataError(
            "a class registry in memory would be lost with its process; sqlite:///FILE is expected"
        )
    engine = sa.create_engine(
        url.set(drivername="sqlite+pysqlite"),
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where `_begun` says
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        _write_ahead(cursor)
        # An acknowledged class survives a power cut: the log reaches the disk at every commit.
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A writer takes its lock at once: one that read first could find its view outdated.
        writes = connection.get_execution_options().get("hgkt_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Switch to write-ahead logging; several processes may try it on a new file at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            cursor.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # This pragma does not wait for other connections by itself.
            if _sqlite_kind(error) != "locked" or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _postgresql_engine(url: URL) -> Engine:
    import_extra("psycopg", "serve")
    return sa.create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,  # connections do not outlive a restart of the server
        pool_timeout=BUSY_SECONDS,
        connect_args={
            "connect_timeout": int(BUSY_SECONDS),
            "prepare_threshold": None,  # poolers between here and the server cannot keep them
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
        },
    )


def create_tables(connection: Connection) -> int:
    """Create what is missing, within a write transaction; return the version that is there."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))
    if not sa.inspect(connection).has_table(schema_table.name):
        metadata.create_all(connection)
        connection.execute(schema_table.insert().values(version=SCHEMA_VERSION))
    version: int = connection.execute(sa.select(sa.func.max(schema_table.c.version))).scalar_one()
    return version


def translate(error: Exception, url: URL) -> RegistryError:
    """Turn what the database or its driver raised into one sentence; the log has the rest."""
    original = getattr(error, "orig", None) or error
    kind = _kind(original, error, url)
    text = " ".join(str(original).split())
    for secret in (url.password, url.query.get("password")):
        if secret:
            text = text.replace(str(secret), "***")
    logger.warning(
        "the class registry %s: %s (%s: %s)", place_of(url), kind, type(original).__name__, text
    )
    return RegistryError(kind, place_of(url))


def _kind(original: Any, error: Exception, url: URL) -> str:
    if isinstance(error, sa.exc.TimeoutError):
        return "locked"
    if isinstance(original, sqlite3.Error):
        kind = _sqlite_kind(original)
        return "full" if kind == "failed" and _no_room(url) else kind
    state = getattr(original, "sqlstate", None)
    if state is None:  # the server was not reached, or went away in the middle
        lost = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
        return "unreachable" if lost else "failed"
    return next((kind for prefix, kind in _STATES.items() if state.startswith(prefix)), "failed")


def _sqlite_kind(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    return "failed" if code is None else _SQLITE_CODES.get(code & 0xFF, "failed")


def _no_room(url: URL) -> bool:
    """Return whether the disk of a SQLite file is full: some calls then fail in other words."""
    try:
        return shutil.disk_usage(Path(place_of(url)).absolute().parent).free < _ROOM_BYTES
    except OSError:
        return False
