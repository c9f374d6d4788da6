"""Run cells side by side: what the store holds is not run again, a failure stays alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

from hgkt._validation import check_choice, check_number
from hgkt.engines import Engine, ProcessEngine
from hgkt.engines.local import usual_workers
from hgkt.experiments._worker import died, failed, run_cell
from hgkt.experiments.base import Cell, CellResult
from hgkt.experiments.discovery import forget_loaded, load_once
from hgkt.experiments.schedule import Costs, RunProgress, Schedule, Tracker
from hgkt.experiments.store import ResultStore

ENGINES = ("joblib", "ray")


def run_cells(
    cells: Sequence[Cell],
    store: ResultStore,
    engine: str = "joblib",
    n_jobs: int | None = None,
    progress: RunProgress | None = None,
    *,
    device: str = "cpu",
    address: str = "local",
    keep_failures: bool = False,
) -> dict[str, CellResult]:
    """Run the cells that the store does not hold, the longest first, and return all results.

    Every result is written as soon as it is there: after an interruption, however rough, the
    same call goes on. A cell runs after those it needs. One that fails, whose process dies twice
    or that needs a failed one is one failed cell.

    Parameters
    ----------
    cells : sequence of Cell
        The work; equal cells run once.
    store : ResultStore
        Where results are and go.
    engine : {"joblib", "ray"}, default="joblib"
        Processes of this machine, or a Ray cluster.
    n_jobs : int, optional
        Cells at a time; by default one per core.
    progress : callable, optional
        Called with the `RunState` whenever it changes.
    device : str, default="cpu"
        Where networks are trained.
    address : str, default="local"
        Of the Ray cluster; "local" starts one on this machine.
    keep_failures : bool, default=False
        Whether stored failures count as results; by default they are run again.

    Returns
    -------
    dict of str to CellResult
        By key, in the order of `cells`.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.experiments.base import DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), "ridge", options={"select": False})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run_cells([cell], ResultStore(folder), n_jobs=1)
    >>> results[cell.key].ok
    True
    """
    check_choice("engine", engine, ENGINES)
    wanted = {cell.key: cell for cell in cells}
    results = store.load(wanted.values())
    if not keep_failures:
        results = {key: result for key, result in results.items() if result.ok}
    todo = [cell for key, cell in wanted.items() if key not in results]
    tracker = Tracker(todo, len(results), Costs(store.results()) if todo else Costs(), progress)
    schedule = Schedule(tracker.ordered(), results)

    def keep(result: CellResult) -> None:
        store.put(result)
        results[result.cell.key] = result
        tracker.ended(result)

    if todo:
        with (
            _engine(engine, n_jobs, len(todo), device, address) as runner,
            closing(_run(runner, schedule, device, tracker.started)) as stream,  # type: ignore[type-var]
        ):
            tracker.n_workers = runner.n_workers
            for result in chain(schedule.hopeless(), stream):
                keep(result)
                for follower in schedule.hopeless():
                    keep(follower)
    return {key: results[key] for key in wanted}


def _run(
    engine: Engine, schedule: Schedule, device: str, started: Callable[[Cell], None]
) -> Iterator[CellResult]:
    """Yield results as they come; a cell whose process dies twice has failed."""
    shared: dict[str, Any] = {}
    apart = isinstance(engine, ProcessEngine)
    if apart:
        forget_loaded()  # the processes have data sets of their own

    def arguments(cell: Cell) -> tuple[Any, ...]:
        data = None if apart else _share(engine, cell, shared)
        return cell, device, data, schedule.taken(cell)

    ends = engine.run(run_cell, schedule, arguments=arguments, started=started, n_retries=1)
    with closing(ends) as stream:  # type: ignore[type-var]
        for end in stream:
            if end.n_deaths:
                yield died(end.task)
            elif end.problem is not None:  # the data, or the way to the worker or back
                yield failed(end.task, str(end.problem))
            else:
                yield end.value


def _share(engine: Engine, cell: Cell, shared: dict[str, Any]) -> Any:
    """Return the cell's data set for a cluster: no node but this one needs the files."""
    name = repr(cell.data)
    if name not in shared:
        shared[name] = engine.share(load_once(cell.data))
    return shared[name]


def _engine(name: str, n_jobs: int | None, n_cells: int, device: str, address: str) -> Engine:
    if n_jobs is not None:
        check_number("n_jobs", n_jobs, low=1, integer=True)
    if name == "ray":
        from hgkt.engines.ray_tasks import RayEngine

        return RayEngine(address, n_jobs, n_cells, gpu=device != "cpu")
    # Even a single job runs apart: it may bring its process down.
    return ProcessEngine(usual_workers(n_jobs, n_cells))
