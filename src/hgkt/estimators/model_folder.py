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
from hgkt._validation import attribute_matrix, check_number, refuse_twins
from hgkt.data.tables import read_parquet
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.methods import METHODS
from hgkt.estimators.taxonomy import check_parents
from hgkt.exceptions import (
    DataError,
    HGKTError,
    ModelFolderError,
    first_line,
)

if TYPE_CHECKING:
    import pandas as pd

FORMAT_VERSION = 6
WEIGHTS, CONFIG, CLASSES, CARD = "model.safetensors", "config.json", "classes.parquet", "README.md"
_KINDS = {"U": "string", "O": "object", "i": "integer", "u": "integer", "f": "number", "b": "bool"}

# What each entry of a config must be; those that may be missing are None then.
_ENTRIES: dict[str, tuple[type, ...]] = {
    "format_version": (int,),
    "method": (str,),
    "parameters": (dict,),
    "n_features": (int,),
    "n_attributes": (int,),
    "has_attributes": (bool,),
    "labels": (str,),
    "arrays": (dict,),
    "about": (dict, type(None)),
    "parents": (dict, type(None)),
    "feature_names": (list, type(None)),
}
_LABELS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (float, int),
    "bool": (bool,),
    "object": (str, int, float, bool),
}


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

    model = model._snapshot()
    table, state = model._table, model._state()
    config = {
        "method": saved_name(model),
        "hgkt_version": version("hgkt"),
        "parameters": plain(model.get_params(deep=False)),
        "n_features": int(model.n_features_in_),
        "n_attributes": model._n_attributes,
        "has_attributes": bool(table.has_attributes),
        "labels": _KINDS[table.labels.dtype.kind],
        "about": plain({**getattr(model, "about_", {}), **about}),
        "parents": model.parents_,
        "feature_names": plain(getattr(model, "feature_names_in_", None)),
        "arrays": {name: _layout(array) for name, array in state.items()},
    }
    try:
        _check_arrays(state, config["arrays"])
    except DataError as error:
        raise ModelFolderError(f"this model cannot be saved: {error}") from error
    classes = pd.DataFrame(
        {
            "name": table.labels.tolist(),
            "seen": np.arange(len(table.labels)) < table.n_seen,
            "attributes": list(table.attributes.array),
        }
    )
    folder = ModelFolder(config, state, classes, _card(config, classes, _members(model)))
    return write_model_folder(path, folder)


def load_model(path: str | Path) -> Any:
    """Load the model folder at `path`; nothing in it is executed.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    estimator
        A fitted classifier with the classes it had when it was saved.
    """
    return build_model(read_model_folder(path), path)


def build_model(folder: ModelFolder, path: str | Path) -> Any:
    """Make the estimator of what a model folder holds; `path` is for messages."""
    try:
        return _restore(folder)
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


def read_model_folder(path: str | Path) -> ModelFolder:
    """Read and verify a model folder.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    ModelFolder
    """
    from safetensors.numpy import load

    path = check_model(path)
    config = _read_config(path)
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


def _read_config(path: Path) -> dict[str, Any]:
    config = json_object(_read(path / CONFIG), path / CONFIG, ModelFolderError)
    if not isinstance(config.get("sha256"), dict):
        raise ModelFolderError(f"{path / CONFIG} is not the config of an hgkt model")
    found = config.get("format_version")
    if found != FORMAT_VERSION:
        raise ModelFolderError(
            f"{path} has format version {found}; this release reads version {FORMAT_VERSION}"
        )
    if config["sha256"].get(CONFIG) != config_digest(config):
        raise ModelFolderError(
            f"{path / CONFIG} is not the file that was saved (its checksum differs)"
        )
    return config


def _members(model: GZSLClassifier) -> str:
    """Return the members of an ensemble as a table of the card."""
    table = getattr(model, "member_table", lambda: None)()
    if table is None:
        return ""
    header, rows = table
    lines = ["| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]]
    return "\n\n## Members\n" + "\n".join(lines)


def _card(config: dict[str, Any], classes: pd.DataFrame, members: str = "") -> str:
    seen = int(classes["seen"].sum())
    facts = {key: value for key, value in config["about"].items() if key != "examples"}
    about = "\n".join(f"- {key}: {value}" for key, value in facts.items()) or "- unknown"
    found = {key: value for key, value in config["parameters"].items() if key != "members"}
    parameters = "\n".join(f"- {key}: {value!r}" for key, value in found.items()) + members
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


# ---------------------------------------------------------------------- from folder to model
def _restore(folder: ModelFolder) -> GZSLClassifier:
    """Make the estimator that a folder describes.

    Raises
    ------
    DataError
        Where a part is missing, of another kind or shape, not finite, or does not fit the others.
    """
    config = folder.config
    _check_config(config)
    _check_arrays(folder.arrays, config["arrays"])
    model: GZSLClassifier = METHODS.load(config["method"])(**config["parameters"])
    labels, n_seen = _labels(config, folder.classes)
    vectors = dict(enumerate(folder.classes["attributes"]))
    attributes = attribute_matrix(vectors, list(vectors), config["n_attributes"])
    model.n_features_in_ = config["n_features"]
    held = attributes.size + sum(array.size for array in folder.arrays.values())
    if model.n_features_in_ > held:  # a row of so many would be made to try the model
        raise DataError(
            f"it says that rows have {model.n_features_in_:,} features and holds {held:,} numbers"
        )
    model.about_ = config.get("about") or {}
    if config.get("feature_names") is not None:
        model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    model._restore(folder.arrays, labels, attributes, config["has_attributes"])
    model._parents = check_parents(config.get("parents") or {})
    if model._table.n_seen != n_seen:
        raise DataError("its table of classes and its arrays differ in how many classes were seen")
    _try(model)
    return model


def _layout(array: NDArray[Any]) -> dict[str, Any]:
    """Return what a config says of an array."""
    return {"dtype": str(array.dtype), "shape": list(array.shape)}


def _check_arrays(arrays: Mapping[str, NDArray[Any]], layouts: Mapping[str, Any]) -> None:
    """Refuse arrays that are missing, of another shape or type than was saved, or not finite."""
    for name in arrays:
        if name not in layouts:
            raise DataError(f"it has an array {name!r}, which its config does not name")
    for name, layout in layouts.items():
        if name not in arrays:
            raise DataError(f"array {name!r} is missing")
        found = _layout(arrays[name])
        if found != layout:
            raise DataError(f"array {name!r} is {found}; {layout!r:.80} is expected")
        if arrays[name].dtype.kind == "f" and not np.isfinite(arrays[name]).all():
            raise DataError(f"array {name!r} holds NaN or infinity; finite numbers are expected")


def _check_config(config: Mapping[str, Any]) -> None:
    for name, kinds in _ENTRIES.items():
        value = config.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise DataError(
                f"{name!r} of its config is {value!r:.40}; {kinds[0].__name__} expected"
            )
    for name in ("n_features", "n_attributes"):
        check_number(name, config[name], low=1, integer=True)
    if config["labels"] not in _LABELS:
        raise DataError(f"its labels are of the unknown kind {config['labels']!r:.40}")
    names = config.get("feature_names")
    if names is not None and (
        len(names) != config["n_features"] or not all(isinstance(name, str) for name in names)
    ):
        raise DataError(f"feature_names of its config are not {config['n_features']} names")


def _labels(config: Mapping[str, Any], table: pd.DataFrame) -> tuple[NDArray[Any], int]:
    """Return the labels, seen ones first, and the number of those."""
    missing = {"name", "seen", "attributes"} - set(table.columns)
    if missing:
        raise DataError(f"its table of classes has no column {min(missing)!r}")
    labels, kinds = table["name"].tolist(), _LABELS[config["labels"]]
    for label in labels:
        if not isinstance(label, kinds) or (isinstance(label, bool) and bool not in kinds):
            raise DataError(f"class {label!r:.60} is no label of the kind {config['labels']!r}")
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise DataError(f"it has class {twice!r:.60} twice")
    refuse_twins(labels)
    if table["seen"].dtype != bool:
        raise DataError("its table of classes does not say which classes are seen")
    seen = table["seen"].to_numpy()
    n_seen = int(seen.sum())
    names = np.array(labels, dtype=object)
    if config["labels"] != "object":
        names = np.array(labels)
    if n_seen < 2 or not seen[:n_seen].all():
        raise DataError("its table of classes does not begin with the seen ones")
    return names, n_seen


def _try(model: GZSLClassifier) -> None:
    """Embed a class and score a row: what does not fit together shows here, not in a request."""
    table = model._table
    with np.errstate(all="ignore"):
        made = model._embed_classes(table.seen_attributes[:1])
        n_added = len(table.labels) - table.n_seen
        groups = ((table.seen, table.n_seen, True), (table.added_rows, n_added, False))
        row = model._map_features(np.full((1, model.n_features_in_), 0.5))
        for rows, n_classes, seen in groups:
            if made.keys() != rows.keys():
                raise DataError("its rows of classes are not those of the method")
            for key, array in rows.items():
                if len(array) != n_classes or array.shape[1:] != made[key].shape[1:]:
                    raise DataError(f"the rows of its classes under {key!r} do not fit the method")
            scores = model._score(row, rows, seen) if n_classes else np.zeros((1, 0))
            if scores.shape != (1, n_classes) or np.isnan(scores).any():
                raise DataError("it does not score its classes")
        check_number("its calibration", model.gamma_)
