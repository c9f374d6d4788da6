"""Which of the values that selection chose end their grid, and what lies beyond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def numbers_tried(method: str) -> dict[str, list[float]]:
    """Return the numbers that selection tries of each parameter, in order; three or more.

    Parameters
    ----------
    method : str
        Registered name.
    """
    from hgkt.estimators.methods import build_method

    tried: dict[str, set[float]] = {}
    for stage in build_method(method).default_stages():
        for grid in stage if isinstance(stage, list) else [stage]:
            for parameter, values in grid.items():
                tried.setdefault(parameter, set()).update(v for v in values if _is_number(v))
    return {name: sorted(values) for name, values in tried.items() if len(values) > 2}


def at_ends(tried: Mapping[str, list[float]], selected: Mapping[str, Any]) -> list[str]:
    """Return the parameters whose chosen value ends its grid.

    Nothing at all (0) and the least or whole of a thing (1) end it by nature and do not count.

    Parameters
    ----------
    tried : mapping
        What `numbers_tried` found.
    selected : mapping
        What was chosen.
    """
    return [
        name
        for name, value in selected.items()
        if name in tried
        and _is_number(value)
        and value not in (0, 1)
        and value in (tried[name][0], tried[name][-1])
    ]


def beyond(numbers: list[float], chosen: float, n_steps: int = 2) -> list[float]:
    """Return the numbers that would come next, by the ratio of the last step.

    Parameters
    ----------
    numbers : list of float
        The grid, in order.
    chosen : float
        Its first or its last number.
    n_steps : int
        How many to return.
    """
    near = numbers[1] if chosen == numbers[0] else numbers[-2]
    ratio = chosen / near if near else 0.1
    further = [chosen * ratio**step for step in range(1, n_steps + 1)]
    whole = all(isinstance(number, int) for number in numbers)
    return [round(number) for number in further] if whole else further


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
