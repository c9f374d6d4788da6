"""The methods by name, HGKT here and others where they are installed, and their presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from hgkt._registry import Entry, Registry
from hgkt.exceptions import DataError, UnknownNameError, first_line

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, ShardedData

Model = TypeVar("Model")

_REFERENCE = (
    "Wang et al., Heterogeneous Graph-based Knowledge Transfer for Generalized Zero-shot "
    "Learning, 2019"
)


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
    wanted = _own_classes()[method]
    if not issubclass(cls, wanted):
        raise UnknownNameError(f"{name!r} is a preset of {wanted.__name__}, not of {cls.__name__}")
    return cls(**{**preset.parameters, **parameters})


def attribute_methods() -> list[str]:
    """Return the names of the methods that take class vectors of any kind.

    Examples
    --------
    >>> "ridge" in attribute_methods(), "zero-shot" in attribute_methods()
    (True, False)
    """
    return [name for name, entry in METHODS.items() if not entry.shared_space]


def _where_moved(cls: Any, name: str) -> str | None:
    """Return which class has a parameter that `cls` has not: closed form or network, or None."""
    kinds = _own_classes()
    if not issubclass(cls, tuple(kinds.values())) or name in cls._get_param_names():
        return None
    for method, sister in kinds.items():
        if name in sister._get_param_names():
            return f"it is a parameter of {sister.__name__} (method {method})"
    return None


def _own_classes() -> dict[str, Any]:
    return {name: METHODS.load(name) for name in ("hgkt", "hgkt-network")}


# A package adds methods by an entry point of this group that names a dict of entries.
METHODS = Registry(
    "method",
    {
        "hgkt": Entry(
            "hgkt.estimators.hgkt:HGKTClassifier",
            "graph-based knowledge transfer in closed form",
            _REFERENCE,
            "graph",
        ),
        "hgkt-network": Entry(
            "hgkt.estimators.network:HGKTNetworkClassifier",
            "graph-based knowledge transfer as published",
            _REFERENCE,
            "graph",
        ),
    },
    shipped="hgkt.baselines:BASELINES",
    entry_points="hgkt.methods",
)


def build_method(
    method: str,
    preset: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    data: str | None = None,
    **common: Any,
) -> Any:
    """Return an unfitted estimator by name.

    Parameters
    ----------
    method : str
        A registered name, or a method of one's own as ``"package.module:Class"``.
    preset : str, optional
        A preset of the method, one of `presets_of`; with method "hgkt" the presets "paper" and
        "exact" stand for "hgkt-network".
    parameters : mapping, optional
        Parameters of the method; an unknown one is refused. They win over a preset's.
    data : str, optional
        Name of the data set it is for: a preset may have settings of its own for it.
    **common
        Parameters that are set where the method has them: seed, device, attribute blocks.

    Examples
    --------
    >>> build_method("hgkt", "paper", {"mu": 0.1}, random_state=0, attribute_blocks=None).mu
    0.1
    >>> build_method("hgkt", parameters={"mu": 0.1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hgkt.exceptions.DataError: method 'hgkt' has no parameter 'mu': it is a parameter of ...
    """
    method, chosen = _of_preset(method, preset, data) if preset else (method, {})
    kind = _load(method)
    known = kind._get_param_names()
    for name in parameters or {}:
        if name not in known:
            reason = _where_moved(kind, name)
            rest = f": {reason}" if reason else f"; choose from: {', '.join(sorted(known))}"
            raise DataError(f"method {method!r} has no parameter {name!r}{rest}")
    given = {name: value for name, value in common.items() if name in known}
    return kind(**{**given, **chosen, **(parameters or {})})


def method_for(
    dataset: GZSLDataset | ShardedData,
    method: str = "hgkt",
    preset: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    **common: Any,
) -> Any:
    """Return an unfitted estimator for a data set: `build_method`, with what is known of the data.

    Parameters
    ----------
    dataset : GZSLDataset or ShardedData
        The data; ``about`` says how long each part of the attribute vectors is, and whether texts
        are vectors of the features' space.
    method, preset, parameters, **common
        See `build_method`.
    """
    blocks = list(dataset.about.get("attribute_blocks") or [])
    common["attribute_blocks"] = blocks if len(blocks) > 1 else None
    common["shared_space"] = shared_space(dataset.about)
    return build_method(method, preset, parameters, dataset.name, **common)


def shared_space(about: Mapping[str, Any]) -> bool | int:
    """Return what of the class vectors lies in the features' space: all, nothing, or which block.

    Parameters
    ----------
    about : mapping
        What features and attributes are: ``shares_space`` and ``attribute_kinds`` are read.

    Examples
    --------
    >>> shared_space({"shares_space": True, "attribute_kinds": ["text"]}), shared_space({})
    (True, False)
    >>> shared_space({"shares_space": True, "attribute_kinds": ["att", "text"]})
    1
    """
    if not about.get("shares_space"):
        return False
    kinds = list(about.get("attribute_kinds") or ())
    return kinds.index("text") if len(kinds) > 1 else True


def presets_of(method: str) -> tuple[str, ...]:
    """Return the names of a method's presets; "released" are the settings its authors published.

    Examples
    --------
    >>> presets_of("hgkt"), presets_of("cn-zsl"), presets_of("ridge")
    (('default', 'paper', 'exact'), ('released',), ())
    """
    if method.lower() == "hgkt":
        return tuple(PRESETS)
    own = tuple(name for name, (target, _) in PRESETS.items() if target == method.lower())
    return own + tuple(_load(method).named_presets)


def _load(method: str) -> Any:
    return _own_method(method) if ":" in method else METHODS.load(method)


def _own_method(target: str) -> type:
    """Import a class by ``package.module:Class``."""
    from hgkt.estimators.base import GZSLClassifier

    try:
        kind = Entry(target, "").load()
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownNameError(
            f"method {target!r} cannot be imported: {first_line(error)}; package.module:Class is "
            "expected"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, GZSLClassifier)):
        raise UnknownNameError(f"method {target!r} is no subclass of GZSLClassifier")
    return kind


def _of_preset(method: str, preset: str, data: str | None) -> tuple[str, dict[str, Any]]:
    """Return the method that a preset stands for, and its parameters there."""
    choices = presets_of(method)
    if not choices:
        raise DataError(f"method {method!r} has no presets; leave out the preset {preset!r}")
    if preset in choices:
        if preset in PRESETS:
            target, parameters = PRESETS[preset]
            return target, parameters.on(data)
        return method, _load(method).named_presets[preset].on(data)
    if preset in PRESETS:
        raise DataError(
            f"preset {preset!r} is one of method {PRESETS[preset][0]!r}, not {method!r}"
        )
    raise UnknownNameError(f"unknown preset {preset!r}; choose from: {', '.join(choices)}")
