"""The registry's database: tables, transactions on SQLite and PostgreSQL, and what errors mean."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from hgkt._validation import import_extra
from hgkt.exceptions import DataError, HGKTError

SCHEMA_VERSION = 6
BUSY_SECONDS = 5.0
WRITE_SECONDS = 30.0  # how long a change waits for those before it
_ROOM_BYTES = 2**18  # with less than this on the disk, an input/output error means "full"
_SETUP_LOCK = 0x48474B54  # "HGKT": the advisory lock under which PostgreSQL's tables are made

logger = logging.getLogger(__name__)
FileId = tuple[str, int, int]
"""Path, device and number of a SQLite file."""

# ---------------------------------------------------------------------- tables
metadata = sa.MetaData()
schema_table = sa.Table(
    "hgkt_schema", metadata, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
)
models = sa.Table(
    "hgkt_models",
    metadata,
    sa.Column("model_id", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),  # of the last event
    sa.Column("facts", sa.Text),  # what is known of the model, as JSON
)
events = sa.Table(
    "hgkt_events",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("old_name", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),  # the event as JSON
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),  # of this event and the one before it
    sa.Column("sums", sa.LargeBinary),  # last, so that lists of the log need not read it
)
requests = sa.Table(
    "hgkt_requests",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("key", sa.String(200), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("receipt", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False, index=True),
)
unknown_items = sa.Table(
    "hgkt_unknown",
    metadata,
    sa.Column("model_id", sa.String(64), primary_key=True),
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("kept_at", sa.String(32), nullable=False, index=True),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("reject", sa.Float, nullable=False),  # what the request asked for
    sa.Column("class_name", sa.Text),  # the class that was made of it
    sa.Column("features", sa.LargeBinary, nullable=False),  # little-endian float32
    sa.Column("content", sa.LargeBinary),  # a JPEG, or a text in UTF-8
)

# ---------------------------------------------------------------------- errors
_MEANINGS = {
    "full": "has no room left on its disk",
    "read-only": "may be read only",
    "locked": "is busy with other writers",
    "unreachable": "cannot be reached",
    "corrupt": "is damaged or is not a database",
    "newer": "was written by a newer release of hgkt; this one cannot use it",
    "older": "was written by an earlier release of hgkt, whose tables are not read any more",
    "moved": "was removed or replaced while it was in use; put it back, or start the service again",
    "failed": "failed",
}
# How PostgreSQL's SQLSTATE codes and SQLite's names of errors begin; the first that fits counts.
_CODES = {
    "full": ("53100", "SQLITE_FULL"),
    "read-only": ("25006", "42501", "SQLITE_READONLY", "SQLITE_PERM"),
    "locked": ("55P03", "57014", "40", "SQLITE_BUSY", "SQLITE_LOCKED"),
    "unreachable": ("08", "28", "3D", "53", "57P", "SQLITE_CANTOPEN"),
    "corrupt": ("XX", "SQLITE_CORRUPT", "SQLITE_NOTADB"),
}


class RegistryError(HGKTError):
    """The class registry could not be read or written.

    Parameters
    ----------
    kind : {"full", "read-only", "locked", "unreachable", "corrupt", "newer", "older", "moved", \
"failed"}
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
        self.kind, self.place = kind, place

    @property
    def sentence(self) -> str:
        """What is wrong, without saying where on the machine."""
        return f"the class registry {_MEANINGS[self.kind]}"


class Database:
    """Transactions on a SQLite file or a PostgreSQL server, with the registry's tables.

    Parameters
    ----------
    address : str
        ``sqlite:///file`` or ``postgresql://user:password@host/database``.
    file : tuple of (str, int, int), optional
        Path, device and number that a SQLite file must have.
    """

    def __init__(self, address: str, file: FileId | None = None) -> None:
        self.file = file
        self.engine = self._open(address)
        self.place = place_of(self.engine.url)
        self._turn = threading.Lock()  # of the writers of this process
        try:
            self._create_tables()
        except BaseException:
            self.engine.dispose()
            raise

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # ------------------------------------------------------------------ transactions
    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One write transaction; it is committed, and on disk, where the block ends well."""
        if not self._turn.acquire(timeout=WRITE_SECONDS):
            raise RegistryError("locked", self.place)
        try:
            with self._translated(), self.engine.connect() as plain:
                connection = plain.execution_options(hgkt_writes=True)
                with connection.begin():
                    if connection.dialect.name == "postgresql":
                        _prepare_postgresql(connection)
                    yield connection
                self._check_file(connection.info.get("hgkt_log"))
        finally:
            self._turn.release()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One read transaction, which sees one moment."""
        with self._translated(), self.engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what the database or its driver raises into one sentence; the log has the rest."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            url, original = self.engine.url, getattr(error, "orig", None) or error
            kind, text = _kind(original, error, url), " ".join(str(original).split())
            for secret in (url.password, url.query.get("password")):
                if secret:
                    text = text.replace(str(secret), "***")
            name = type(original).__name__
            logger.warning("the class registry %s: %s (%s: %s)", self.place, kind, name, text)
            # Not "from error": the driver's words may repeat the address with its password.
            raise RegistryError(kind, self.place) from None

    # ------------------------------------------------------------------ opening
    def _open(self, address: str) -> Engine:
        try:
            url = make_url(address)
        except (sa.exc.ArgumentError, ValueError):
            raise DataError(
                "the address of the class registry cannot be read; sqlite:///FILE or "
                "postgresql://USER:PASSWORD@HOST/DATABASE is expected"
            ) from None
        backend = url.get_backend_name()
        if backend == "sqlite":
            return self._sqlite_engine(url)
        if backend in ("postgresql", "postgres"):
            return _postgresql_engine(url.set(drivername="postgresql+psycopg"))
        raise DataError(f"the class registry can be in SQLite or PostgreSQL; got {backend!r}")

    def _create_tables(self) -> None:
        """Make the tables where there are none; refuse those of another release."""
        with self.reading() as connection:
            _check_sound(connection)
            version = _version(connection)
        if version is None:
            with self.writing() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))
                version = _version(connection)  # another process may have been faster
                if version is None:
                    version = SCHEMA_VERSION
                    metadata.create_all(connection)
                    connection.execute(schema_table.insert().values(version=version))
        if version != SCHEMA_VERSION:
            newer = isinstance(version, int) and version > SCHEMA_VERSION
            raise RegistryError("newer" if newer else "older", self.place)

    # ------------------------------------------------------------------ SQLite
    def _sqlite_engine(self, url: URL) -> Engine:
        path = place_of(url)
        in_memory = url.query.items() & {("mode", "memory"), ("vfs", "memdb")}
        if in_memory or path in ("", ":memory:"):
            raise DataError(
                "a class registry in memory would be lost with its process; sqlite:///FILE is "
                "expected"
            )
        engine = sa.create_engine(
            url.set(drivername="sqlite+pysqlite"),
            hide_parameters=True,
            connect_args={"timeout": WRITE_SECONDS, "check_same_thread": False},
        )

        @sa.event.listens_for(engine, "do_connect")
        def _connecting(*_details: Any) -> None:
            self._check_file()  # SQLite would make a new file where the old one has gone
            if self.file is None:
                _create_private(path)

        @sa.event.listens_for(engine, "connect")
        def _connected(connection: sqlite3.Connection, record: Any) -> None:
            connection.isolation_level = None  # transactions begin where `_begun` says
            connection.execute("PRAGMA foreign_keys = ON")
            _write_ahead(connection)
            # An acknowledged class survives a power cut: the log reaches the disk at every commit.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
            if self.file is None:
                found = connection.execute("PRAGMA database_list").fetchone()[2]
                self.file = (found, *(_file_id(found) or (0, 0)))
            self._check_file()
            record.info["hgkt_log"] = _file_id(self.file[0] + "-wal")

        @sa.event.listens_for(engine, "begin")
        def _begun(connection: Connection) -> None:
            self._check_file(connection.info["hgkt_log"])
            # A writer takes its lock at once: one that read first could find its view outdated.
            writes = connection.get_execution_options().get("hgkt_writes")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def _check_file(self, log: tuple[int, int] | None = None) -> None:
        """Refuse a SQLite file, or its log, that is no longer what its name stands for.

        An open file lives on without its name, and what is written to it is lost when it is
        closed: a change is acknowledged only while both names stand for what is open.
        """
        if self.file is not None:
            path, *known = self.file
            moved = _file_id(path) != tuple(known)
            if moved or (log is not None and _file_id(path + "-wal") != log):
                raise RegistryError("moved", self.place)


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _create_private(path: str) -> None:
    """Make a database file that only its owner may read: sums of one example are that example."""
    with suppress(OSError):  # it exists, or SQLite says better what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _check_sound(connection: Connection) -> None:
    """Refuse a SQLite file that SQLite itself finds damaged, or whose rows hang in the air."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        loose = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if found != "ok" or loose is not None:
            place = place_of(connection.engine.url)
            logger.warning("the class registry %s: %s", place, found if found != "ok" else loose)
            raise RegistryError("corrupt", place)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; several processes may try it on a new file at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # This pragma does not wait for other connections by itself.
            if _kind_of(error) != "locked" or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    if mode != "wal":
        raise DataError(
            "the class registry's file cannot keep a write-ahead log; a file on a local disk "
            "is expected"
        )


def _version(connection: Connection) -> Any:
    """Return the version of the tables; None where there are none."""
    if not sa.inspect(connection).has_table(schema_table.name):
        return None
    return connection.execute(sa.select(sa.func.max(schema_table.c.version))).scalar()


# ---------------------------------------------------------------------- PostgreSQL
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


def _prepare_postgresql(connection: Connection) -> None:
    """Wait for other writers a while, not for ever; be durable even where the server is not."""
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(BUSY_SECONDS * 1000)}")
    if connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "off":
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")


# ---------------------------------------------------------------------- words
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


def _kind(original: Any, error: Exception, url: URL) -> str:
    if isinstance(error, sa.exc.TimeoutError):
        return "locked"
    kind = _kind_of(original)
    if isinstance(original, sqlite3.Error):
        return "full" if kind == "failed" and _no_room(url) else kind
    if getattr(original, "sqlstate", None) is None:  # the server was not reached, or went away
        lost = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
        return "unreachable" if lost else "failed"
    return kind


def _kind_of(error: Any) -> str:
    """Return what the code of a driver's error means."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or ""
    return next((kind for kind, starts in _CODES.items() if code.startswith(starts)), "failed")


def _no_room(url: URL) -> bool:
    """Return whether the disk of a SQLite file is full: some calls then fail in other words."""
    try:
        return shutil.disk_usage(Path(place_of(url)).absolute().parent).free < _ROOM_BYTES
    except OSError:
        return False
