"""Timings are modules of the folder ``benchmarks``, found as when they run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # last: they hide nothing
