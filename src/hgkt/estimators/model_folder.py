"""The model folder: model.safetensors, config.json, classes.parquet, README.md.

A fitted estimator to its folder and back. Nothing is ever unpickled. Everything that decides a
result is under a digest, and is checked against the config before it is used; README.md is for
people and decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import atomic_folder, check_place, json_object, reading, sha256
from hgkt._plain import json_text, plain
from hgkt.data.tables import read_parquet
from hgkt.estimators._old_folders import upgrade
from hgkt.estimators._restoring import array_sizes, restore
from hgkt.estimators._snapshots import snapshot
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.methods import METHODS
from hgkt.estimators.state_rules import check_arrays
from hgkt.exceptions import (
    DataError,
    HGKTError,
    ModelFolderError,
    first_line,
)

if TYPE_CHECKING:
    import pandas as pd

FORMAT_VERSION = 4
WEIGHTS, CONFIG, CLASSES, CARD = "model.safetensors", "config.json", "classes.parquet", "README.md"
_KINDS = {"U": "string", "O": "object", "i": "integer", "u": "integer", "f": "number", "b": "bool"}


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
        One row per class: ``name``, ``seen``, ``attributes``.
    card : str
        The model card, Markdown.
    """

    config: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    classes: pd.DataFrame
    card: str = ""


def saved_name(model: GZSLClassifier) -> str:
    """Return the name by which a folder knows a model's method; refuse one that has none."""
    method = METHODS.name_of(type(model))
    if method is None:
        raise ModelFolderError(
            f"{type(model).__name__} is not a registered method, so a saved model could not be "
            "loaded again; register it by an entry point of the group 'hgkt.methods' (docs page "
            "*add a method*)"
        )
    return method


def save_model(model: GZSLClassifier, path: str | Path, about: dict[str, Any]) -> Path:
    """Write a fitted model; `about` says what it was made with and is kept in the config."""
    import pandas as pd

    model = snapshot(model)
    config = {
        "method": saved_name(model),
        "hgkt_version": version("hgkt"),
        "parameters": plain(model.get_params(deep=False)),
        "n_features": int(model.n_features_in_),
        "n_attributes": int(model.class_attributes_.shape[1]),
        "has_attributes": bool(model._has_attributes),
        "labels": _KINDS[model.classes_.dtype.kind],
        "about": plain({**getattr(model, "about_", {}), **about}),
        "feature_names": plain(getattr(model, "feature_names_in_", None)),
    }
    state = model._state()
    try:
        check_arrays(state, model._state_rules(state.keys()), array_sizes(model))
    except DataError as error:
        raise ModelFolderError(f"this model cannot be saved: {error}") from error
    columns = model.candidates()  # seen classes first, as the arrays have them
    classes = pd.DataFrame(
        {
            "name": model.classes_[columns].tolist(),
            "seen": model.seen_mask_[columns].tolist(),
            "attributes": list(model.class_attributes_[columns]),
        }
    )
    folder = ModelFolder(config, state, classes, _card(config, classes))
    return write_model_folder(path, folder)


def load_model(path: str | Path, verify_key: str | Path | None = None) -> Any:
    """Load the model folder at `path`; nothing in it is executed.

    Parameters
    ----------
    path : path
        The folder.
    verify_key : path, optional
        A public key. The folder must then have been signed by its owner and be unchanged since
        (:func:`hgkt.estimators.signing.sign_model`); what is loaded is what was signed.

    Returns
    -------
    estimator
        A fitted classifier with the classes it had when it was saved.
    """
    if verify_key is None:
        folder = read_model_folder(path)
    else:
        from hgkt.estimators.signing import verify_model

        folder = read_model_folder(path, verify_model(path, verify_key)[CONFIG])
    return build_model(folder, path)


def build_model(folder: ModelFolder, path: str | Path) -> Any:
    """Make the estimator of what a model folder holds; `path` is for messages."""
    try:
        return restore(folder.config, folder.arrays, folder.classes)
    except DataError as error:
        raise ModelFolderError(f"{path} does not hold a complete model: {error}") from error
    except HGKTError:
        raise
    except Exception as error:  # what a wrong parameter or shape leads to has no common base
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ModelFolderError(f"{path} does not hold a complete model: {reason}") from error


def check_model_place(path: str | Path) -> None:
    """Refuse a path where no model could be saved, before one is trained."""
    check_place(path, _is_model, ModelFolderError, "a model folder")


def write_model_folder(path: str | Path, model: ModelFolder) -> Path:
    """Write `model` to the folder `path`, replacing a model that is there in one step."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in model.arrays.items()}
    contents = {WEIGHTS: save(arrays), CLASSES: model.classes.to_parquet(index=False)}
    config = plain(
        {
            "format_version": FORMAT_VERSION,
            **model.config,
            "sha256": {name: sha256(data) for name, data in contents.items()},
        }
    )
    config["sha256"][CONFIG] = config_digest(config)
    contents |= {CONFIG: json_text(config).encode(), CARD: model.card.encode()}
    with atomic_folder(path, _is_model, ModelFolderError, "a model folder") as scratch:
        for name, data in contents.items():
            (scratch / name).write_bytes(data)
    return Path(path)


def read_model_folder(path: str | Path, config_sha256: str | None = None) -> ModelFolder:
    """Read and verify a model folder; one of an earlier format comes as one of today's.

    Parameters
    ----------
    path : path
        The folder.
    config_sha256 : str, optional
        The digest that config.json must have, byte by byte. It has the digests of all else.

    Returns
    -------
    ModelFolder
    """
    from safetensors.numpy import load

    path = check_model(path)
    config = _read_config(path, config_sha256)
    contents = {}
    for name in (WEIGHTS, CLASSES):
        contents[name] = _read(path / name)
        if sha256(contents[name]) != config["sha256"].get(name):
            raise ModelFolderError(
                f"{path / name} is not the file that was saved (its checksum differs)"
            )
    with reading(path / WEIGHTS, "a file of arrays", ModelFolderError):
        arrays = load(contents[WEIGHTS])
    table = read_parquet(path / CLASSES, contents[CLASSES], ModelFolderError)
    with reading(path / CLASSES, "a table of classes", ModelFolderError):
        classes = table.to_pandas()
        if config["format_version"] < 3:
            config, arrays = upgrade(config, arrays, int(classes["seen"].sum()))
    card = path / CARD
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    return ModelFolder(config, arrays, classes, text)


def check_model(path: str | Path) -> Path:
    """Return the path of a model folder; refuse one that is none, or lacks a file."""
    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            raise ModelFolderError(f"there is no model folder {path}")
        raise ModelFolderError(f"{path} is not a folder; a model folder is expected")
    for name in (CONFIG, WEIGHTS, CLASSES):
        if not (path / name).is_file():
            raise ModelFolderError(f"{path} is incomplete: {name} is missing")
    return path


def config_digest(config: Mapping[str, Any]) -> str:
    """Return the digest of a config, whatever its layout and without the digest itself."""
    digests = {name: digest for name, digest in config["sha256"].items() if name != CONFIG}
    return sha256(json.dumps({**config, "sha256": digests}, sort_keys=True))


def _is_model(path: Path) -> bool:
    return (path / CONFIG).is_file()


def _read(path: Path) -> bytes:
    with reading(path, "a file of a model folder", ModelFolderError):
        return path.read_bytes()


def _read_config(path: Path, expected: str | None) -> dict[str, Any]:
    data = _read(path / CONFIG)
    if expected is not None and sha256(data) != expected:
        raise ModelFolderError(f"{path / CONFIG} is not the file that was signed")
    config = json_object(data, path / CONFIG, ModelFolderError)
    if not isinstance(config.get("sha256"), dict):
        raise ModelFolderError(f"{path / CONFIG} is not the config of an hgkt model")
    found = config.get("format_version")
    if type(found) is not int or not 1 <= found <= FORMAT_VERSION:
        raise ModelFolderError(
            f"{path} has format version {found}; this release reads versions 1 to {FORMAT_VERSION}"
        )
    digest = config["sha256"].get(CONFIG)
    if (found >= 4 or digest is not None) and digest != config_digest(config):
        raise ModelFolderError(
            f"{path / CONFIG} is not the file that was saved (its checksum differs)"
        )
    return config


def _card(config: dict[str, Any], classes: pd.DataFrame) -> str:
    seen = int(classes["seen"].sum())
    about = "\n".join(f"- {key}: {value}" for key, value in config["about"].items()) or "- unknown"
    parameters = "\n".join(f"- {key}: {value!r}" for key, value in config["parameters"].items())
    return f"""---
library_name: hgkt
tags: [zero-shot-learning]
---
# {config["method"]}

Recognises {len(classes)} classes: {seen} learned from instances, {len(classes) - seen} added by
their attributes. It reads feature vectors of length {config["n_features"]} and class attributes of
length {config["n_attributes"]}.

```python
import hgkt

model = hgkt.load_model("this folder")
model.add_classes({{"a new class": attribute_vector}})
model.predict(features)
```

## Made with
- hgkt {config["hgkt_version"]}
{about}

## Parameters
{parameters}
"""
