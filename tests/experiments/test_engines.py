"""Cells in processes: resume, failures that stay alone, processes that die."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hgkt.engines import ProcessEngine
from hgkt.exceptions import DataError
from hgkt.experiments.plan import Cell, DataSpec
from hgkt.experiments.run import Costs, RunState, run_cells
from hgkt.experiments.store import ResultStore

DIGITS = DataSpec("digits", "digits")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def task(name: str, seed: int = 0, data: DataSpec = DIGITS, **options: object) -> Cell:
    return Cell(f"lab_tasks:{name}", data, seed=seed, options=options)


@pytest.mark.endure
def test_run_cells_uses_two_processes_shares_the_cores_and_tells_how_it_goes(tmp_path):
    states: list[tuple[int, int, int, int]] = []
    left: list[float | None] = []

    def look(state: RunState) -> None:
        states.append((state.n_done, state.n_failed, len(state.running), state.n_total))
        left.append(state.seconds_left)

    cells = [task("show", seed, meet=str(tmp_path)) for seed in range(4)]
    results = run_cells(cells, ResultStore(tmp_path / "cells"), n_jobs=2, progress=look)
    assert list(results) == [cell.key for cell in cells]
    said = [result.values for result in results.values()]
    pids = {values["pid"] for values in said}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert {values["n_instances"] for values in said} == {1797}
    # The data set is loaded once a process.
    assert len({(values["pid"], values["id"]) for values in said}) == 2
    assert {values["threads"] for values in said} == {str(ProcessEngine(2).n_threads)}
    assert [results[cell.key].arrays["seed"].tolist() for cell in cells] == [[0], [1], [2], [3]]
    assert states[0] == (0, 0, 0, 4)
    assert states[-1] == (4, 0, 0, 4)
    assert max(running for _, _, running, _ in states) == 2
    assert left[0] > 0
    assert left[-1] == 0


@pytest.mark.endure
def test_run_cells_starts_the_longest_first_and_runs_nothing_twice(tmp_path):
    file, methods = tmp_path / "ran", ("ridge", "latem", "hgkt", "dem")  # two of them train
    cells = [
        Cell("lab_tasks:count", DIGITS, method, seed=seed, options={"file": str(file)})
        for seed, method in enumerate(methods)
    ]
    store = ResultStore(tmp_path / "cells")
    first = run_cells([*cells[:3], *cells[:2]], store, n_jobs=1)
    assert file.read_text().split() == ["1", "0", "2"]
    second = run_cells(cells, store, n_jobs=1)
    assert file.read_text().split() == ["1", "0", "2", "3"]
    assert len(first) == 3
    assert list(second) == [cell.key for cell in cells]
    assert all(result.ok for result in second.values())


@pytest.mark.endure
def test_run_cells_failure_leaves_the_others_standing_and_is_tried_again(tmp_path):
    store = ResultStore(tmp_path)
    lost = DataSpec("lost", str(tmp_path / "nowhere"))
    other = DataSpec("digits", "digits", fingerprint="0" * 64)
    cells = [task("fail"), task("show"), task("show", data=lost), task("nonsense"),
             task("show", data=other)]  # fmt: skip
    results = list(run_cells(cells, store, n_jobs=1).values())
    assert [result.ok for result in results] == [False, True, False, False, False]
    assert results[0].error == "ZeroDivisionError: on purpose (lab_tasks.py:42)"
    assert "is no folder" in results[2].error
    assert "AttributeError" in results[3].error
    assert "has changed since" in results[4].error
    seen: list[int] = []
    run_cells(cells, store, n_jobs=1, progress=lambda state: seen.append(state.n_total))
    assert set(seen) == {4}
    seen.clear()
    again = run_cells(
        cells, store, progress=lambda state: seen.append(state.n_total), keep_failures=True
    )
    assert set(seen) == {0}
    assert not again[cells[0].key].ok


@pytest.mark.endure
def test_run_cells_tries_again_where_a_process_dies_and_gives_up_after_two(tmp_path):
    # One after the other: where two die at once, nobody knows which brought the other one down.
    store, once = ResultStore(tmp_path / "cells"), task("die", 1, folder=str(tmp_path), times=1)
    cells = [once, needing(once), task("show")]
    results = run_cells(cells, store, n_jobs=2)
    assert [results[cell.key].error for cell in cells] == ["", "", ""]
    assert results[once.key].values == {"n_deaths": 1}
    always = task("die", 2, folder=str(tmp_path))
    cells = [always, task("show", 1)]
    results = run_cells(cells, store, n_jobs=2)
    assert [results[cell.key].ok for cell in cells] == [False, True]
    assert "died twice" in results[always.key].error
    assert len(list(tmp_path.glob("death-2-*"))) == 2


def test_costs_learn_from_the_nearest_relatives():
    from hgkt.experiments.plan import CellResult

    cub, digits = DataSpec("CUB", "CUB"), DIGITS
    costs = Costs([CellResult(Cell("evaluate", cub, "dem", seed=1), seconds=40.0)])
    assert costs.seconds(Cell("evaluate", cub, "dem", seed=2)) == 40.0
    assert costs.seconds(Cell("evaluate", cub, "dem", params={"metric": "cosine"})) == 40.0
    assert costs.seconds(Cell("evaluate", digits, "dem")) == 40.0
    assert costs.is_guess(Cell("evaluate", cub, "eszsl"))
    # What loops over its data is guessed to take longer, whatever its name.
    guesses = {name: costs.seconds(Cell("statistics", cub, name)) for name in ("dem", "eszsl")}
    assert guesses["dem"] > guesses["eszsl"]
    costs.learn(CellResult(Cell("evaluate", cub, "dem"), error="no", seconds=1e6))
    assert costs.seconds(Cell("evaluate", cub, "dem")) == 40.0


def test_run_cells_refuses_an_unknown_engine(tmp_path):
    with pytest.raises(DataError, match="engine must be one of 'local', 'ray'; got 'dask'"):
        run_cells([], ResultStore(tmp_path), engine="dask")
    with pytest.raises(DataError, match="n_jobs must be an integer"):
        run_cells([task("show")], ResultStore(tmp_path), n_jobs=0)


def test_run_cells_says_when_no_ray_cluster_answers(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # other tests may have one running
    with pytest.raises(DataError, match=r"no Ray cluster answers at '127\.0\.0\.1:9': .*refused"):
        run_cells([task("show")], ResultStore(tmp_path), engine="ray", address="127.0.0.1:9")


# ---------------------------------------------------------------------- cells that need others
def needing(*others: Cell, seed: int = 0, **options: object) -> Cell:
    keys = [cell.key for cell in others]
    return Cell("lab_tasks:taken", DIGITS, seed=seed, options=options, needs=keys)


@pytest.mark.endure
def test_run_cells_runs_a_cell_after_those_it_needs_and_hands_on_what_they_selected(tmp_path):
    first = task("choose", selected={"ridge": 0.5, "metric": "cosine"})
    second = needing(first)
    third = Cell("lab_tasks:taken", DIGITS, params={"ridge": 2.0}, needs=[second.key, first.key])
    started: list[str] = []

    def look(state: RunState) -> None:
        started.extend(key for key in state.running if key not in started)

    cells = [third, second, first]
    store = ResultStore(tmp_path)
    results = run_cells(cells, store, n_jobs=2, progress=look)
    assert started == [first.key, second.key, third.key]
    assert [results[cell.key].error for cell in cells] == ["", "", ""]
    chosen = {"ridge": 0.5, "metric": "cosine"}
    assert results[second.key].values == {"params": chosen, "taken": chosen}
    # What was set by hand wins; the result is stored under the cell as it was planned.
    assert results[third.key].values["params"] == {"ridge": 2.0, "metric": "cosine"}
    assert store.get(third).cell == third


@pytest.mark.endure
def test_run_cells_resumes_where_only_the_needed_cell_has_run(tmp_path):
    store, first = ResultStore(tmp_path), task("choose", selected={"mu": 0.1})
    run_cells([first], store, n_jobs=1)
    before = (tmp_path / f"{first.key}.json").stat().st_mtime_ns
    results = run_cells([needing(first), first], store, n_jobs=1)
    assert results[needing(first).key].values["taken"] == {"mu": 0.1}
    assert (tmp_path / f"{first.key}.json").stat().st_mtime_ns == before


@pytest.mark.endure
def test_run_cells_reports_a_failed_need_as_such(tmp_path):
    store, broken, fine = ResultStore(tmp_path), task("fail"), task("choose", selected={})
    follower = needing(broken, fine)
    last = needing(follower, seed=1)
    cells = [last, follower, broken, fine]
    states: list[int] = []
    results = run_cells(cells, store, n_jobs=1, progress=lambda s: states.append(s.n_failed))
    assert [results[cell.key].ok for cell in cells] == [False, False, False, True]
    assert results[follower.key].error == (
        "it needs another cell, which failed: lab_tasks:fail · digits · seed 0: "
        "ZeroDivisionError: on purpose (lab_tasks.py:42)"
    )
    assert results[last.key].error.startswith("it needs another cell, which failed: ")
    assert states[-1] == 3
    # Kept failures block what needs them; without them the needed cell is tried again.
    kept = run_cells([needing(broken, seed=2), broken], store, n_jobs=1, keep_failures=True)
    assert "which failed" in kept[needing(broken, seed=2).key].error


def test_run_cells_refuses_a_need_that_nobody_planned(tmp_path):
    lonely = needing(task("choose", selected={}))
    results = run_cells([lonely], ResultStore(tmp_path), n_jobs=1)
    assert "which is not part of the run" in results[lonely.key].error


@pytest.mark.endure
def test_run_cells_on_ray_gives_the_same_numbers(tmp_path, ray_cluster):
    cell = Cell("evaluate", DIGITS, "eszsl", options={"select": False})
    cells = [cell, task("fail")]
    one = run_cells(cells, ResultStore(tmp_path / "ray"), engine="ray")
    other = run_cells(cells, ResultStore(tmp_path / "local"), engine="local")
    assert one[cell.key].ok
    assert one[cell.key].values["metrics"] == other[cell.key].values["metrics"]
    assert one[cells[1].key].error == other[cells[1].key].error
    assert ray_cluster.is_initialized()  # it was not the run's own
