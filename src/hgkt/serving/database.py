"""The registry's database: connections to SQLite and PostgreSQL, and what errors mean."""

from __future__ import annotations

import logging
import random
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from hgkt._validation import import_extra
from hgkt.exceptions import DataError, HGKTError
from hgkt.serving.sqlite_file import SqliteFile

BUSY_SECONDS = 5.0
WRITE_SECONDS = 30.0  # how long a change waits for those before it
IN_MEMORY = "a class registry in memory would be lost with its process; sqlite:///FILE is expected"
_ROOM_BYTES = 2**18  # with less than this on the disk, an input/output error means "full"

logger = logging.getLogger(__name__)

_MEANINGS = {
    "full": "has no room left on its disk",
    "read-only": "may be read only",
    "locked": "is busy with other writers",
    "unreachable": "cannot be reached",
    "corrupt": "is damaged or is not a database",
    "newer": "was written by a newer release of hgkt; this one cannot use it",
    "moved": "was removed or replaced while it was in use; put it back, or start the service again",
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
    kind : {"full", "read-only", "locked", "unreachable", "corrupt", "newer", "moved", "failed"}
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


def open_engine(address: str, file: tuple[str, int, int] | None = None) -> Engine:
    """Return an engine for a SQLite file or a PostgreSQL server; nothing is connected yet.

    Parameters
    ----------
    address : str
        ``sqlite:///file`` or ``postgresql://user:password@host/database``.
    file : tuple of (str, int, int), optional
        Path, device and number that a SQLite file must have.
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
        return _sqlite_engine(url, file)
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


def _sqlite_engine(url: URL, pin: tuple[str, int, int] | None) -> Engine:
    if url.database in (None, "", ":memory:") or _in_memory(url):
        raise DataError(IN_MEMORY)
    engine = sa.create_engine(
        url.set(drivername="sqlite+pysqlite"),
        hide_parameters=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )
    place = place_of(url)
    file = SqliteFile(lambda: RegistryError("moved", place), pin)
    engine.update_execution_options(hgkt_file=file)

    @sa.event.listens_for(engine, "do_connect")
    def _connecting(*_details: Any) -> None:
        file.check()  # SQLite would make a new file where the old one has gone

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where `_begun` says
        cursor = connection.cursor()
        path = file.path_of(cursor)
        if not path:
            raise DataError(IN_MEMORY)
        cursor.execute("PRAGMA foreign_keys = ON")
        _write_ahead(cursor)
        # An acknowledged class survives a power cut: the log reaches the disk at every commit.
        cursor.execute("PRAGMA synchronous = FULL")
        record.info["hgkt_log"] = file.opened(path, cursor)
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        check_place(connection)
        # A writer takes its lock at once: one that read first could find its view outdated.
        if connection.get_execution_options().get("hgkt_writes", False):
            _begin_writing(connection)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def check_place(connection: Connection) -> None:
    """Refuse a SQLite file, or its log, that is no longer what its name stands for."""
    file = connection.get_execution_options().get("hgkt_file")
    if file is not None:
        file.check(connection.info["hgkt_log"])


def check_sound(connection: Connection) -> None:
    """Refuse a SQLite file that SQLite itself finds damaged, or whose rows hang in the air."""
    if connection.dialect.name == "sqlite":
        told = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        loose = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if told != "ok" or loose is not None:
            place = place_of(connection.engine.url)
            logger.warning("the class registry %s: %s", place, told if told != "ok" else loose)
            raise RegistryError("corrupt", place)


def _in_memory(url: URL) -> bool:
    words = [str(url.database), *(f"{name}={value}" for name, value in url.query.items())]
    return any(word in text for text in words for word in ("mode=memory", "vfs=memdb"))


def _begin_writing(connection: Connection) -> None:
    """Begin a transaction that writes, when the writers of other processes leave a gap.

    SQLite itself looks for one ten times a second, and misses them all where another process
    writes without a pause; looking often finds one.
    """
    connection.exec_driver_sql("PRAGMA busy_timeout = 0")
    try:
        deadline = time.monotonic() + WRITE_SECONDS
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except sa.exc.OperationalError as error:
                busy = isinstance(error.orig, sqlite3.Error) and _sqlite_kind(error.orig)
                if busy != "locked" or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.0005, 0.003))
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")


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
        if time.monotonic() > deadline:
            raise DataError(
                "the class registry's file cannot keep a write-ahead log; a file on a local disk "
                "is expected"
            )
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
