"""Run cells side by side: what the store holds is not run again, a failure stays alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Protocol

from hgkt._processes import start_worker
from hgkt._validation import check_choice, check_number
from hgkt.experiments._worker import died, failed, run_cell
from hgkt.experiments.base import Cell, CellResult
from hgkt.experiments.discovery import forget_loaded
from hgkt.experiments.schedule import Costs, RunProgress, Schedule, Tracker
from hgkt.experiments.store import ResultStore

ENGINES = ("joblib", "ray")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Engine(Protocol):
    """Runs cells in other processes."""

    n_workers: int

    def run(self, schedule: Schedule, started: Callable[[Cell], None]) -> Iterator[CellResult]:
        """Yield results as they come; closing the iterator stops what is under way."""
        ...


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
        runner = _engine(engine, n_jobs, len(todo), device, address)
        tracker.n_workers = runner.n_workers
        with closing(runner.run(schedule, tracker.started)) as stream:  # type: ignore[type-var]
            for result in chain(schedule.hopeless(), stream):
                keep(result)
                for follower in schedule.hopeless():
                    keep(follower)
    return {key: results[key] for key in wanted}


def _engine(name: str, n_jobs: int | None, n_cells: int, device: str, address: str) -> Engine:
    if n_jobs is not None:
        check_number("n_jobs", n_jobs, low=1, integer=True)
    if name == "ray":
        from hgkt.experiments._ray_engine import RayEngine

        return RayEngine(address, n_jobs, n_cells, device)
    return JoblibEngine(n_jobs, n_cells, device)


class JoblibEngine:
    """Cells in processes of joblib's loky; the processes share the cores, not threads.

    The executor is used directly and not through `joblib.Parallel`: what was done when a process
    died is kept, which cells are under way is known, and even a single job runs apart.

    Parameters
    ----------
    n_jobs : int or None
        Cells at a time; None for one per core.
    n_cells : int
        More processes than cells are never started.
    device : str
        Where networks are trained.
    """

    def __init__(self, n_jobs: int | None, n_cells: int, device: str = "cpu") -> None:
        from joblib import cpu_count

        n_cores = cpu_count()
        self.n_workers = max(1, min(n_jobs or n_cores, n_cells))
        self.n_threads = max(1, n_cores // self.n_workers)
        self.device = device

    def run(self, schedule: Schedule, started: Callable[[Cell], None]) -> Iterator[CellResult]:
        """Yield results as they come.

        When a process dies, nobody knows whose fault it was: what was under way is run again,
        one cell at a time, and the one that brings its process down once more has failed.
        """
        forget_loaded()  # the processes have data sets of their own
        while schedule:
            suspects: list[Cell] = []
            yield from self._run_pool(schedule, self.n_workers, started, suspects)
            for cell in suspects:
                dead: list[Cell] = []
                alone = Schedule([cell], schedule.results)
                yield from self._run_pool(alone, 1, started, dead)
                yield from (died(cell) for cell in dead)

    def _run_pool(
        self, schedule: Schedule, n_workers: int, started: Callable[[Cell], None], lost: list[Cell]
    ) -> Iterator[CellResult]:
        """Run cells until none waits or a process dies; `lost` gets those it was running."""
        from concurrent.futures import FIRST_COMPLETED, Future, wait
        from concurrent.futures.process import BrokenProcessPool

        executor = self._executor(n_workers)
        flying: dict[Future[CellResult], Cell] = {}
        try:
            while flying or (schedule and not lost):
                while len(flying) < n_workers and not lost and (cell := schedule.take()):
                    taken = schedule.taken(cell)
                    try:
                        future = executor.submit(run_cell, cell, self.device, None, taken)
                    except BrokenProcessPool:
                        schedule.put_back(cell)
                        break  # its futures, if any, say so too
                    flying[future] = cell
                    started(cell)
                if not flying:
                    return  # broken before anything ran in it: the caller starts another
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    cell = flying.pop(future)
                    try:
                        yield future.result()
                    except BrokenProcessPool:
                        lost.append(cell)
                    except Exception as problem:  # the way to the worker or back
                        yield failed(cell, f"{type(problem).__name__}: {problem}")
        finally:
            executor.shutdown(wait=True, kill_workers=bool(flying))

    def _executor(self, n_workers: int) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        # loky replaces a process that has grown, as ours do when they keep a data set.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        return ProcessPoolExecutor(
            n_workers,
            initializer=start_worker,
            # Not asked there: a parent that has been killed already has another number.
            initargs=(os.getpid(),),
            env={name: str(self.n_threads) for name in _THREADS},
        )
