"""Files and folders written in one step, locks, digests, JSON objects read.

Everything is written beside its place and renamed there: a crash leaves the old or the new, never
half of either. What a killed process left beside it is swept away by the next one that writes
there.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hgkt._reading import Refusal, parse_json, reading
from hgkt._scratch import scratch_beside
from hgkt.exceptions import DataError


@contextmanager
def atomic_file(path: str | Path, error: Refusal = DataError, mode: int = 0o644) -> Iterator[Path]:
    """Yield a scratch file that takes the name `path` when the block ends well.

    Parameters
    ----------
    path : path
        The file; its folder is made if it is not there. Behind a link, what the link points to is
        replaced, not the link.
    error : type of HGKTError, or callable
        Makes what is raised, of one sentence, where the disk refuses.
    mode : int
        Who may read and write the file.

    Yields
    ------
    Path
        Where to write.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_file(f"{folder}/a.txt") as scratch:
    ...         _ = scratch.write_text("whole")
    ...     Path(f"{folder}/a.txt").read_text(), len(os.listdir(folder))
    ('whole', 1)
    """
    given, path = Path(path), Path(os.path.realpath(path))
    try:
        _make_folder(path.parent)
        with scratch_beside(path, folder=False) as scratch:
            yield scratch
            scratch.chmod(mode)  # until here it was private
            _flush(scratch)
            os.replace(scratch, path)
            _flush(path.parent)
    except OSError as problem:
        raise error(f"cannot write {given}: {problem.strerror or problem}") from problem


def check_writable(folder: str | Path, error: Refusal = DataError) -> None:
    """Refuse a folder into which nothing could be written, before anything is computed for it.

    The folder is made if it is not there.

    Examples
    --------
    >>> check_writable(tempfile.gettempdir())
    >>> check_writable("/proc/records")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hgkt.exceptions.DataError: cannot write to /proc/records: ...
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise error(f"cannot write to {folder}: {problem.strerror or problem}") from problem


def write_file(
    path: str | Path, content: bytes | str, error: Refusal = DataError, mode: int = 0o644
) -> Path:
    """Write a whole file in one step; see `atomic_file`."""
    data = content.encode() if isinstance(content, str) else content
    with atomic_file(path, error, mode) as scratch:
        scratch.write_bytes(data)
    return Path(path)


@contextmanager
def atomic_folder(
    path: str | Path,
    replaces: Callable[[Path], bool] = lambda path: False,
    error: Refusal = DataError,
    what: str = "empty",
) -> Iterator[Path]:
    """Yield a scratch folder that takes the place of `path` when the block ends well.

    Parameters
    ----------
    path : path
        A folder that is not there, is empty, or may be replaced. Behind a link, what the link
        points to is replaced, not the link.
    replaces : callable
        Says of an existing, non-empty folder whether it may be replaced; by default none may.
    error : type of HGKTError, or callable
        Makes what is raised, of one sentence, where the path is taken or the disk refuses.
    what : str
        What an existing folder should have been, for that sentence.

    Yields
    ------
    Path
        Where to write.
    """
    check_place(path, replaces, error, what)
    given, path = Path(path), Path(os.path.realpath(path))
    try:
        _make_folder(path.parent)
        with scratch_beside(path, folder=True) as scratch:
            yield scratch
            scratch.chmod(0o755)  # it was made private
            for file in (*scratch.rglob("*"), scratch):
                _flush(file)
            _put_in_place(scratch, path)
            _flush(path.parent)
    except OSError as problem:
        raise error(f"cannot write {given}: {problem.strerror or problem}") from problem


def check_place(
    path: str | Path,
    replaces: Callable[[Path], bool] = lambda path: False,
    error: Refusal = DataError,
    what: str = "empty",
) -> None:
    """Refuse what `atomic_folder` would refuse, before hours are spent on what it shall hold."""
    place = Path(os.path.realpath(path))
    taken = place.exists() and (not place.is_dir() or any(place.iterdir()))
    if taken and not (place.is_dir() and replaces(place)):
        raise error(f"{path} exists and is not {what}; it is left alone, choose another path")
    parent = next(folder for folder in place.parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        reason = "may not be written" if parent.is_dir() else "is no folder"
        raise error(f"cannot write {path}: {parent} {reason}")


@contextmanager
def locked(
    path: str | Path,
    error: Refusal = DataError,
    waiting: Callable[[], object] | None = None,
    busy: str | None = None,
) -> Iterator[None]:
    """Hold a file or folder for a change; others who lock it wait.

    The lock is on a file beside it, since what is replaced as a whole cannot carry a lock; it is
    gone afterwards.

    Parameters
    ----------
    path : path
        What is to be changed.
    error : type of HGKTError, or callable
        Makes what is raised where no lock can be had.
    waiting : callable, optional
        Called once where another holds it; without it that is an error.
    busy : str, optional
        The sentence of that error.
    """
    from filelock import FileLock, Timeout

    place = Path(os.path.realpath(path))
    lock = FileLock(place.with_name(f".{place.name}.lock"))
    try:
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if waiting is None:
                raise error(busy or f"{path} is being changed by another process") from None
            waiting()
            lock.acquire()
    except OSError as problem:
        raise error(f"{path} cannot be changed: {problem.strerror or problem}") from problem
    try:
        yield
    finally:
        # While it is held: filelock sees that the file of a lock it waited for is gone, and waits
        # for the next one.
        with contextlib.suppress(OSError):  # Windows removes it on release
            os.unlink(lock.lock_file)
        lock.release()


def sha256(content: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a text as UTF-8, in hexadecimal digits."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file, read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_sha256(paths: Iterable[Path]) -> str:
    """Return one digest of several files, by name; of a single one its own."""
    digests = [file_sha256(path) for path in sorted(paths, key=lambda path: path.name)]
    return digests[0] if len(digests) == 1 else sha256("".join(digests))


def read_json(path: str | Path, error: Refusal = DataError) -> dict[str, Any]:
    """Return the JSON object that a file holds.

    Parameters
    ----------
    path : path
        The file.
    error : type of HGKTError, or callable
        Makes what is raised, of one sentence, where it cannot be read or holds something else.

    Returns
    -------
    dict
    """
    with reading(path, "JSON", error):
        data = Path(path).read_bytes()
    return json_object(data, path, error)


def json_object(data: bytes, path: str | Path, error: Refusal = DataError) -> dict[str, Any]:
    """Return the JSON object that the content of a file is; see `read_json`."""
    try:
        found = parse_json(data.decode())
    except RecursionError:
        raise error(f"{path} is not valid JSON: it is nested too deeply") from None
    except ValueError as problem:
        raise error(f"{path} is not valid JSON: {problem}") from None
    if not isinstance(found, dict):
        raise error(f"{path} must hold one JSON object")
    return found


def _make_folder(path: Path) -> None:
    """Make a folder and those above it, and have the disk keep their names."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _flush(folder.parent)


def _flush(path: Path) -> None:
    """Have the disk keep a file or the names in a folder."""
    with contextlib.suppress(PermissionError, IsADirectoryError):  # folders on Windows
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _put_in_place(scratch: Path, path: Path) -> None:
    """Give `scratch` the name `path`; where both exist, exchange them in one step."""
    if not path.exists():
        os.rename(scratch, path)
        return
    if _exchange(scratch, path):
        return
    # No exchange on this system: the old folder waits under another name, and comes back if the
    # new one cannot take its place.
    previous = path.with_name(f".{path.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    os.rename(path, previous)
    try:
        os.rename(scratch, path)
    except BaseException:
        os.rename(previous, path)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step, on Linux and macOS; False where that cannot be done."""
    names, exchange = [os.fsencode(path) for path in (first, second)], 2
    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        if hasattr(library, "renamex_np"):
            return bool(library.renamex_np(*names, exchange) == 0)
        at_cwd = -100
        return bool(library.renameat2(at_cwd, names[0], at_cwd, names[1], exchange) == 0)
    return False
