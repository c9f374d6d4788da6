"""A fitted estimator to its model folder and back."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators._rows import GrowingRows
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.calibration import CalibratedStacking
from hgkt.estimators.registry import METHODS
from hgkt.exceptions import ModelFolderError
from hgkt.persistence import ModelFolder, read_model_folder, write_model_folder

if TYPE_CHECKING:
    import pandas as pd

_KINDS = {"U": "string", "O": "object", "i": "integer", "u": "integer", "f": "number", "b": "bool"}


def save_model(model: GZSLClassifier, path: str | Path, about: dict[str, Any]) -> Path:
    """Write a fitted model; `about` says what it was made with and is kept in the config."""
    target = f"{type(model).__module__}:{type(model).__qualname__}"
    method = next((name for name, entry in METHODS.items() if entry.target == target), None)
    if method is None:
        raise ModelFolderError(
            f"{type(model).__name__} is not a registered method, so it could not be loaded again; "
            "add it to hgkt.estimators.registry.METHODS"
        )
    import pandas as pd

    about = {**getattr(model, "about_", {}), **about}
    config = {
        "method": method,
        "hgkt_version": version("hgkt"),
        "parameters": _plain(model.get_params(deep=False)),
        "n_features": int(model.n_features_in_),
        "n_attributes": int(model.class_attributes_.shape[1]),
        "has_attributes": bool(model._has_attributes),
        "labels": _KINDS[model.classes_.dtype.kind],
        "about": _plain(about),
    }
    classes = pd.DataFrame(
        {
            "name": model.classes_.tolist(),
            "seen": [i < len(model.seen_classes_) for i in range(len(model.classes_))],
            "attributes": list(model.class_attributes_),
        }
    )
    return write_model_folder(
        path, ModelFolder(config, model._state(), classes, _card(config, classes))
    )


def load_model(path: str | Path) -> Any:
    """Load the model folder at `path`; nothing in it is executed.

    Returns
    -------
    estimator
        A fitted classifier with the classes it had when it was saved.
    """
    folder = read_model_folder(path)
    try:
        model = METHODS.load(folder.config["method"])(**folder.config["parameters"])
        table = folder.classes
        names = _labels(table["name"].tolist(), folder.config["labels"])
        attributes = np.array(table["attributes"].tolist(), dtype=np.float64)
        n_seen = int(table["seen"].sum())
        model.n_features_in_ = int(folder.config["n_features"])
        model._has_attributes = bool(folder.config["has_attributes"])
        model.about_ = folder.config.get("about", {})
        model.seen_classes_, model.unseen_classes_ = names[:n_seen], names[n_seen:]
        model._seen_attributes = attributes[:n_seen]
        model._added_attributes = GrowingRows(attributes[n_seen:])
        model._restore(folder.arrays)
    except (KeyError, TypeError, IndexError) as error:
        raise ModelFolderError(f"{path} does not hold a complete model: {error}") from error
    if "calibration" in model.about_:
        return CalibratedStacking.from_fitted(model, float(model.about_["calibration"]))
    return model


def _labels(names: list[Any], kind: str) -> NDArray[Any]:
    return np.array(names, dtype=object) if kind == "object" else np.array(names)


def _plain(value: Any) -> Any:
    """Turn NumPy scalars, arrays and paths into what JSON can say."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise ModelFolderError(f"a parameter of type {type(value).__name__} cannot be saved")


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
