"""Records of the campaigns: written into docs/results as those of the benchmarks are."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from _script import RESULTS, one_thread, served, without_installation, write_record

__all__ = ["RESULTS", "one_thread", "served", "without_installation", "write_record"]
