"""Model folders of earlier formats, read as today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators.methods import METHODS
from hgkt.exceptions import ModelFolderError


def upgrade(
    config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_seen: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return config and arrays of a folder of an earlier format as those of today's.

    Format 1 had one class for closed form and network, and kept the calibration of other methods
    among what a model was made with. Format 2 had other names for the maps of rows, and for the
    network a scale of its loss, which no trained model needs.
    """
    parameters = _map_parameters(config["method"], config["parameters"])
    parameters.pop("loss_reduction", None)
    config = {**config, "parameters": parameters}
    if config["format_version"] == 1:
        return _from_first(config, arrays, n_seen)
    return config, dict(arrays)


def _from_first(
    config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], n_seen: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    method, about = config["method"], dict(config.get("about", {}))
    parameters = dict(config["parameters"])
    if method == "hgkt" and parameters.get("transfer") == "network":
        method, parameters = "hgkt-network", _network_parameters(parameters)
    if "calibration" in about:
        parameters["calibration"] = about.pop("calibration")
    known = METHODS.load(method)._get_param_names()
    parameters = {name: value for name, value in parameters.items() if name in known}
    # Only a closed form could grow then; the classes of all others are those of their fit.
    arrays = {"grown": np.zeros(n_seen, dtype=bool), **arrays}
    return {**config, "method": method, "parameters": parameters, "about": about}, arrays


def _map_parameters(method: str, old: Mapping[str, Any]) -> dict[str, Any]:
    new = dict(old)
    if "normalize_attributes" in new:
        new["attribute_map"] = "l2" if new.pop("normalize_attributes") else "none"
    if new.get("scaling") == "l2":
        new |= {"scaling": "none", "feature_map": "l2"}
    if method == "sse":
        new["comparison"] = new.pop("feature_map", "relu")
    return new


def _network_parameters(old: Mapping[str, Any]) -> dict[str, Any]:
    if old.get("activation", "leaky_relu") != "leaky_relu":
        raise ModelFolderError(
            f"this network's hidden layer is {old['activation']!r}; this release has leaky ReLU "
            "only, load it with hgkt 0.1"
        )
    new = dict(old)
    if not old.get("inter", True):
        new["n_neighbors"] = 0
    if old.get("solver") == "sinkhorn" and old.get("representative") == "wasserstein":
        new["representative"] = "sinkhorn"
    if old.get("training") != "sampled":
        new["n_sampled"] = None
    return new
