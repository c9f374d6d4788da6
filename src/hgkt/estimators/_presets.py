"""Named sets of parameters, and what to say of parameters that have moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hgkt.exceptions import UnknownNameError

# Every value of a preset is its class's default.
PRESETS = {"default": "hgkt", "paper": "hgkt-network"}

_TRANSFER = "HGKTClassifier is the closed form, HGKTNetworkClassifier the network"
_MOVED = {
    "hgkt": {
        "transfer": _TRANSFER,
        "random_state": "the closed form draws no random numbers",
    },
    "hgkt-network": {
        "transfer": _TRANSFER,
        "inter": "n_neighbors=0 leaves out the edges between classes",
        "solver": "representative='sinkhorn' takes the entropic solver, with reg",
        "training": "n_sampled=None trains on all neighbours exactly, a number draws so many",
        "batch_size": "it is 64; hgkt.network.config.TrainingConfig has it",
        "activation": "the hidden layer is leaky ReLU; hgkt.network.config.TrainingConfig has it",
        "loss_reduction": "the loss is a sum over features; a mean over D of them has the same "
        "minimum as a sum with D times the weight_decay",
        "dtype": "the network has the type of the features, float32 or float64",
        "checkpoint": "call write_to(checkpoint=…) before fit",
        "tensorboard": "call write_to(tensorboard=…) before fit",
    },
}

Model = TypeVar("Model")


@dataclass(frozen=True)
class Preset:
    """A named set of parameters of a method, such as those its authors released.

    Parameters
    ----------
    parameters : mapping
        Parameters that differ from the defaults.
    by_data : mapping
        Further ones for single data sets, by name; they win over `parameters`.

    Examples
    --------
    >>> preset = Preset({"factor": 0.95}, {"CUB": {"factor": 1.0}})
    >>> preset.on("CUB"), preset.on("AWA1"), preset.on(None)
    ({'factor': 1.0}, {'factor': 0.95}, {'factor': 0.95})
    """

    parameters: Mapping[str, Any]
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def on(self, data: str | None) -> dict[str, Any]:
        """Return the parameters for the data set of that name."""
        return {**self.parameters, **self.by_data.get(data or "", {})}


def take_preset(cls: type[Model], name: str, parameters: Mapping[str, Any]) -> Model:
    """Return a model of class `cls` with a preset's parameters, some of them overridden."""
    if name not in PRESETS:
        raise UnknownNameError(f"unknown preset {name!r}; choose from: {', '.join(PRESETS)}")
    wanted = _classes()[PRESETS[name]]
    if not issubclass(cls, wanted):
        raise UnknownNameError(f"{name!r} is a preset of {wanted.__name__}, not of {cls.__name__}")
    return cls(**parameters)


def refuse_moved_parameters(cls: type, parameters: Mapping[str, Any]) -> None:
    """Refuse a parameter that a class had once, or its sister has, saying what to do instead."""
    for name in parameters:
        reason = where_moved(cls, name)
        if reason is not None:
            raise TypeError(f"{cls.__name__} has no parameter {name!r}: {reason}")


def where_moved(cls: type, name: str) -> str | None:
    """Return what to do instead of setting a parameter that `cls` has not, where that is known.

    Examples
    --------
    >>> from hgkt import HGKTClassifier
    >>> where_moved(HGKTClassifier, "mu")
    'it is a parameter of HGKTNetworkClassifier (method hgkt-network)'
    """
    for method, kind in _classes().items():
        if not issubclass(cls, kind) or name in kind._get_param_names():
            continue
        if name in _MOVED[method]:
            return _MOVED[method][name]
        for other, sister in _classes().items():
            if name in sister._get_param_names() or name in _MOVED[other]:
                return f"it is a parameter of {sister.__name__} (method {other})"
    return None


def _classes() -> dict[str, Any]:
    from hgkt.estimators.hgkt import HGKTClassifier
    from hgkt.estimators.hgkt_network import HGKTNetworkClassifier

    return {"hgkt": HGKTClassifier, "hgkt-network": HGKTNetworkClassifier}
