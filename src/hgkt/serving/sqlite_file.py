"""Which SQLite file a registry is in: told from one that takes its place while it is in use.

An open file lives on without its name. What is written to it then is lost when it is closed, so
that a change is acknowledged only while the names of database and log stand for what is open.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

Identity = tuple[int, int]
"""Device and number of a file."""


class SqliteFile:
    """The file that the first connection opened; others must be to the same one.

    Parameters
    ----------
    moved : callable
        Makes what is raised where it has been removed or replaced.
    pin : tuple of (str, int, int), optional
        Path, device and number of the file, where another process has opened it before.

    Attributes
    ----------
    pin : tuple of (str, int, int) or None
        The same of the file that is open.

    Examples
    --------
    >>> import tempfile
    >>> file = SqliteFile(lambda: FileNotFoundError("it has gone"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     connection = sqlite3.connect(f"{folder}/classes.sqlite")
    ...     cursor = connection.execute("PRAGMA journal_mode = WAL")
    ...     log = file.opened(file.path_of(cursor), cursor)
    ...     file.check(log)
    ...     connection.close()
    >>> file.check(log)
    Traceback (most recent call last):
    FileNotFoundError: it has gone
    """

    def __init__(
        self, moved: Callable[[], Exception], pin: tuple[str, int, int] | None = None
    ) -> None:
        self._moved = moved
        self.pin = pin

    @staticmethod
    def path_of(cursor: sqlite3.Cursor) -> str:
        """Return the path that a connection has open; empty for a database in memory."""
        found = cursor.execute("PRAGMA database_list").fetchone()
        return str(found[2] or "")

    def opened(self, path: str, cursor: sqlite3.Cursor) -> Identity | None:
        """Keep, or compare, what a new connection opened; return the identity of its log."""
        cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()  # this opens the log
        found = _identity(path)
        if found is None or (self.pin is not None and self.pin[1:] != found):
            raise self._moved()
        if self.pin is None:
            self.pin = (path, *found)
        return _identity(_log(path))

    def check(self, log: Identity | None = None) -> None:
        """Raise where the path, or that of the log, does not stand for what was opened."""
        if self.pin is None:
            return
        path, *identity = self.pin
        gone = _identity(path) != tuple(identity)
        if gone or (log is not None and _identity(_log(path)) != log):
            raise self._moved()


def _log(path: str) -> str:
    return path + "-wal"


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
