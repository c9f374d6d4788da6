"""Tasks for tests of the engines; worker processes import this file by its folder."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

Outcome = tuple[dict[str, Any], dict[str, Any]]


def show(cell: Any, dataset: Any) -> Outcome:
    """Say where and on what it ran, once two processes have come to ``options["meet"]``."""
    if "meet" in cell.options:
        folder, end = Path(cell.options["meet"]), time.monotonic() + 120
        (folder / f"came-{os.getpid()}").touch()
        while len(list(folder.glob("came-*"))) < 2 and time.monotonic() < end:
            time.sleep(0.01)
    said = {
        "pid": os.getpid(),
        "n_instances": len(dataset.features),
        "id": id(dataset),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }
    return said, {"seed": np.array([cell.seed])}


def count(cell: Any, dataset: Any) -> Outcome:
    """Leave a line in a file: how often it really ran."""
    time.sleep(cell.options.get("seconds", 0))
    with open(cell.options["file"], "a") as file:
        file.write(f"{cell.seed}\n")
    return {"pid": os.getpid()}, {}


def fail(cell: Any, dataset: Any) -> Outcome:
    """Raise."""
    raise ZeroDivisionError("on purpose")


def die(cell: Any, dataset: Any) -> Outcome:
    """Kill the process it runs in, the first ``options["times"]`` times."""
    folder = Path(cell.options["folder"])
    n_deaths = len(list(folder.glob(f"death-{cell.seed}-*")))
    if n_deaths < cell.options.get("times", 10**9):
        (folder / f"death-{cell.seed}-{n_deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"n_deaths": n_deaths}, {}


def choose(cell: Any, dataset: Any) -> Outcome:
    """Select ``options["selected"]``."""
    return {"selected": cell.options["selected"]}, {}


def taken(cell: Any, dataset: Any) -> Outcome:
    """Say which parameters it was given."""
    return {"params": dict(cell.params)}, {}
