"""The methods by name: HGKT here, others where they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hgkt._registry import Entry, Registry
from hgkt.estimators._presets import PRESETS, where_moved
from hgkt.exceptions import DataError, UnknownNameError, first_line

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, ShardedData

_PAPER = (
    "Wang et al., Heterogeneous Graph-based Knowledge Transfer for Generalized Zero-shot "
    "Learning, 2019"
)

# A package adds methods by an entry point of this group that names a dict of entries, as
# `hgkt.baselines` does.
METHODS = Registry(
    "method",
    {
        "hgkt": Entry(
            "hgkt.estimators.hgkt:HGKTClassifier",
            "graph-based knowledge transfer in closed form",
            _PAPER,
            "graph",
        ),
        "hgkt-network": Entry(
            "hgkt.estimators.hgkt_network:HGKTNetworkClassifier",
            "graph-based knowledge transfer as published",
            _PAPER,
            "graph",
        ),
    },
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
            reason = where_moved(kind, name)
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
    """Return an unfitted estimator for a data set: `build_method`, with its attribute blocks.

    Parameters
    ----------
    dataset : GZSLDataset or ShardedData
        The data; attribute vectors of several parts say in ``about`` how long each is.
    method, preset, parameters, **common
        See `build_method`.
    """
    blocks = list(dataset.about.get("attribute_blocks") or [])
    common["attribute_blocks"] = blocks if len(blocks) > 1 else None
    return build_method(method, preset, parameters, dataset.name, **common)


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
