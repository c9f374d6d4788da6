"""Scratch files and folders beside what they will replace; those of killed processes are swept.

Whoever writes holds a lock on its scratch, which the system takes away when the process ends,
however it ends. A scratch that can be locked therefore has no owner any more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".hgkt-part"
_swept: set[Path] = set()
_OLD_SECONDS = 24 * 3600.0
"""Where locks cannot be had, what has not been touched for so long has no owner."""


@contextmanager
def scratch_beside(path: Path, folder: bool) -> Iterator[Path]:
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
        sweep(path.parent)
        _swept.add(path.parent)
    scratch, lock = _owned(path, folder)
    try:
        yield scratch
    finally:
        _remove(scratch)
        if lock is not None:
            os.close(lock)


def sweep(folder: Path) -> None:
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
