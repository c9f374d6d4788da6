"""Every example of the gallery runs, quickly, and ends in one labelled picture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.endure

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
SECONDS = 10

# Each example is a process of its own, forked from one that has made the imports they share.
RUNNER = """
import json, os, runpy, sys, traceback, warnings
import matplotlib.pyplot as plt
import numpy, scipy.linalg, sklearn.decomposition, hgkt.evaluation, hgkt.closed_form, hgkt.transport
import pytest

def run(path):
    warnings.filterwarnings("error")
    warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
    runpy.run_path(path, run_name="__main__")
    (number,) = plt.get_fignums()
    drawing = plt.figure(number)
    drawing.canvas.draw()
    titles = [panel.get_title(loc) for panel in drawing.axes for loc in ("left", "center")]
    assert any(titles) or drawing.get_suptitle(), "the picture has no title"
    for panel in drawing.axes:  # what has a scale has a label; pictures of digits have neither
        if panel.axison:
            numbers = [t.get_text() for t in panel.get_xticklabels() if t.get_visible()]
            scale = any(text.strip("−0123456789.") == "" and text for text in numbers)
            assert panel.get_xlabel() or not scale, "an axis has no label"

for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            run(path)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    print(json.dumps({"example": os.path.basename(path), "failed": status != 0,
                      "seconds": seconds}), flush=True)
"""


def test_every_example_runs_and_ends_in_a_picture(tmp_path):
    assert len(EXAMPLES) >= 12
    environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1",
                   "PYTHONPATH": str(ROOT / "src")}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, *map(str, EXAMPLES)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"example"')]
    results = [json.loads(line) for line in lines]
    assert [result["example"] for result in results] == [path.name for path in EXAMPLES]
    assert [result["example"] for result in results if result["failed"]] == [], done.stderr
    assert [result for result in results if result["seconds"] > SECONDS] == []
