"""What the workers of one service have in common: one model, one registry file.

The parent keeps the model's files as they are at the start, so that a worker that is started later
serves the same model, whatever has become of the folder since.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hgkt._files import file_sha256, sha256
from hgkt.exceptions import ModelFolderError

if TYPE_CHECKING:
    from hgkt.serving.settings import ServiceSettings


@dataclass(frozen=True)
class Pin:
    """What a worker must find.

    Parameters
    ----------
    folder : Path
        Where it reads the model.
    digest : str
        Digest of the files there.
    database : tuple of (str, int, int), optional
        Path, device and number of a SQLite registry's file.
    """

    folder: Path
    digest: str
    database: tuple[str, int, int] | None = None


class OtherModelError(ModelFolderError):
    """A model folder is not the one that the service was started with."""


def pin_model(model: Path, place: Path) -> Pin:
    """Keep the files of a model folder, by links or else copies; return what pins them.

    Where there is no room for copies, the folder itself is pinned: workers then refuse it once it
    has been changed.

    Parameters
    ----------
    model : Path
        The model folder.
    place : Path
        Where to keep them: a folder that is not there.
    """
    try:
        _copy(model, place)
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        return Pin(model, folder_digest(model))
    return Pin(place, folder_digest(place))


def pinned_folder(settings: ServiceSettings) -> Path:
    """Return the folder from which to load the model; refuse one that has been changed."""
    pin = settings.pin
    if pin is None:
        return settings.model
    if folder_digest(pin.folder) != pin.digest:
        raise OtherModelError(
            f"the model folder {settings.model} is not the one that the service was started with; "
            "start the service again to serve it"
        )
    return pin.folder


def folder_digest(folder: Path) -> str:
    """Return one digest of the names and contents of a folder's files."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{file_sha256(path)} {path.relative_to(folder).as_posix()}" for path in files]
    return sha256("\n".join(lines))


def _copy(model: Path, place: Path) -> None:
    size = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    if shutil.disk_usage(place.parent).free < 2 * size:
        raise OSError("there is no room for a copy")
    shutil.copytree(os.path.realpath(model), place, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another disk, or one without links
        shutil.copy2(source, target)
