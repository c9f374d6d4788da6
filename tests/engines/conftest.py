"""Workers can import what the tests have them do, and report to a test that listens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing.connection import Connection, Listener
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _importable() -> Iterator[None]:
    here = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", here, prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.syspath_prepend(here)
        yield


class Meeting:
    """Where tasks of `errands.meet` report; they wait for a word of the test."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.address = str(listener.address)

    def arrivals(self, n_tasks: int) -> dict[Connection, int]:
        """Wait for so many tasks; return the number of each process, by its line."""
        lines = [self._listener.accept() for _ in range(n_tasks)]
        return {line: line.recv()[1] for line in lines}


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    with Listener(family="AF_UNIX") as listener:
        yield Meeting(listener)
