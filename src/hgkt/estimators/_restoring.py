"""From the contents of a model folder to a fitted estimator, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import attribute_matrix, check_number
from hgkt.estimators._rows import GrowingRows
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.methods import METHODS
from hgkt.estimators.state_rules import check_arrays
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

_STRICT = 4
"""The first format in which an array that the method does not know is an error."""

# What each entry of a config must be; those that may be missing are None then.
_ENTRIES: dict[str, tuple[type, ...]] = {
    "format_version": (int,),
    "method": (str,),
    "parameters": (dict,),
    "n_features": (int,),
    "n_attributes": (int,),
    "has_attributes": (bool,),
    "labels": (str,),
    "about": (dict, type(None)),
    "feature_names": (list, type(None)),
}
_LABELS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (float, int),
    "bool": (bool,),
    "object": (str, int, float, bool),
}


def restore(
    config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], table: pd.DataFrame
) -> GZSLClassifier:
    """Make the estimator that a folder of today's format describes.

    Parameters
    ----------
    config : mapping
        Method, parameters, sizes and what the model was made with.
    arrays : mapping of str to ndarray
        Learned arrays.
    table : DataFrame
        One row per class, seen ones first: ``name``, ``seen``, ``attributes``.

    Raises
    ------
    DataError
        Where a part is missing, of another kind, shape or length, not finite, or does not fit the
        others.
    """
    _check_config(config)
    model: GZSLClassifier = METHODS.load(config["method"])(**config["parameters"])
    names, n_seen = _labels(config, table)
    width = config["n_attributes"]
    rows = dict(enumerate(table["attributes"]))
    attributes = attribute_matrix(rows, list(rows), width)
    model.n_features_in_ = config["n_features"]
    model._has_attributes = config["has_attributes"]
    model.about_ = config.get("about") or {}
    if config.get("feature_names") is not None:
        model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    model.seen_classes_, model.unseen_classes_ = names[:n_seen], names[n_seen:]
    model._seen_attributes = attributes[:n_seen]
    model._added_attributes = GrowingRows(attributes[n_seen:])
    rules = model._state_rules(arrays.keys())
    if config["format_version"] < _STRICT:
        arrays = {name: array for name, array in arrays.items() if name in rules}
    check_arrays(arrays, rules, array_sizes(model))
    model._restore(arrays)
    _try(model)
    return model


def array_sizes(model: GZSLClassifier) -> dict[str, int]:
    """Return the sizes that the rules of a model's arrays speak of; see `Rule`."""
    return {
        "L": len(model.seen_classes_),
        "U": len(model.unseen_classes_),
        "D": int(model.n_features_in_),
        "d": model._seen_attributes.shape[1],
        "n_matrices": int(getattr(model, "n_matrices", 1)),
    }


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
    with np.errstate(all="ignore"):
        made = model._embed_classes(model._seen_attributes[:1])
        for key, rows in made.items():
            for kept in (model._seen_table.get(key), model._added_table[key].array):
                if kept is None or (kept.shape[1:], kept.dtype.kind) != (
                    rows.shape[1:],
                    rows.dtype.kind,
                ):
                    raise DataError(f"the rows of its classes under {key!r} do not fit the method")
        if made.keys() != model._seen_table.keys():
            raise DataError("its tables of classes are not those of the method")
        row = model._map_features(np.full((1, model.n_features_in_), 0.5))
        added = {key: rows.array for key, rows in model._added_table.items()}
        for table, classes, seen in (
            (model._seen_table, model.seen_classes_, True),
            (added, model.unseen_classes_, False),
        ):
            scores = model._score(row, table, seen) if len(classes) else np.zeros((1, 0))
            if scores.shape != (1, len(classes)) or np.isnan(scores).any():
                raise DataError("it does not score its classes")
        check_number("its calibration", model.gamma_)
