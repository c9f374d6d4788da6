"""Write a folder beside its place and rename it there: a crash leaves nothing half-written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hgkt.exceptions import DataError


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a scratch folder that takes the name `path` when the block ends well.

    Parameters
    ----------
    path : path
        A folder that does not exist yet, or is empty.

    Yields
    ------
    Path
        Where to write.
    """
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path} exists and is not empty; it is left alone, choose another path")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise DataError(f"cannot write to {path.parent}: {error.strerror}") from error
    try:
        yield scratch
        scratch.chmod(0o755)  # mkdtemp makes it private
        os.replace(scratch, path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
