"""All experiments on the digits by the command itself: killed, resumed, read, looked at."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hgkt import evaluate, load_dataset
from hgkt.estimators.methods import METHODS
from hgkt.experiments.plan import EXPERIMENTS

pytestmark = pytest.mark.endure

RUN = [
    sys.executable, "-m", "hgkt", "reproduce", "--json",
    "--data", "digits", "--quick", "--methods", "hgkt,hgkt-network,dem,ridge", "--workers", "2",
]  # fmt: skip
N_BEFORE_THE_KILL = 6
NOT_DRAWN = "figure-ranks"  # it compares data sets, and this run has one


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, int, dict[str, Any]]:
    """Folder of the report, results that outlived the kill, and what the second run says."""
    folder = tmp_path_factory.mktemp("full")
    command = [*RUN, "--out", str(folder)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while len(list((folder / "cells").glob("*.json"))) < N_BEFORE_THE_KILL:
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(timeout=20)
    assert not (folder / "report.html").exists()
    n_kept = len(list((folder / "cells").glob("*.json")))
    second = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert second.returncode == 0, second.stderr
    return folder, n_kept, json.loads(second.stdout)


@pytest.fixture(scope="module")
def address(run) -> str:
    return (run[0] / "report.html").as_uri()


def test_second_run_takes_what_the_killed_one_left(run):
    _, n_kept, document = run
    assert document["n_there"] >= n_kept >= N_BEFORE_THE_KILL
    assert document["n_ran"] == document["n_cells"] - document["n_there"] > 0
    assert [cell["error"] for cell in document["cells"] if not cell["ok"]] == []


def test_report_has_every_experiment_with_something_in_it(run):
    text = (run[0] / "report.html").read_text(encoding="utf-8")
    sections = re.split(r"<section ", text)[1:]
    found = {re.search(r'id="([^"]+)"', section)[1]: section for section in sections}
    assert list(EXPERIMENTS) == [name for name in found if name in EXPERIMENTS]
    assert "Ranks over one data set say no more" in found[NOT_DRAWN]
    for name in EXPERIMENTS:
        if name != NOT_DRAWN:
            assert "<table" in found[name] or "<img" in found[name], name
        assert "cannot be shown" not in found[name], name
        assert "runs not made" not in found[name], name


def test_every_figure_is_drawn(run):
    from matplotlib.image import imread

    images = sorted((run[0] / "figures").glob("*.png"))
    experiments = {name for name in EXPERIMENTS if name.startswith("figure-")} - {NOT_DRAWN}
    assert all(any(i.name.startswith(name) for i in images) for name in experiments)
    for path in images:
        pixels = imread(path)[..., :3]
        assert min(pixels.shape[:2]) >= 150, path.name
        inked = np.abs(pixels - pixels[0, 0]).max(axis=2) > 0.05
        # Something is drawn, and in all four quarters: no empty axes, no lone title.
        middle = tuple(size // 2 for size in inked.shape)
        quarters = [q for half in np.split(inked, [middle[0]]) for q in
                    np.split(half, [middle[1]], axis=1)]  # fmt: skip
        assert min(q.mean() for q in quarters) > 0.001, path.name
        drawing = path.with_suffix(".svg").read_text(encoding="utf-8")
        assert drawing.count("<path") + drawing.count("<use") > 10, path.name
        assert len(pd.read_csv(path.with_suffix(".csv"))) > 0, path.name


@pytest.mark.parametrize("method", ["hgkt", "ridge"])
def test_tables_show_what_evaluate_gives(run, method):
    record = evaluate(METHODS.load(method)(), load_dataset("digits"), stages=[], n_folds=1)
    expected = record.metrics.to_dict()
    label = {"hgkt": "HGKT", "ridge": "Ridge"}[method]
    table = pd.read_csv(run[0] / "tables" / "table-gzsl.csv").set_index(["row", "column"])["mean"]
    for column, name in {"ts": "ts", "tr": "tr", "H": "H", "AUSUC": "ausuc"}.items():
        assert table[label, f"digits · {column}"] == pytest.approx(expected[name], abs=1e-6)
    plain = table[label, "digits · H, γ = 0"]
    assert plain == pytest.approx(record.uncalibrated.H, abs=1e-6)
    zsl = pd.read_parquet(run[0] / "tables" / "table-zsl.parquet").set_index("row")["mean"]
    assert zsl[label] == pytest.approx(expected["zsl"], abs=1e-6)


def test_report_opens_in_a_browser_and_asks_for_nothing(visit):
    page = visit()  # complaints and requests are counted when it closes
    assert page.locator("section").count() >= len(EXPERIMENTS)
    for drawing in page.locator("figure img").all():
        box = drawing.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 100
