"""Workers can import what the tests have them do."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
