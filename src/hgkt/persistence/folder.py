"""The model folder: model.safetensors, config.json, classes.parquet, README.md.

Written beside and swapped in: a crash leaves the old folder or the new one, never half of one.
Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import ModelFolderError

if TYPE_CHECKING:
    import pandas as pd

FORMAT_VERSION = 1
WEIGHTS, CONFIG, CLASSES, CARD = "model.safetensors", "config.json", "classes.parquet", "README.md"


@dataclass(frozen=True)
class ModelFolder:
    """What a model folder holds.

    Parameters
    ----------
    config : dict
        Everything JSON can say: method, parameters, what the model was made with.
    arrays : dict of str to ndarray
        Learned arrays.
    classes : DataFrame
        One row a class: ``name``, ``seen``, ``attributes``.
    card : str
        The model card, Markdown.
    """

    config: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    classes: pd.DataFrame
    card: str


def write_model_folder(path: str | Path, model: ModelFolder) -> Path:
    """Write `model` to the folder `path`, replacing a model that is there in one step."""
    path = Path(path)
    if path.exists() and not (path / CONFIG).is_file() and (path.is_file() or any(path.iterdir())):
        raise ModelFolderError(
            f"{path} exists and is no model folder; it is left alone, choose another path"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise ModelFolderError(f"cannot write to {path.parent}: {error.strerror}") from error
    try:
        _write_files(scratch, model)
        scratch.chmod(0o755)  # mkdtemp makes it private
        _swap(scratch, path)
    except OSError as error:
        raise ModelFolderError(f"cannot write the model to {path}: {error.strerror}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def read_model_folder(path: str | Path) -> ModelFolder:
    """Read and verify a model folder."""
    import pandas as pd
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = Path(path)
    if not path.is_dir():
        raise ModelFolderError(f"{path} is not a folder; a model folder is expected")
    for name in (CONFIG, WEIGHTS, CLASSES):
        if not (path / name).is_file():
            raise ModelFolderError(f"{path} is incomplete: {name} is missing")
    config = _read_config(path)
    contents = {}
    for name in (WEIGHTS, CLASSES):
        contents[name] = (path / name).read_bytes()
        if hashlib.sha256(contents[name]).hexdigest() != config["sha256"].get(name):
            raise ModelFolderError(
                f"{path / name} is not the file that was saved (its checksum differs)"
            )
    try:
        arrays = load(contents[WEIGHTS])
        classes = pd.read_parquet(path / CLASSES)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFolderError(f"{path} cannot be read: {error}") from error
    card = path / CARD
    return ModelFolder(config, arrays, classes, card.read_text() if card.is_file() else "")


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path / CONFIG} is not valid JSON: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("sha256"), dict):
        raise ModelFolderError(f"{path / CONFIG} is not the config of an hgkt model")
    version = config.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{path} has format version {version}; this release reads version {FORMAT_VERSION}"
        )
    return config


def _write_files(folder: Path, model: ModelFolder) -> None:
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in model.arrays.items()}
    contents = {WEIGHTS: save(arrays), CLASSES: model.classes.to_parquet(index=False)}
    config: Mapping[str, Any] = {
        "format_version": FORMAT_VERSION,
        **model.config,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    contents[CONFIG] = (json.dumps(config, indent=2, allow_nan=False) + "\n").encode()
    contents[CARD] = model.card.encode()
    for name, data in contents.items():
        with open(folder / name, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _swap(scratch: Path, path: Path) -> None:
    """Put `scratch` in the place of `path`; where both exist, exchange them in one step."""
    if not path.exists():
        os.rename(scratch, path)
        return
    if not _exchange(scratch, path):
        # No atomic exchange on this system: the old folder waits under the scratch name.
        previous = path.with_name(f".{path.name}.previous")
        os.rename(path, previous)
        os.rename(scratch, path)
        shutil.rmtree(previous, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders with Linux's renameat2; False where there is none."""
    at_cwd, exchange = -100, 2
    with contextlib.suppress(OSError, AttributeError):
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
        code = renameat2(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange)
        return bool(code == 0)
    return False
