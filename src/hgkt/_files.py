"""Files: written in one step, locked, read within bounds; digests, and CSV cells without formulas.

Everything is written beside its place and renamed there: a crash leaves the old or the new, never
half of either. Whoever writes holds a lock on its scratch, which the system takes away when the
process ends, however it ends. A scratch that can be locked therefore has no owner any more, and the
next one that writes there sweeps it away.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt.exceptions import DataError, HGKTError, first_line

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import pandas as pd

Refusal = Callable[[str], HGKTError]
"""Makes the error to raise of one sentence: a type of HGKTError, or a function."""

SMALL = 64 * 2**20
"""Bytes that a file of any size may unfold to."""

_RATIO = 100
_SUFFIX = ".hgkt-part"
_OLD_SECONDS = 24 * 3600.0
"""Where locks cannot be had, what has not been touched for so long has no owner."""
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")
_swept: set[Path] = set()


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
        with _scratch_beside(path, folder=False) as scratch:
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
        with _scratch_beside(path, folder=True) as scratch:
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


@contextmanager
def reading(path: str | Path, what: str, error: Refusal = DataError) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one sentence.

    Parsers raise whatever a broken byte leads to: index, memory, recursion, syntax and decoding
    errors, and types of their own. Only this package's errors pass as they are.

    Parameters
    ----------
    path : path
        The file.
    what : str
        What it is read as, with its article.
    error : type of HGKTError, or callable
        Makes what is raised.

    Examples
    --------
    >>> with reading("rows.npy", "a .npy file"):
    ...     raise EOFError
    Traceback (most recent call last):
    hgkt.exceptions.DataError: rows.npy cannot be read as a .npy file: EOFError
    """
    try:
        yield
    except HGKTError:
        raise
    except FileNotFoundError:
        raise error(f"{path} does not exist") from None
    except PermissionError:
        raise error(f"{path} may not be read") from None
    except MemoryError as problem:
        raise error(f"{path} cannot be read as {what}: it needs too much memory") from problem
    except RecursionError as problem:
        raise error(f"{path} cannot be read as {what}: it is nested too deeply") from problem
    except Exception as problem:
        raise error(f"{path} cannot be read as {what}: {first_line(problem)}") from problem


def check_unfolded(
    path: str | Path, unfolded: int, stored: int, error: Refusal = DataError
) -> None:
    """Refuse a file that would unfold to far more than it holds, before it does.

    What compresses more than a hundredfold is next to nothing written many times: a mistake, or a
    small file that is meant to fill the memory.

    Parameters
    ----------
    path : path
        The file.
    unfolded, stored : int
        Bytes in memory, and bytes on disk.
    error : type of HGKTError, or callable
        Makes what is raised.

    Examples
    --------
    >>> check_unfolded("rows.npz", 5_000_000, 4_000_000)
    >>> check_unfolded("rows.npz", 4 * 2**30, 4 * 2**20)
    Traceback (most recent call last):
    hgkt.exceptions.DataError: rows.npz would unfold to 4.3 GB, 1024 times its size; at most 100 \
times are accepted: store it without compression
    """
    if unfolded > max(SMALL, _RATIO * stored):
        raise error(
            f"{path} would unfold to {unfolded / 1e9:.1f} GB, {unfolded // max(stored, 1)} times "
            f"its size; at most {_RATIO} times are accepted: store it without compression"
        )


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


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as RFC 8259 has it: NaN and infinity are no numbers."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def escape_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet runs; what is no text stays as it is.

    Examples
    --------
    >>> [escape_cell(value) for value in ("zebra", "=1+1", "'-x", -1.5)]
    ['zebra', "'=1+1", "''-x", -1.5]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def plain_cell(value: Any) -> Any:
    """Return the text of which `escape_cell` made a cell.

    Examples
    --------
    >>> [plain_cell(value) for value in ("zebra", "'=1+1", "''-x", "'tis")]
    ['zebra', '=1+1', "'-x", "'tis"]
    """
    escaped = isinstance(value, str) and value.startswith("'") and _FORMULA.match(value)
    return value[1:] if escaped else value


def escape_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose text, the names of its columns too, no spreadsheet runs."""
    escaped = frame.copy(deep=False)
    for name in frame:
        if frame[name].dtype.kind not in "fiubcmM":
            escaped[name] = frame[name].map(escape_cell)
    return escaped.rename(columns=escape_cell)


@contextmanager
def _scratch_beside(path: Path, folder: bool) -> Iterator[Path]:
    """Yield a new scratch file or folder beside `path`; it is gone when the block ends.

    Parameters
    ----------
    path : Path
        What it will replace; scratch in the same folder that nobody owns is removed first. Files
        are many and come fast, so for them a process looks once.
    folder : bool
        Whether to make a folder or a file.

    Yields
    ------
    Path
        The scratch, for its owner's eyes only.
    """
    if folder or path.parent not in _swept:
        _sweep(path.parent)
        _swept.add(path.parent)
    scratch, lock = _owned(path, folder)
    try:
        yield scratch
    finally:
        _remove(scratch)
        if lock is not None:
            os.close(lock)


def _sweep(folder: Path) -> None:
    """Remove the scratch that killed processes left in a folder; no other file is touched."""
    for name in os.listdir(folder):
        if name.startswith(".") and name.endswith(_SUFFIX):
            with contextlib.suppress(OSError):
                _remove_unowned(folder / name)


def _remove_unowned(scratch: Path) -> None:
    lock = _lock(scratch)
    if lock is not None:
        _remove(scratch)
        os.close(lock)
    elif fcntl is None and time.time() - scratch.stat().st_mtime > _OLD_SECONDS:
        _remove(scratch)


def _owned(path: Path, folder: bool) -> tuple[Path, int | None]:
    """Make a scratch and lock it; one that a sweeper took in between is made anew."""
    while True:
        if folder:
            made = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
        else:
            handle, made = tempfile.mkstemp(f"{_SUFFIX}", f".{path.name}.", path.parent)
            os.close(handle)
        scratch = Path(made)
        try:
            lock = _lock(scratch)
        except FileNotFoundError:
            continue
        except OSError:  # a file system without locks
            return scratch, None
        if fcntl is None:
            return scratch, None
        if lock is not None and scratch.exists():
            return scratch, lock
        if lock is not None:
            os.close(lock)


def _lock(scratch: Path) -> int | None:
    """Return the handle of a lock on a scratch; None where another holds it, or none are had."""
    if fcntl is None:
        return None
    handle = os.open(scratch, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(handle)
        if isinstance(problem, BlockingIOError):
            return None
        raise
    return handle


def _remove(scratch: Path) -> None:
    if scratch.is_dir() and not scratch.is_symlink():
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


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
