"""Where a computation spends its time: seconds of some functions in one profiled call."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from threadpoolctl import threadpool_limits


@dataclass(frozen=True)
class Code:
    """A function to look for in a profile.

    Parameters
    ----------
    file : str
        End of its path, such as ``"hgkt/_arrays.py"``.
    name : str
        Of the function.
    inside : bool
        Whether what it calls counts.
    """

    file: str
    name: str
    inside: bool = True


REST = "the rest"


def stage_seconds(call: Callable[[], Any], stages: Mapping[str, Code]) -> list[dict[str, Any]]:
    """Call a function once under Python's profiler; return the CPU seconds of each stage.

    On one thread: that is what other work on the machine disturbs least.

    Parameters
    ----------
    call : callable
        What is profiled, in this thread.
    stages : mapping of str to Code
        The function that each stage is. Stages must not lie inside each other.

    Returns
    -------
    list of dict
        ``stage``, ``seconds`` and ``share`` of all seconds, the rest last.

    Examples
    --------
    >>> def inner():
    ...     return sum(range(100_000))
    >>> rows = stage_seconds(lambda: inner(), {"summing": Code("<stdin>", "inner")})
    >>> [row["stage"] for row in rows]
    ['summing', 'the rest']
    """
    profile = cProfile.Profile(time.process_time)
    with threadpool_limits(1):
        profile.runcall(call)
    found = pstats.Stats(profile)
    total: float = found.total_tt  # type: ignore[attr-defined]
    seconds = {stage: _seconds(found, code) for stage, code in stages.items()}
    seconds[REST] = max(total - sum(seconds.values()), 0.0)
    return [
        {"stage": stage, "seconds": took, "share": took / max(total, 1e-12)}
        for stage, took in seconds.items()
    ]


def _seconds(found: pstats.Stats, code: Code) -> float:
    rows: dict[tuple[str, int, str], Any] = found.stats  # type: ignore[attr-defined]
    return sum(
        (within if code.inside else own)
        for (file, _, name), (_, _, own, within, _) in rows.items()
        if name == code.name and PurePath(file).as_posix().endswith(code.file)
    )
