"""Processes that end with their parent, and folders that do not outlive theirs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK_SECONDS = 0.5
_SET_PARENT_DEATH_SIGNAL = 1
_LOCK = "lock"


def end_with_parent(parent: int) -> None:
    """Have this process end when its parent does, however that ends.

    To be called first, in the child's main thread. Linux kills the child itself, even one that is
    busy in C; elsewhere, and where the parent was gone before this call, a thread looks.

    Parameters
    ----------
    parent : int
        Number of the process that started this one, as it knows itself.
    """
    if sys.platform == "linux":
        # Without the call the thread below still looks.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)

    def follow() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)  # nobody will read what this process does

    threading.Thread(target=follow, name="hgkt-parent", daemon=True).start()


def start_worker(parent: int) -> None:
    """Prepare a worker process: Ctrl-C is the parent's business, and so is its end.

    It is here, where little has to be imported, so that a worker whose parent was killed while it
    started ends at once.

    Parameters
    ----------
    parent : int
        Number of the parent's process.
    """
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Warnings of many at once would write over the progress display.
    warnings.simplefilter("ignore")


@contextmanager
def passing_folder(prefix: str) -> Iterator[Path]:
    """Make a temporary folder that is removed at the end, or swept where its process was killed.

    A lock, which the system releases with the process, says whose folders are still in use.

    Parameters
    ----------
    prefix : str
        How the names of such folders begin.

    Examples
    --------
    >>> with passing_folder("hgkt-example-") as folder:
    ...     sweep_folders("hgkt-example-")
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    from filelock import FileLock

    folder, lock = Path(), None
    while lock is None:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = FileLock(folder / _LOCK)
        lock.acquire()
        if not (folder / _LOCK).exists():  # it was swept before it was locked
            lock.release()
            lock = None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def sweep_folders(prefix: str) -> None:
    """Remove the folders of `passing_folder` whose processes were killed."""
    from filelock import FileLock, Timeout

    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError, Timeout):
            if (folder / _LOCK).exists():
                with FileLock(folder / _LOCK).acquire(blocking=False):
                    shutil.rmtree(folder, ignore_errors=True)
            elif time.time() - folder.stat().st_mtime > 60:
                folder.rmdir()  # killed before it was locked: empty
