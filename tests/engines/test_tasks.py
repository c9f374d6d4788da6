"""What every engine does with a task that raises, and with one whose worker dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hgkt.engines import ProcessEngine, SerialEngine, map_tasks, open_engine
from hgkt.exceptions import DataError, WorkerError


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessEngine]:
    with ProcessEngine(2) as engine:
        yield engine


IN_PROCESSES = [pytest.param(name, marks=pytest.mark.endure) for name in ("processes", "ray")]


@pytest.fixture(params=["serial", *IN_PROCESSES])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "serial":
        yield SerialEngine()
    elif request.param == "processes":
        yield request.getfixturevalue("processes")
    else:
        cluster = request.getfixturevalue("ray_cluster")
        with open_engine("ray") as engine:
            assert engine.n_workers == 2
            yield engine
        assert cluster.is_initialized()  # it was not the engine's own


def errand(name: str):
    import errands

    return getattr(errands, name)


def test_a_task_that_raises_ends_the_run_with_a_sentence(engine):
    with pytest.raises(DataError, match=r"^rows\.parquet has no column 'label'$"):
        list(map_tasks(engine, errand("fall"), ["fine", "data"]))
    sentence = r"^shard bug: ZeroDivisionError: on purpose \(errands\.py:\d+\)$"
    with pytest.raises(WorkerError, match=sentence):
        list(map_tasks(engine, errand("fall"), ["bug"], describe=lambda task: f"shard {task}"))
    assert list(map_tasks(engine, errand("fall"), ["fine"])) == [("fine", "fine")]


@pytest.mark.parametrize("engine", IN_PROCESSES, indirect=True)
def test_tasks_of_a_killed_worker_run_again_until_one_is_given_up(engine, tmp_path):
    tasks = [(str(tmp_path), 2), *((str(tmp_path), 0) for _ in range(3))]
    found = list(map_tasks(engine, errand("die"), tasks))
    assert sorted(task[1] for task, _ in found) == [0, 0, 0, 2]
    assert len(list(tmp_path.glob("death-*"))) == 2
    with pytest.raises(WorkerError, match=r"^shard 7: the process that ran it died 2 times: it"):
        list(
            map_tasks(
                engine,
                errand("die"),
                [(str(tmp_path), 99)],
                describe=lambda task: "shard 7",
                n_retries=1,
            )
        )
    assert len(list(tmp_path.glob("death-*"))) == 4
