"""From experiment names to a report: plan, run what is missing, render.

What the store holds is not run again, and a failure stays alone.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from hgkt._plain import plain
from hgkt._validation import check_choice, check_number
from hgkt.engines import ENGINES, Engine, ProcessEngine
from hgkt.engines.local import usual_workers
from hgkt.evaluation.records import machine, versions
from hgkt.exceptions import DataError
from hgkt.experiments.blocks import Experiment, Plan
from hgkt.experiments.discovery import forget_loaded, load_once
from hgkt.experiments.plan import (
    EXPERIMENTS,
    Cell,
    CellResult,
    Context,
    DataSpec,
    load_task,
    use_device,
)
from hgkt.experiments.store import MATHEMATICS, ResultStore

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.experiments.report import ReportFiles

CELLS = "cells"
"""Folder of the results, inside the folder of the report."""


@dataclass(frozen=True)
class Reproduction:
    """What a run gave.

    Parameters
    ----------
    report : ReportFiles
        The files of the report.
    results : dict of str to CellResult
        By the key of the cell that an experiment planned.
    n_ran, n_there : int
        Cells that ran now, and those whose results were there.
    """

    report: ReportFiles
    results: dict[str, CellResult]
    n_ran: int
    n_there: int

    @property
    def n_failed(self) -> int:
        """How many of the cells have no result."""
        return sum(not result.ok for result in self.results.values())


def load_experiments(names: Sequence[str] = ()) -> dict[str, Experiment]:
    """Return experiments by name, in the order of the catalog; by default all.

    Parameters
    ----------
    names : sequence of str
        Registered names; an unknown one is refused with the choices.

    Examples
    --------
    >>> load_experiments(["table-gzls"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hgkt.exceptions.UnknownNameError: unknown experiment 'table-gzls'; choose from: table-data, ...
    """
    for name in names:
        EXPERIMENTS[name]
    asked = {name.lower() for name in names}
    return {name: EXPERIMENTS.load(name) for name in EXPERIMENTS if not names or name in asked}


def plan_experiments(
    experiments: Mapping[str, Experiment],
    context: Context,
    note: Callable[[str], None] | None = None,
) -> dict[str, Plan]:
    """Return what each experiment plans of the methods asked for.

    Parameters
    ----------
    experiments : mapping of str to Experiment
        By name; those that have nothing to do with the methods asked for are left out.
    context : Context
        Its ``methods``; all where it names none.
    note : callable, optional
        Called with one line that names what is left out.

    Examples
    --------
    >>> context = Context([DataSpec("digits", "digits")], methods=["hgkt"], n_seeds=1)
    >>> names = ["ablation-intra", "figure-iterations"]
    >>> plans = plan_experiments(load_experiments(names), context, print)
    left out, as they are about other methods than those asked for: figure-iterations
    >>> {cell.method for cells in plans["ablation-intra"].values() for cell in cells}
    {'hgkt'}
    """
    plans: dict[str, Plan] = {}
    for name, experiment in experiments.items():
        plan = experiment.plan(context)
        asked = {slot: [c for c in cells if context.asks(c.method)] for slot, cells in plan.items()}
        if any(asked.values()) or not plan:
            plans[name] = {slot: cells for slot, cells in asked.items() if cells}
    left_out = [name for name in experiments if name not in plans]
    if left_out and note is not None:
        words = "left out, as they are about other methods than those asked for"
        note(f"{words}: {', '.join(left_out)}")
    return plans


def reproduce(
    folder: str | Path,
    context: Context,
    names: Sequence[str] = (),
    *,
    run: bool = True,
    progress: RunProgress | None = None,
    note: Callable[[str], None] | None = None,
    run_info: Mapping[str, Any] | None = None,
    engine: str = "local",
    **how: Any,
) -> Reproduction:
    """Run experiments and write the report; results of earlier runs in the folder are used.

    Parameters
    ----------
    folder : path
        Where the report goes; results lie in its folder ``cells``.
    context : Context
        Data, methods, seeds.
    names : sequence of str
        Experiments; by default all.
    run : bool, default=True
        False runs nothing: the report is of what is there, the rest is shown as not run.
    progress : callable, optional
        Called with the `RunState` whenever it changes.
    note : callable, optional
        Called with one line for every stored file that cannot be read.
    run_info : mapping, optional
        What else the head of the report tells.
    engine : {"local", "ray"}, default="local"
        What runs the cells.
    **how
        Of `run_cells`: ``n_jobs``, ``address``, ``keep_failures``.

    Returns
    -------
    Reproduction

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.experiments.discovery import discover
    >>> context = Context(discover(names=["digits"]).data, methods=["ridge"], n_seeds=1, quick=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = reproduce(folder, context, ["table-gzsl"], n_jobs=1)
    ...     done.n_ran, done.n_failed, done.report.html.is_file()
    (1, 0, True)
    """
    from hgkt.experiments.report import write_report

    experiments = load_experiments(names)
    plans = plan_experiments(experiments, context, note)
    experiments = {name: experiments[name] for name in plans}
    planned = {c.key: c for plan in plans.values() for cells in plan.values() for c in cells}
    store = ResultStore(Path(folder) / CELLS, note)
    n_ran = 0

    def watch(state: RunState) -> None:
        nonlocal n_ran
        n_ran = state.n_done
        if progress is not None:
            progress(state)

    if run:
        results = run_cells(
            planned.values(), store, engine, progress=watch, device=context.device, **how
        )
        told: dict[str, Any] = {"engine": engine}
    else:
        results = store.load(planned.values())
        told = {"cells_not_run": len(planned) - len(results)}
        if not results:
            raise DataError(f"nothing of this has run: {store.folder} holds no result of it")
    n_there = len(results) - n_ran
    info = {"cells_run_now": n_ran, "cells_from_earlier_runs": n_there, **told, **(run_info or {})}
    report = write_report(folder, context, experiments, plans, results, info)
    return Reproduction(report, results, n_ran, n_there)


_DIED = "the process that ran it died twice: it was killed, crashed, or ran out of memory"


def run_cells(
    cells: Iterable[Cell],
    store: ResultStore,
    engine: str = "local",
    n_jobs: int | None = None,
    progress: RunProgress | None = None,
    *,
    device: str = "cpu",
    address: str | None = None,
    keep_failures: bool = False,
) -> dict[str, CellResult]:
    """Run the cells that the store does not hold, the longest first, and return all results.

    Every result is written as soon as it is there: after an interruption, however rough, the
    same call goes on. A cell runs after those it needs. One that fails, whose process dies twice
    or that needs a failed one is one failed cell.

    Parameters
    ----------
    cells : iterable of Cell
        The work; equal cells run once.
    store : ResultStore
        Where results are and go.
    engine : {"local", "ray"}, default="local"
        Processes of this machine, or a Ray cluster.
    n_jobs : int, optional
        Cells at a time; by default one per core.
    progress : callable, optional
        Called with the `RunState` whenever it changes.
    device : str, default="cpu"
        Where networks are trained.
    address : str, optional
        Of the Ray cluster; by default one is started on this machine.
    keep_failures : bool, default=False
        Whether stored failures count as results; by default they are run again.

    Returns
    -------
    dict of str to CellResult
        By key, in the order of `cells`.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.experiments.plan import DataSpec
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
    costs = Costs(results.values())
    tracker = Tracker(todo, len(results), costs, progress)
    if not todo:
        tracker.report()
        return {key: results[key] for key in wanted}
    todo.sort(key=costs.seconds, reverse=True)  # short ones fill the gaps at the end
    schedule = Schedule(todo, results)
    with _open(engine, n_jobs, len(todo), device, address) as runner:
        tracker.n_workers = runner.n_workers
        tracker.report()
        with closing(_run(runner, schedule, device, tracker.started)) as stream:  # type: ignore[type-var]
            for result in stream:
                store.put(result)
                results[result.cell.key] = result
                tracker.ended(result)
    return {key: results[key] for key in wanted}


def _run(
    engine: Engine, schedule: Schedule, device: str, started: Callable[[Cell], None]
) -> Iterator[CellResult]:
    """Yield results as they come; a cell whose process dies twice has failed.

    What is yielded has to be among the schedule's results before the next one is asked for.
    """
    apart = isinstance(engine, ProcessEngine)
    if apart:
        forget_loaded()  # the processes have data sets of their own

    @cache
    def share(data: DataSpec) -> Any:
        # No node of a cluster but this one needs the files.
        return engine.share(load_once(data))

    def arguments(cell: Cell) -> tuple[Any, ...]:
        return cell, device, None if apart else share(cell.data), schedule.taken(cell)

    ends = engine.run(run_cell, schedule, arguments=arguments, started=started, n_retries=1)
    with closing(ends) as stream:  # type: ignore[type-var]
        for end in stream:
            problem = _DIED if end.n_deaths else end.problem
            yield end.value if problem is None else failed(end.task, str(problem))


def _open(name: str, n_jobs: int | None, n_cells: int, device: str, address: str | None) -> Engine:
    if n_jobs is not None:
        check_number("n_jobs", n_jobs, low=1, integer=True)
    if name == "ray":
        from hgkt.engines.ray_tasks import LOCAL, RayEngine

        return RayEngine(address or LOCAL, n_jobs, n_cells, gpu=device != "cpu")
    # Even a single job runs apart: it may bring its process down.
    return ProcessEngine(usual_workers(n_jobs, n_cells))


def run_cell(
    cell: Cell,
    device: str = "cpu",
    dataset: GZSLDataset | None = None,
    taken: Mapping[str, Any] | None = None,
) -> CellResult:
    """Run one cell; what it raises is put into a sentence by the engine.

    Parameters
    ----------
    cell : Cell
        The work.
    device : str
        Where networks are trained.
    dataset : GZSLDataset, optional
        The data where it is at hand; by default it is loaded, once per process.
    taken : mapping, optional
        Parameters that the cells it needs selected; those set by hand win.

    Returns
    -------
    CellResult

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), "eszsl", options={"select": False})
    >>> run_cell(cell).values["method"]
    'eszsl'
    """
    start = time.perf_counter()
    dataset = load_once(cell.data) if dataset is None else dataset
    work = replace(cell, params={**(taken or {}), **cell.params})
    with use_device(device):
        values, arrays = load_task(cell.task)(work, dataset)
    if cell.needs:
        values = {**values, "taken": dict(taken or {})}
    return CellResult(
        cell,
        plain(values),
        {name: np.asarray(array) for name, array in arrays.items()},
        seconds=time.perf_counter() - start,
        versions=_versions(cell),
        machine=machine(),
    )


def failed(cell: Cell, error: str) -> CellResult:
    """Return the failure of a cell that no worker could report itself."""
    return CellResult(cell, error=error, versions=_versions(cell), machine=machine())


def _versions(cell: Cell) -> dict[str, str]:
    return {**versions(), MATHEMATICS: cell.mathematics}


# ---------------------------------------------------------------------- order and time
_TRAINED, _USUAL = 300.0, 60.0
_LOOPS = {"n_steps", "n_epochs", "n_iterations"}


class Schedule:
    """Cells that wait, in order, each for those it needs.

    Parameters
    ----------
    cells : sequence of Cell
        The work.
    results : mapping
        Results by key, to which those of the run are added as they come.

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> digits = DataSpec("digits", "digits")
    >>> main = Cell("evaluate", digits, "dem")
    >>> picture = Cell("embedding", digits, "dem", needs=[main.key])
    >>> results = {}
    >>> schedule = Schedule([picture, main], results)
    >>> schedule.take() is main, schedule.take()
    (True, None)
    >>> results[main.key] = CellResult(main, {"selected": {"ridge": 0.5}})
    >>> schedule.take() is picture, schedule.taken(picture)
    (True, {'ridge': 0.5})
    """

    def __init__(self, cells: Sequence[Cell], results: Mapping[str, CellResult]) -> None:
        self._waiting = list(cells)
        self._planned = {cell.key for cell in cells}
        self.results = results

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Cell | None:
        """Return the next cell that can run, or None while all that wait need others."""
        for cell in self._waiting:
            if all(key in self.results or key not in self._planned for key in cell.needs):
                self._waiting.remove(cell)
                return cell
        return None

    def taken(self, cell: Cell) -> dict[str, Any]:
        """Return the parameters that a cell takes from those it needs; refuse what has none."""
        chosen: dict[str, Any] = {}
        for key in cell.needs:
            need = self.results.get(key)
            if need is None:
                raise DataError(f"it needs the cell {key}, which is not part of the run")
            if not need.ok:
                which = f"{need.cell.label}: {need.error}"
                raise DataError(f"it needs another cell, which failed: {which}")
            chosen |= need.values.get("selected") or {}
        return chosen


class Costs:
    """Expected seconds of cells, better with every result that is learned.

    A cell is expected to take what the same work took with other seeds; else what the same
    method took on that data; else what it took on other data; else a plain guess.

    Parameters
    ----------
    results : iterable of CellResult
        Results to learn from; failures teach nothing.

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> cub = DataSpec("CUB", "CUB")
    >>> cells = [Cell("evaluate", cub, "ridge", seed=seed) for seed in (0, 1)]
    >>> costs = Costs()
    >>> costs.is_guess(cells[1])
    True
    >>> costs.learn(CellResult(cells[0], seconds=12.0))
    >>> costs.seconds(cells[1])
    12.0
    """

    def __init__(self, results: Iterable[CellResult] = ()) -> None:
        self._seconds: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
        for result in results:
            self.learn(result)

    def learn(self, result: CellResult) -> None:
        """Take a result's time into account."""
        for level in _levels(result.cell) if result.ok else ():
            self._seconds[level].append(result.seconds)

    def seconds(self, cell: Cell) -> float:
        """Return how long a cell is expected to take."""
        known = (self._seconds[level] for level in _levels(cell) if level in self._seconds)
        return fmean(next(known, [_guess(cell)]))

    def is_guess(self, cell: Cell) -> bool:
        """Whether nothing like the cell has been learned."""
        return not any(level in self._seconds for level in _levels(cell))


def _levels(cell: Cell) -> list[tuple[str, ...]]:
    """Return what cells of similar cost share, the most similar first."""
    kind = (cell.task, cell.method, cell.preset)
    place = (*kind, cell.data.name, cell.data.features)
    return [(*place, str(cell.params), str(cell.options)), place, kind]


def _guess(cell: Cell) -> float:
    """Return more for a method that goes through its data many times."""
    from hgkt.estimators.methods import METHODS

    if cell.method not in METHODS:
        return _USUAL
    return _TRAINED if _LOOPS & set(METHODS.load(cell.method)._get_param_names()) else _USUAL


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
    todo : dict of str to int
        Cells to run by method; those without one are under "data".
    n_guessed : int
        Of how many nothing was known when the run began that would tell how long they take.
    seconds_left : float or None
        Expected, from the same costs that order the cells; None before anything is known.
    """

    n_total: int
    n_there: int
    n_done: int = 0
    n_failed: int = 0
    running: dict[str, Cell] = field(default_factory=dict)
    last: CellResult | None = None
    todo: dict[str, int] = field(default_factory=dict)
    n_guessed: int = 0
    seconds_left: float | None = None


RunProgress = Callable[[RunState], None]


class Tracker:
    """Keeps the `RunState` and the estimate of the time left.

    Parameters
    ----------
    todo : sequence of Cell
        Cells to run.
    n_there : int
        Cells whose results were there.
    costs : Costs
        What is known of their times; it learns more.
    progress : callable, optional
        Called with the state whenever it changes.

    Attributes
    ----------
    n_workers : int
        Cells that run at once.
    """

    def __init__(
        self, todo: Sequence[Cell], n_there: int, costs: Costs, progress: RunProgress | None
    ) -> None:
        self.state = RunState(len(todo), n_there)
        self.state.todo = dict(Counter(cell.method or "data" for cell in todo))
        self.state.n_guessed = sum(map(costs.is_guess, todo))
        self.n_workers = 1
        self._costs, self._progress = costs, progress
        self._left = {cell.key: cell for cell in todo}

    def started(self, cell: Cell) -> None:
        """Note that a cell runs."""
        self.state.running[cell.key] = cell
        self.report()

    def ended(self, result: CellResult) -> None:
        """Note what a cell gave."""
        self._costs.learn(result)
        self.state.running.pop(result.cell.key, None)
        del self._left[result.cell.key]
        self.state.n_done += 1
        self.state.n_failed += not result.ok
        self.report(result)

    def report(self, last: CellResult | None = None) -> None:
        """Tell where the run stands, and what has just ended."""
        self.state.last = last
        if self._progress is not None:
            left = [self._costs.seconds(cell) for cell in self._left.values()]
            self.state.seconds_left = max(sum(left) / self.n_workers, max(left, default=0.0))
            self._progress(self.state)
