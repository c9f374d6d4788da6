"""From names to a report; a run that is killed goes on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hgkt import HGKTClassifier, evaluate, load_dataset
from hgkt.exceptions import HGKTError, UnknownNameError
from hgkt.experiments.discovery import discover
from hgkt.experiments.plan import EXPERIMENTS, TASKS, Cell, Context, DataSpec, use_device
from hgkt.experiments.run import load_experiments, reproduce, run_cell

HERE = Path(__file__).parent
DIGITS = DataSpec("digits", "digits")


@pytest.fixture(scope="module")
def context() -> Context:
    return Context(discover(names=["digits"]).data, methods=["ridge", "eszsl"], n_seeds=1)


def test_every_name_of_the_registries_can_be_imported():
    for registry in (TASKS, EXPERIMENTS):
        assert all(registry.load(name) is not None for name in registry)


def test_every_experiment_plans_cells_that_can_be_told_apart(context):
    for name, experiment in load_experiments().items():
        cells = [cell for slot in experiment.plan(context).values() for cell in slot]
        assert len({cell.key for cell in cells}) == len(cells), name


def test_load_experiments_keeps_the_order_of_the_catalog():
    assert list(load_experiments(["figure-tsne", "TABLE-zsl"])) == ["table-zsl", "figure-tsne"]
    with pytest.raises(UnknownNameError, match="unknown experiment 'table'; choose from: table-"):
        load_experiments(["table"])


@pytest.mark.endure
def test_reproduce_shares_cells_between_experiments_and_runs(context, tmp_path):
    first = reproduce(tmp_path, context, ["table-gzsl"], n_jobs=1)
    assert (first.n_ran, first.n_there, first.n_failed) == (2, 0, 0)
    html = first.report.html.read_text()
    second = reproduce(tmp_path, context, ["table-gzsl", "figure-curves"], n_jobs=1)
    assert (second.n_ran, second.n_there) == (0, 2)
    values = next(iter(second.results.values())).values
    assert f"{values['metrics']['H']:.1f}" in html


@pytest.mark.endure
def test_reproduce_plans_once(context, tmp_path, monkeypatch):
    from hgkt.experiments import run

    plans = []
    experiments = {
        name: replace(e, plan=lambda c, e=e: plans.append(e.title) or e.plan(c))
        for name, e in load_experiments(["table-zsl", "table-gzsl", "figure-curves"]).items()
    }
    monkeypatch.setattr(run, "load_experiments", lambda names=(): experiments)
    done = reproduce(tmp_path, context, n_jobs=1)
    assert done.n_failed == 0
    assert plans == [experiment.title for experiment in experiments.values()]


# ---------------------------------------------------------------------- the task "evaluate"
def test_task_evaluate_equals_evaluate_and_its_curve_has_the_area():
    cell = Cell("evaluate", DIGITS, "hgkt", "default", seed=3, options={"stages": [{"ridge": [1]}]})
    result = run_cell(cell)
    record = evaluate(
        HGKTClassifier(device="cpu"),
        load_dataset("digits"),
        stages=[{"ridge": [1]}],
        random_state=3,
    )
    assert result.error == ""
    assert result.values["metrics"] == record.metrics.to_dict()
    assert result.values["parameters"] == record.to_dict()["parameters"]
    seen, unseen = result.arrays["seen"], result.arrays["unseen"]
    area = np.trapezoid(seen, unseen)
    assert 100 * area == pytest.approx(record.metrics.ausuc)


def test_task_evaluate_refuses_options_it_does_not_have():
    cell = Cell("evaluate", DIGITS, "ridge", options={"selct": True})
    with pytest.raises(TypeError, match="'selct'"):
        run_cell(cell)
    with pytest.raises(HGKTError, match="has no presets"):
        run_cell(Cell("evaluate", DIGITS, "ridge", "paper"))


def test_run_cell_computes_where_it_is_told():
    from hgkt.experiments.plan import build_estimator

    cell = Cell("evaluate", DIGITS, "hgkt-network")
    with use_device("cuda"):
        assert build_estimator(cell, load_dataset("digits")).device == "cuda"
    assert build_estimator(cell, load_dataset("digits")).device == "cpu"


# ---------------------------------------------------------------------- killed
_SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from hgkt.experiments.plan import Cell, DataSpec
from hgkt.experiments.run import run_cells
from hgkt.experiments.store import ResultStore

options = {"file": sys.argv[2] + "/ran", "seconds": float(sys.argv[3])}
data = DataSpec("digits", "digits")
cells = [Cell("lab_tasks:count", data, seed=seed, options={**options, "seed": seed // 2})
         for seed in range(6)]
states = []
run_cells(cells, ResultStore(sys.argv[2] + "/cells"), n_jobs=2, progress=states.append)
print(states[-1].n_done, states[-1].n_there)
"""


def _alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def _children(pid: int) -> set[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return {int(word) for word in listed.stdout.split()}


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
@pytest.mark.slow
def test_a_killed_run_leaves_no_process_and_goes_on(tmp_path):
    command = [sys.executable, "-c", _SCRIPT, str(HERE), str(tmp_path), "0.6"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "cells").glob("*.json"))) < 2:
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    workers = _children(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=20)
    assert run.returncode == -signal.SIGKILL
    while _alive(workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(workers)
    n_there = len(list((tmp_path / "cells").glob("*.json")))
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    n_done, was_there = map(int, again.stdout.split())
    assert 2 <= n_there == was_there < 6
    assert n_done == 6 - n_there
    ran = (tmp_path / "ran").read_text().split()
    # A cell that was under way may have written its line twice; no finished one ran again.
    assert set(ran) == {"0", "1", "2", "3", "4", "5"}
    assert len(ran) <= 8


def _marked(mark: str) -> set[int]:
    """Return the processes, zombies aside, that were started with a mark in their environment."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.add(int(folder.name))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")
def test_workers_of_a_run_that_is_killed_while_it_starts_end_too(tmp_path):
    rng = random.Random(0)
    for number in range(4):
        mark = f"{tmp_path.name}-{number}"
        command = [sys.executable, "-c", _SCRIPT, str(HERE), str(tmp_path / str(number)), "30"]
        environment = {**os.environ, "HGKT_TEST_MARK": mark, "OMP_NUM_THREADS": "1"}
        run = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(_marked(mark)) < 3:  # itself, loky's tracker, and the first worker
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 1.5))
        run.kill()
        run.wait()
        deadline = time.monotonic() + 30
        while _marked(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _marked(mark)
