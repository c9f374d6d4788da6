"""From arrays, paths and records to what JSON can say, once for the whole package."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Turn a value into dicts, lists, numbers, texts and None.

    NaN and infinity become None, a path its text, a dataclass a dict, any other object its repr.

    Examples
    --------
    >>> plain({"a": np.float64(1.5), 2: (1, None), "c": float("nan"), "d": np.arange(2)})
    {'a': 1.5, '2': [1, None], 'c': None, 'd': [0, 1]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    return repr(value)


def json_text(value: Any, indent: int | None = 2) -> str:
    """Return a value as JSON text that ends with a line break."""
    return json.dumps(plain(value), indent=indent, allow_nan=False) + "\n"


def short(value: Any, digits: int = 4) -> str:
    """Return a value as a person reads it: floats with few digits, lists of dicts by their number.

    Examples
    --------
    >>> short(0.123456), short([{"kernel": "rbf"}, {"kernel": "linear"}])
    ('0.1235', '2')
    >>> short({"offset": 0.09622, "slope": 0.17333}, 3)
    '(offset 0.0962, slope 0.173)'
    """
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return str(len(value))
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {short(part, digits)}' for name, part in value.items())})"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
