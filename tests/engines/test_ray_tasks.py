"""Tasks on a real Ray of two workers, of which one is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from hgkt.engines import map_tasks, open_engine
from hgkt.exceptions import DataError, WorkerError


@pytest.fixture
def engine(ray_cluster: Any) -> Iterator[Any]:
    with open_engine("ray") as engine:
        yield engine
    assert ray_cluster.is_initialized()  # it was not the engine's own


def errand(name: str):
    import errands

    return getattr(errands, name)


def test_tasks_of_a_killed_worker_run_again_in_another(engine, tmp_path):
    assert engine.n_workers == 2
    tasks = [(str(tmp_path), number) for number in range(4)]
    killed: list[int] = []

    def kill_one() -> None:
        _wait(lambda: len(list(tmp_path.glob("runs-*"))) == 2)
        path = sorted(tmp_path.glob("runs-*"))[0]
        killed.append(int(path.name.rpartition("-")[2]))
        os.kill(killed[0], signal.SIGKILL)
        _wait(lambda: len(list(tmp_path.glob("runs-*"))) >= 3)
        (tmp_path / "go").touch()

    with Beside(kill_one):
        found = dict(map_tasks(engine, errand("wait_for"), tasks))
    assert found == {task: task[1] for task in tasks}
    ran = [path.name.split("-")[1:] for path in tmp_path.glob("runs-*")]
    assert len(ran) == 5
    assert len({pid for _, pid in ran} - {str(killed[0])}) >= 2


def test_errors_on_ray_say_what_those_of_processes_say(engine, tmp_path):
    with pytest.raises(DataError, match=r"^rows\.parquet has no column 'label'$"):
        list(map_tasks(engine, errand("fall"), ["fine", "data"]))
    sentence = r"^shard bug: ZeroDivisionError: on purpose \(errands\.py:\d+\)$"
    with pytest.raises(WorkerError, match=sentence):
        list(map_tasks(engine, errand("fall"), ["bug"], describe=lambda task: f"shard {task}"))
    with pytest.raises(WorkerError, match=r"the process that ran it died 2 times"):
        list(map_tasks(engine, partial(errand("die"), times=99), [str(tmp_path)], n_retries=1))


class Beside:
    """Do something in another thread while the block runs; what it raises is raised at the end."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._problem: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(action,), daemon=True)

    def _run(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as problem:
            self._problem.append(problem)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._problem:
            raise self._problem[0]


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)
