"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
# CI tells whether a change broke something; new examples are looked for at the desk.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
# A job in the background ignores Ctrl-C and hands that on to the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder with the benchmark's data-set folders, or skip."""
    here = Path(__file__).resolve().parents[1]
    root = Path(os.environ.get("HGKT_DATA", here.parent / "shared" / "data"))
    if not (root / "CUB" / "att_splits.mat").is_file():
        pytest.skip(f"no benchmark data in {root}; set HGKT_DATA to a folder that holds CUB")
    return root
