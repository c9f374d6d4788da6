"""Tasks in this process and in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hgkt.engines import ProcessEngine, SerialEngine, map_tasks, open_engine
from hgkt.exceptions import DataError, WorkerError


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessEngine]:
    with ProcessEngine(2) as engine:
        yield engine


def errand(name: str):
    import errands

    return getattr(errands, name)


def test_processes_share_the_cores_and_are_kept_between_runs(pool):
    first = [value for _, value in map_tasks(pool, errand("where"), [0.3, 0.3, 0.3, 0.3])]
    second = [value for _, value in map_tasks(pool, errand("where"), [0.0])]
    pids = {pid for pid, _ in first}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert second[0][0] in pids
    assert {threads for _, threads in first} == {str(pool.n_threads)}


def test_tasks_are_taken_only_as_workers_become_free(pool):
    taken: list[int] = []

    def tasks() -> Iterator[float]:
        for number in range(6):
            taken.append(number)
            yield 0.0

    ahead = [
        len(taken) - done
        for done, _ in enumerate(map_tasks(pool, errand("where"), tasks()), start=1)
    ]
    assert len(ahead) == 6
    assert max(ahead) <= 2 * pool.n_workers


def test_progress_counts_what_has_ended(pool):
    seen: list[tuple[str, int, int]] = []

    def look(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        seen.append((stage, done, total))

    for _ in map_tasks(pool, abs, [-1, -2, -3], progress=look, stage="shards"):
        pass
    assert seen == [("shards", 1, 3), ("shards", 2, 3), ("shards", 3, 3)]


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_a_task_that_raises_ends_the_run_with_a_sentence(engine, pool):
    runner = SerialEngine() if engine == "serial" else pool
    with pytest.raises(DataError, match=r"^rows\.parquet has no column 'label'$"):
        list(map_tasks(runner, errand("fall"), ["data"]))
    sentence = r"^shard bug: ZeroDivisionError: on purpose \(errands\.py:\d+\)$"
    with pytest.raises(WorkerError, match=sentence):
        list(map_tasks(runner, errand("fall"), ["bug"], describe=lambda task: f"shard {task}"))
    assert list(map_tasks(runner, errand("fall"), ["fine"])) == [("fine", "fine")]


def test_tasks_of_a_killed_process_run_again(tmp_path, pool):
    tasks = [(str(tmp_path), 2), *((str(tmp_path), 0) for _ in range(3))]
    found = list(map_tasks(pool, errand("die_at"), tasks))
    assert sorted(task[1] for task, _ in found) == [0, 0, 0, 2]
    assert len(list(tmp_path.glob("death-*"))) == 2


def test_a_task_that_no_process_survives_is_named(tmp_path, pool):
    with pytest.raises(WorkerError, match=r"^shard 7: the process that ran it died 2 times: it"):
        list(
            map_tasks(
                pool,
                partial(errand("die"), times=99),
                [str(tmp_path)],
                describe=lambda task: "shard 7",
                n_retries=1,
            )
        )
    assert len(list(tmp_path.glob("death-*"))) == 2


def test_open_engine_runs_in_this_process_where_one_worker_is_enough():
    for options in ({"n_workers": 0}, {"n_workers": 1}, {"n_workers": 4, "n_tasks": 1}):
        assert isinstance(open_engine("local", **options), SerialEngine)
    assert open_engine("local", n_workers=3).n_workers == 3
    with pytest.raises(DataError, match="engine must be one of 'local', 'ray'; got 'dask'"):
        open_engine("dask")
    with pytest.raises(DataError, match="n_workers must be an integer in"):
        open_engine("local", n_workers=-1)


def test_process_engine_never_asks_for_more_threads_than_cores():
    from joblib import cpu_count

    for n_workers in (1, 2, 64):
        n_threads = ProcessEngine(n_workers).n_threads
        assert n_threads == 1 or n_workers * n_threads <= cpu_count()


def test_a_process_takes_no_more_threads_than_the_environment_allows(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 16)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert ProcessEngine(2).n_threads == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert ProcessEngine(2).n_threads == 3
    assert ProcessEngine(8).n_threads == 2
    # One number per level of nesting is for OpenMP to read.
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert ProcessEngine(2).n_threads == 8


def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    code = (
        "import errands; from hgkt.engines import ProcessEngine, map_tasks\n"
        f"list(map_tasks(ProcessEngine(2), errands.wait_for, [({str(tmp_path)!r}, 0), "
        f"({str(tmp_path)!r}, 1)]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        assert _wait(lambda: len(list(tmp_path.glob("runs-*"))) == 2)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    pids = [int(path.name.rpartition("-")[2]) for path in tmp_path.glob("runs-*")]
    assert len(pids) == 2
    assert _wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def _wait(done) -> bool:
    """Return whether something comes true within twenty seconds."""
    end = time.monotonic() + 20
    while not done() and time.monotonic() < end:
        time.sleep(0.05)
    return done()
