"""What tests of the engines have done; worker processes import this file by its folder."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Client
from pathlib import Path

from hgkt.exceptions import DataError


def threads(task: object) -> tuple[int, str | None]:
    """Say in which process it ran, and with how many threads."""
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")


def meet(task: tuple[str, int]) -> tuple[int, str | None]:
    """Report to the test that listens at an address, and wait for its word."""
    address, number = task
    with Client(address) as line:
        line.send((number, os.getpid()))
        line.recv()
    return threads(task)


def fall(text: str) -> str:
    """Raise what the text says."""
    if text == "data":
        raise DataError("rows.parquet has no column 'label'")
    if text == "bug":
        raise ZeroDivisionError("on purpose")
    return text


def die(task: tuple[str, int]) -> int:
    """Kill the process it runs in, the first times that a folder and a number name."""
    folder, times = task
    n_deaths = len(list(Path(folder).glob("death-*")))
    if n_deaths < times:
        (Path(folder) / f"death-{n_deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n_deaths
