"""`hgkt reproduce`: parts of the paper on what data there is, resumed after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hgkt.exceptions import DataError, UnknownNameError
from hgkt.experiments.plan import EXPERIMENTS

COMMAND = [sys.executable, "-m", "hgkt", "reproduce"]
METHODS = "ridge,eszsl,sae,gfzsl,conse,iap,sse,sync"


@pytest.fixture(autouse=True)
def _no_data_of_the_user(monkeypatch):
    monkeypatch.delenv("HGKT_DATA", raising=False)


@pytest.mark.endure
def test_reproduce_runs_a_part_and_then_only_what_is_missing(hgkt, tmp_path):
    part = ("reproduce", "--out", tmp_path, "--only", "table-gzsl", "--quick", "--workers", 1)
    first = json.loads(hgkt(*part, "--methods", "ridge", "--json").stdout)
    assert (first["n_ran"], first["n_there"], first["n_failed"]) == (1, 0, 0)
    assert first["data"] == ["digits"]
    assert first["missing"] == ["SUN", "CUB", "AWA1", "AWA2", "APY"]
    assert [cell["ok"] for cell in first["cells"]] == [True]
    second = hgkt(*part, "--methods", "Ridge,eszsl")
    assert second.exit_code == 0
    assert "1 cell ran, 1 were there, 0 failed" in second.stdout
    assert f"report: {tmp_path / 'report.html'}" in second.stdout.replace("\n", "")
    assert "ESZSL" in (tmp_path / "report.html").read_text()


@pytest.mark.endure
def test_reproduce_shows_what_is_there_without_running_anything(hgkt, tmp_path):
    part = ("reproduce", "--out", tmp_path, "--only", "table-gzsl", "--quick", "--workers", 1)
    with pytest.raises(DataError, match="nothing of this has run"):
        hgkt(*part, "--methods", "ridge", "--no-run")
    assert not (tmp_path / "report.html").exists()
    hgkt(*part, "--methods", "ridge")
    shown = json.loads(hgkt(*part, "--methods", "ridge,eszsl", "--no-run", "--json").stdout)
    assert (shown["n_cells"], shown["n_ran"], shown["n_there"]) == (1, 0, 1)
    text = (tmp_path / "report.md").read_text()
    assert "ESZSL" in text
    assert "1 of 2 runs not made" in text


@pytest.mark.endure
def test_reproduce_on_a_benchmark_folder(hgkt, tmp_path, data_root):
    result = hgkt(
        "reproduce", "--out", tmp_path, "--root", data_root, "--data", "CUB", "--only",
        "table-gzsl", "--methods", "ridge", "--quick", "--json"
    )  # fmt: skip
    document = json.loads(result.stdout)
    assert document["data"] == ["CUB"]
    assert "CUB" not in document["missing"]
    assert document["n_failed"] == 0


@pytest.mark.endure
def test_reproduce_says_first_what_will_run_and_runs_only_that(hgkt, tmp_path):
    names = "table-gzsl,ablation-inter,figure-iterations"
    asked = ("reproduce", "--out", tmp_path, "--only", names, "--methods", "hgkt,ridge", "--quick",
             "--workers", 1, "--json")  # fmt: skip
    first = hgkt(*asked)
    left_out, plan, *cells = first.stderr.splitlines()
    assert left_out.endswith("methods than those asked for: figure-iterations")
    assert plan.startswith("3 cells to run (hgkt 2, ridge 1), 0 are there; how long they take is")
    assert len(cells) == 3
    labels = [cell["label"] for cell in json.loads(first.stdout)["cells"]]
    assert not any("network" in label for label in labels)
    assert "figure-iterations" not in (tmp_path / "report.html").read_text()
    again = hgkt(*asked, "--seeds", 2)
    assert "3 cells to run (hgkt 2, ridge 1), 3 are there; about " in again.stderr


def test_reproduce_list_names_every_experiment(hgkt):
    document = json.loads(hgkt("reproduce", "--list", "--json").stdout)
    assert [entry["name"] for entry in document["experiments"]] == list(EXPERIMENTS)
    assert "figure-tsne" in hgkt("reproduce", "--list").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--only", "table-gzls"), "unknown experiment 'table-gzls'; choose from: table-data"),
        (("--methods", "ridge,nope"), "unknown method 'nope'; choose from: hgkt"),
        (("--data", "CUB"), "data set 'CUB' is no folder .* there is: digits"),
        (("--image-root", "/nowhere"), "--image-root /nowhere is no folder"),
    ],
)
def test_reproduce_refuses_in_one_sentence(hgkt, tmp_path, arguments, sentence):
    with pytest.raises((DataError, UnknownNameError), match=sentence):
        hgkt("reproduce", "--out", tmp_path / "new", *arguments)
    assert not (tmp_path / "new").exists()


@pytest.mark.endure
def test_reproduce_shows_failures_and_ends_well_unless_nothing_succeeded(
    hgkt, tmp_path, monkeypatch
):
    from hgkt.experiments import run
    from hgkt.experiments.blocks import Experiment, TextBlock
    from hgkt.experiments.plan import Cell

    def plan(context):
        cells = [Cell("evaluate", context.data[0], "eszsl", params={"nonsense": 1})]
        good = Cell("evaluate", context.data[0], "ridge", options={"select": False})
        return {"": cells if context.quick else [*cells, good]}

    odd = Experiment("Odd", "It fails.", plan, lambda outcome: [TextBlock("done")])
    monkeypatch.setattr(run, "load_experiments", lambda names=(): {"odd": odd})
    some = hgkt("reproduce", "--out", tmp_path, "--workers", 1)
    assert some.exit_code == 0
    assert "2 cells ran, 0 were there, 1 failed" in some.stdout
    assert "has no parameter 'nonsense'" in some.stdout.replace("\n", " ")
    kept = hgkt("reproduce", "--out", tmp_path, "--workers", 1, "--keep-failures")
    assert "0 cells ran, 2 were there, 1 failed" in kept.stdout
    none = hgkt("reproduce", "--out", tmp_path, "--workers", 1, "--quick", "--json")
    assert none.exit_code == 1
    document = json.loads(none.stdout)
    assert (document["n_ran"], document["n_failed"]) == (1, 1)
    assert (tmp_path / "report.html").is_file()


@pytest.mark.slow
def test_reproduce_goes_on_after_ctrl_c(tmp_path):
    options = ["--out", str(tmp_path), "--only", "table-gzsl", "--methods", METHODS,
               "--quick", "--workers", "1"]  # fmt: skip
    run = subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "cells").glob("*.json")):
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command goes on from there" in said.replace("\n", " ")
    assert "Traceback" not in said
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").glob("*.json")}
    again = subprocess.run(
        [*COMMAND, *options, "--json"], capture_output=True, text=True, timeout=120, check=True
    )
    document = json.loads(again.stdout)
    assert document["n_there"] == len(before)
    assert document["n_ran"] == document["n_cells"] - len(before) > 0
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    # A line a cell where there is no terminal.
    assert sum(" · " in line for line in again.stderr.splitlines()) == document["n_ran"]
