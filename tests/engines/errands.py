"""What tests of the engines have done; worker processes import this file by its folder."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from hgkt.exceptions import DataError


def where(seconds: float) -> tuple[int, str | None]:
    """Say in which process it ran, and with how many threads, after a while."""
    time.sleep(seconds)
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")


def fall(text: str) -> str:
    """Raise what the text says."""
    if text == "data":
        raise DataError("rows.parquet has no column 'label'")
    if text == "bug":
        raise ZeroDivisionError("on purpose")
    return text


def die(folder: str, times: int) -> int:
    """Kill the process it runs in, the first `times` times."""
    n_deaths = len(list(Path(folder).glob("death-*")))
    if n_deaths < times:
        (Path(folder) / f"death-{n_deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n_deaths


def die_at(task: tuple[str, int]) -> int:
    """Do as `die` does with the parts of a task; a number of 0 is an innocent."""
    return die(*task)


def wait_for(task: tuple[str, int]) -> int:
    """Leave the number of the process in a file, then wait until a file says go."""
    folder, number = task
    (Path(folder) / f"runs-{number}-{os.getpid()}").touch()
    end = time.monotonic() + 60
    while not (Path(folder) / "go").exists() and time.monotonic() < end:
        time.sleep(0.05)
    return number
