"""Named sets of parameters: HGKT's own, and those that the authors of other methods released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hgkt.exceptions import UnknownNameError

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


# The letter of the paper: Adam, S = 50 drawn neighbours, the entropic barycenter, features as they
# are. Its ε = 1e-5 is on the cost divided by its maximum: on the raw cost exp(−1/ε) is zero in
# floating point, no mass can move, and the iteration returns a geometric mean.
_PAPER = Preset(
    {
        "representative": "sinkhorn",
        "reg": 1e-5,
        "optimizer": "adam",
        "n_sampled": 50,
        "feature_norm": None,
    }
)

PRESETS = {
    "default": ("hgkt", Preset({})),
    "paper": ("hgkt-network", _PAPER),
    "exact": ("hgkt-network", Preset({})),
}
"""Presets of HGKT: method and parameters. "default" and "exact" are the defaults of their class."""


def take_preset(cls: type[Model], name: str, parameters: Mapping[str, Any]) -> Model:
    """Return a model of class `cls` with a preset's parameters, some of them overridden."""
    if name not in PRESETS:
        raise UnknownNameError(f"unknown preset {name!r}; choose from: {', '.join(PRESETS)}")
    method, preset = PRESETS[name]
    wanted = _classes()[method]
    if not issubclass(cls, wanted):
        raise UnknownNameError(f"{name!r} is a preset of {wanted.__name__}, not of {cls.__name__}")
    return cls(**{**preset.parameters, **parameters})


def refuse_moved_parameters(cls: type, parameters: Mapping[str, Any]) -> None:
    """Refuse a parameter that only the sister of a class has, with a sentence that names her."""
    for name in parameters:
        reason = where_moved(cls, name)
        if reason is not None:
            raise TypeError(f"{cls.__name__} has no parameter {name!r}: {reason}")


def where_moved(cls: Any, name: str) -> str | None:
    """Return which class has a parameter that `cls` has not: closed form or network, or None.

    Examples
    --------
    >>> from hgkt import HGKTClassifier
    >>> where_moved(HGKTClassifier, "mu")
    'it is a parameter of HGKTNetworkClassifier (method hgkt-network)'
    """
    kinds = _classes()
    if not issubclass(cls, tuple(kinds.values())) or name in cls._get_param_names():
        return None
    for method, sister in kinds.items():
        if name in sister._get_param_names():
            return f"it is a parameter of {sister.__name__} (method {method})"
    return None


def _classes() -> dict[str, Any]:
    from hgkt.estimators.hgkt import HGKTClassifier
    from hgkt.estimators.hgkt_network import HGKTNetworkClassifier

    return {"hgkt": HGKTClassifier, "hgkt-network": HGKTNetworkClassifier}
