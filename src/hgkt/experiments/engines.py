"""Run cells side by side: what the store holds is not run again, a failure stays alone."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from hgkt._validation import check_choice, check_number
from hgkt.experiments._worker import died, failed, run_cell, start_worker
from hgkt.experiments.base import Cell, CellResult
from hgkt.experiments.costs import Costs
from hgkt.experiments.store import ResultStore

ENGINES = ("joblib", "ray")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_LATE = 0.2


@dataclass
class RunState:
    """Where a run stands; what a progress display shows.

    Parameters
    ----------
    n_total : int
        Cells to run now; those that were there do not count.
    n_there : int
        Cells whose results were in the store.
    n_done, n_failed : int
        Cells that have ended, and how many of them failed.
    running : dict of str to Cell
        Cells under way, by key.
    last : CellResult or None
        What has just ended.
    seconds_left : float or None
        Expected, from the same costs that order the cells; None before anything is known.
    """

    n_total: int
    n_there: int
    n_done: int = 0
    n_failed: int = 0
    running: dict[str, Cell] = field(default_factory=dict)
    last: CellResult | None = None
    seconds_left: float | None = None


RunProgress = Callable[[RunState], None]


class Engine(Protocol):
    """Runs cells in other processes."""

    n_workers: int

    def run(self, cells: Sequence[Cell], started: Callable[[Cell], None]) -> Iterator[CellResult]:
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
    same call goes on. A cell that fails, or whose process dies twice, is one failed cell.

    Parameters
    ----------
    cells : sequence of Cell
        The work; equal cells run once.
    store : ResultStore
        Where results are and go.
    engine : {"joblib", "ray"}, default="joblib"
        Processes of this machine, or a Ray cluster.
    n_jobs : int, optional
        Cells at a time; by default one a core.
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
    there = store.load(wanted.values())
    if not keep_failures:
        there = {key: result for key, result in there.items() if result.ok}
    todo = [cell for key, cell in wanted.items() if key not in there]
    tracker = _Tracker(todo, len(there), Costs(store.results()) if todo else Costs(), progress)
    results = dict(there)
    if todo:
        runner = _engine(engine, n_jobs, len(todo), device, address)
        tracker.n_workers = runner.n_workers
        with closing(runner.run(tracker.ordered(), tracker.started)) as stream:  # type: ignore[type-var]
            for result in stream:
                store.put(result)
                results[result.cell.key] = result
                tracker.ended(result)
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
        Cells at a time; None for one a core.
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

    def run(self, cells: Sequence[Cell], started: Callable[[Cell], None]) -> Iterator[CellResult]:
        """Yield results as they come.

        When a process dies, nobody knows whose fault it was: what was under way is run again,
        one cell at a time, and the one that brings its process down once more has failed.
        """
        waiting = deque(cells)
        while waiting:
            suspects: list[Cell] = []
            yield from self._run_pool(waiting, self.n_workers, started, suspects)
            for cell in suspects:
                dead: list[Cell] = []
                yield from self._run_pool(deque([cell]), 1, started, dead)
                yield from (died(cell) for cell in dead)

    def _run_pool(
        self,
        waiting: deque[Cell],
        n_workers: int,
        started: Callable[[Cell], None],
        lost: list[Cell],
    ) -> Iterator[CellResult]:
        """Run cells until none waits or a process dies; `lost` gets those it was running."""
        from concurrent.futures import FIRST_COMPLETED, Future, wait
        from concurrent.futures.process import BrokenProcessPool

        executor = self._executor(n_workers)
        flying: dict[Future[CellResult], Cell] = {}
        try:
            while flying or (waiting and not lost):
                while waiting and len(flying) < n_workers and not lost:
                    try:
                        future = executor.submit(run_cell, waiting[0], self.device)
                    except BrokenProcessPool:
                        break  # its futures, if any, say so too
                    flying[future] = waiting.popleft()
                    started(flying[future])
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
            env={name: str(self.n_threads) for name in _THREADS},
        )


class _Tracker:
    """Keeps the `RunState`, the order and the estimate of the time left."""

    def __init__(
        self, todo: Sequence[Cell], n_there: int, costs: Costs, progress: RunProgress | None
    ) -> None:
        self.state = RunState(len(todo), n_there)
        self.n_workers = 1
        self._costs, self._progress = costs, progress
        self._left = {cell.key: cell for cell in todo}
        self._begun: dict[str, float] = {}
        self._guessed = self._taken = 0.0
        self._report()

    def ordered(self) -> list[Cell]:
        """Return the cells with the longest first: short ones fill the gaps at the end."""
        return sorted(self._left.values(), key=self._costs.seconds, reverse=True)

    def started(self, cell: Cell) -> None:
        self.state.running[cell.key] = cell
        self.state.last = None
        self._begun[cell.key] = time.monotonic()
        self._report()

    def ended(self, result: CellResult) -> None:
        key = result.cell.key
        if self._costs.is_guess(result.cell) and result.ok:
            self._guessed += self._costs.seconds(result.cell)
            self._taken += result.seconds
        self._costs.learn(result)
        self.state.running.pop(key, None)
        self._left.pop(key, None)
        self.state.n_done += 1
        self.state.n_failed += not result.ok
        self.state.last = result
        self._report()

    def _report(self) -> None:
        if self._progress is None:
            return
        self.state.seconds_left = self._seconds_left()
        self._progress(self.state)

    def _seconds_left(self) -> float:
        # Guesses are off by the same factor on the same machine; it shows as cells end.
        factor = self._taken / self._guessed if self._guessed else 1.0
        left = [self._cell_left(key, cell, factor) for key, cell in self._left.items()]
        return max(sum(left) / self.n_workers, max(left, default=0.0))

    def _cell_left(self, key: str, cell: Cell, factor: float) -> float:
        expected = self._costs.seconds(cell) * (factor if self._costs.is_guess(cell) else 1.0)
        elapsed = time.monotonic() - self._begun[key] if key in self._begun else 0.0
        # What takes longer than expected will hardly end this second.
        return max(expected - elapsed, _LATE * elapsed)
