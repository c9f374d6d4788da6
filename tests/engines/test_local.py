"""Tasks in this process and in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hgkt.engines import ProcessEngine, SerialEngine, map_tasks, open_engine
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessEngine]:
    with ProcessEngine(2) as engine:
        yield engine


def errand(name: str):
    import errands

    return getattr(errands, name)


@pytest.mark.endure
def test_processes_share_the_cores_and_are_kept_between_runs(pool, meeting):
    pids: set[int] = set()

    def release() -> None:
        lines = meeting.arrivals(2)
        pids.update(lines.values())
        for line in lines:
            line.send("go")

    with ThreadPoolExecutor(1) as beside:
        released = beside.submit(release)
        tasks = [(meeting.address, number) for number in range(2)]
        first = [value for _, value in map_tasks(pool, errand("meet"), tasks)]
        released.result()
    ((_, (pid, _)),) = map_tasks(pool, errand("threads"), [0])
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert pid in pids
    assert {threads for _, threads in first} == {str(pool.n_threads)}


@pytest.mark.endure
def test_tasks_are_taken_only_as_workers_become_free(pool):
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(6):
            taken.append(number)
            yield number

    ahead = [
        len(taken) - done
        for done, _ in enumerate(map_tasks(pool, errand("threads"), tasks()), start=1)
    ]
    assert len(ahead) == 6
    assert max(ahead) <= 2 * pool.n_workers


@pytest.mark.endure
def test_progress_counts_what_has_ended(pool):
    seen: list[tuple[str, int, int]] = []

    def look(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        seen.append((stage, done, total))

    for _ in map_tasks(pool, abs, [-1, -2, -3], progress=look, stage="shards"):
        pass
    assert seen == [("shards", 1, 3), ("shards", 2, 3), ("shards", 3, 3)]


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


@pytest.mark.endure
def test_processes_end_with_a_parent_that_is_killed(meeting):
    code = (
        "import errands; from hgkt.engines import ProcessEngine, map_tasks\n"
        f"tasks = [({meeting.address!r}, 0), ({meeting.address!r}, 1)]\n"
        "list(map_tasks(ProcessEngine(2), errands.meet, tasks))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        lines = meeting.arrivals(2)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    for line in lines:
        with pytest.raises(EOFError):  # the process at the other end is gone
            line.recv()
