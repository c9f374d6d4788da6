"""What campaigns share with the benchmarks: where records go, and the hgkt of this folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from _script import RESULTS, one_thread, served, without_installation, write_record

without_installation()  # what is imported or started from here on is of this folder

from _timing import forget_peak, peak_mb  # noqa: E402

__all__ = ["RESULTS", "forget_peak", "one_thread", "peak_mb", "served", "write_record"]
