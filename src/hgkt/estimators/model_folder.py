"""The model folder: model.safetensors, config.json, classes.parquet, README.md.

A fitted estimator to its folder and back. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import atomic_folder, check_place, sha256
from hgkt._plain import json_text, plain
from hgkt.estimators._old_folders import upgrade
from hgkt.estimators._rows import GrowingRows
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.methods import METHODS
from hgkt.exceptions import ModelFolderError, first_line

if TYPE_CHECKING:
    import pandas as pd

FORMAT_VERSION = 3
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
    columns = model.candidates()  # seen classes first, as the arrays have them
    classes = pd.DataFrame(
        {
            "name": model.classes_[columns].tolist(),
            "seen": model.seen_mask_[columns].tolist(),
            "attributes": list(model.class_attributes_[columns]),
        }
    )
    folder = ModelFolder(config, model._state(), classes, _card(config, classes))
    return write_model_folder(path, folder)


def load_model(path: str | Path) -> Any:
    """Load the model folder at `path`; nothing in it is executed.

    Returns
    -------
    estimator
        A fitted classifier with the classes it had when it was saved.
    """
    folder = read_model_folder(path)
    config, table = folder.config, folder.classes
    try:
        model = METHODS.load(config["method"])(**config["parameters"])
        names = np.array(table["name"].tolist(), dtype=object)
        if config["labels"] != "object":
            names = np.array(names.tolist())
        attributes = np.array(table["attributes"].tolist(), dtype=np.float64)
        n_seen = int(table["seen"].sum())
        model.n_features_in_ = int(config["n_features"])
        model._has_attributes = bool(config["has_attributes"])
        model.about_ = config.get("about", {})
        if config.get("feature_names") is not None:
            model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
        model.seen_classes_, model.unseen_classes_ = names[:n_seen], names[n_seen:]
        model._seen_attributes = attributes[:n_seen]
        model._added_attributes = GrowingRows(attributes[n_seen:])
        model._restore(folder.arrays)
    except (KeyError, TypeError, IndexError) as error:
        raise ModelFolderError(f"{path} does not hold a complete model: {error}") from error
    return model


def check_model_place(path: str | Path) -> None:
    """Refuse a path where no model could be saved, before one is trained."""
    check_place(path, _is_model, ModelFolderError, "a model folder")


def write_model_folder(path: str | Path, model: ModelFolder) -> Path:
    """Write `model` to the folder `path`, replacing a model that is there in one step."""
    from safetensors.numpy import save

    arrays = {name: np.asarray(array, order="C") for name, array in model.arrays.items()}
    contents = {WEIGHTS: save(arrays), CLASSES: model.classes.to_parquet(index=False)}
    config = {
        "format_version": FORMAT_VERSION,
        **model.config,
        "sha256": {name: sha256(data) for name, data in contents.items()},
    }
    contents |= {CONFIG: json_text(config).encode(), CARD: model.card.encode()}
    with atomic_folder(path, _is_model, ModelFolderError, "a model folder") as scratch:
        for name, data in contents.items():
            (scratch / name).write_bytes(data)
    return Path(path)


def read_model_folder(path: str | Path) -> ModelFolder:
    """Read and verify a model folder; one of an earlier format comes as one of today's."""
    import pandas as pd
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            raise ModelFolderError(f"there is no model folder {path}")
        raise ModelFolderError(f"{path} is not a folder; a model folder is expected")
    for name in (CONFIG, WEIGHTS, CLASSES):
        if not (path / name).is_file():
            raise ModelFolderError(f"{path} is incomplete: {name} is missing")
    config = _read_config(path)
    contents = {}
    for name in (WEIGHTS, CLASSES):
        contents[name] = (path / name).read_bytes()
        if sha256(contents[name]) != config["sha256"].get(name):
            raise ModelFolderError(
                f"{path / name} is not the file that was saved (its checksum differs)"
            )
    try:
        arrays = load(contents[WEIGHTS])
        classes = pd.read_parquet(path / CLASSES)
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFolderError(f"{path} cannot be read: {first_line(error)}") from error
    if config["format_version"] < FORMAT_VERSION:
        config, arrays = upgrade(config, arrays, int(classes["seen"].sum()))
    card = path / CARD
    return ModelFolder(config, arrays, classes, card.read_text() if card.is_file() else "")


def _is_model(path: Path) -> bool:
    return (path / CONFIG).is_file()


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / CONFIG).read_text())
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path / CONFIG} is not valid JSON: {first_line(error)}") from error
    if not isinstance(config, dict) or not isinstance(config.get("sha256"), dict):
        raise ModelFolderError(f"{path / CONFIG} is not the config of an hgkt model")
    found = config.get("format_version")
    if not isinstance(found, int) or not 1 <= found <= FORMAT_VERSION:
        raise ModelFolderError(
            f"{path} has format version {found}; this release reads versions 1 to {FORMAT_VERSION}"
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
