"""Cells on a real Ray cluster of two cores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hgkt.experiments.base import Cell, DataSpec
from hgkt.experiments.engines import run_cells
from hgkt.experiments.store import ResultStore

DIGITS = DataSpec("digits", "digits")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def ray(ray_cluster: Any) -> Any:
    return ray_cluster


def task(name: str, seed: int = 0, data: DataSpec = DIGITS, **options: object) -> Cell:
    return Cell(f"lab_tasks:{name}", data, seed=seed, options=options)


def test_ray_engine_runs_on_two_workers_and_leaves_the_cluster(tmp_path, ray):
    cells = [task("show", seed, seconds=1) for seed in range(4)]
    results = run_cells(cells, ResultStore(tmp_path), engine="ray")
    said = [results[cell.key].values for cell in cells]
    pids = {values["pid"] for values in said}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert {values["n_instances"] for values in said} == {1797}
    assert results[cells[3].key].arrays["seed"].tolist() == [3]
    assert ray.is_initialized()


def test_ray_engine_resumes_and_a_failure_stays_alone(tmp_path):
    store, file = ResultStore(tmp_path / "cells"), str(tmp_path / "ran")
    lost = DataSpec("lost", str(tmp_path / "nowhere"))
    cells = [task("fail"), task("count", file=file), task("show", data=lost)]
    for _ in range(2):
        results = list(run_cells(cells, store, engine="ray").values())
    assert [result.ok for result in results] == [False, True, False]
    assert results[0].error == "ZeroDivisionError: on purpose (lab_tasks.py:38)"
    assert "is no folder" in results[2].error
    assert Path(file).read_text().split() == ["0"]


def test_ray_engine_retries_when_a_worker_dies(tmp_path):
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    once = task("die", 1, folder=str(deaths), times=1)
    always = task("die", 2, folder=str(deaths))
    others = [task("show", seed) for seed in range(3)]
    cells = [once, always, *others]
    results = run_cells(cells, ResultStore(tmp_path / "cells"), engine="ray")
    assert [results[cell.key].ok for cell in cells] == [True, False, True, True, True]
    assert results[once.key].values == {"n_deaths": 1}
    assert "died twice" in results[always.key].error
    assert len(list(deaths.glob("death-2-*"))) == 2


def test_ray_engine_gives_the_same_numbers_as_joblib(tmp_path):
    cell = Cell("evaluate", DIGITS, "eszsl", options={"select": False})
    one = run_cells([cell], ResultStore(tmp_path / "ray"), engine="ray")[cell.key]
    other = run_cells([cell], ResultStore(tmp_path / "joblib"), engine="joblib")[cell.key]
    assert one.ok
    assert one.values["metrics"] == other.values["metrics"]


def test_ray_engine_runs_a_cell_after_those_it_needs(tmp_path):
    first, broken = task("choose", selected={"mu": 0.1}, seconds=0.5), task("fail")
    good = Cell("lab_tasks:taken", DIGITS, needs=[first.key])
    bad = Cell("lab_tasks:taken", DIGITS, needs=[first.key, broken.key])
    cells = [good, bad, broken, first]
    store = ResultStore(tmp_path)
    results = run_cells(cells, store, engine="ray")
    assert [results[cell.key].ok for cell in cells] == [True, False, False, True]
    assert results[good.key].values["params"] == {"mu": 0.1}
    assert "it needs another cell, which failed: lab_tasks:fail" in results[bad.key].error
    (store.folder / f"{good.key}.json").unlink()
    again = run_cells([good, first], store, engine="ray")
    assert again[good.key].values["params"] == {"mu": 0.1}
