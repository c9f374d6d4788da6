"""Options that several commands share, as parameters that are dataclasses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Spread parameters that are dataclasses of options, such as `FitOptions`, for Typer."""
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in own.items()
        if is_dataclass(parameter.annotation)
    }
    fields = {name: _fields(kind) for name, kind in groups.items()}
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, single in own.items()
        for parameter in (fields[name].values() if name in fields else (single,))
    ]

    @wraps(command)
    def call(**values: Any) -> None:
        options = {
            name: kind(**{field: values.pop(field) for field in fields[name]})
            for name, kind in groups.items()
        }
        command(**options, **values)

    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(call)["__signature__"] = inspect.Signature(parameters)
    return call


def _fields(kind: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a dataclass, their types as the module of each field has them."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(kind).parameters.items()
    }
