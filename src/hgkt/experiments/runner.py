"""From experiment names to a report: plan, run what is missing, render."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt.exceptions import DataError
from hgkt.experiments.base import Cell, CellResult, Context
from hgkt.experiments.blocks import Experiment
from hgkt.experiments.catalog import EXPERIMENTS
from hgkt.experiments.engines import run_cells
from hgkt.experiments.schedule import RunProgress, RunState
from hgkt.experiments.store import ResultStore

if TYPE_CHECKING:
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
    wanted = {name.lower() for name in names}
    return {name: EXPERIMENTS.load(name) for name in EXPERIMENTS if not names or name in wanted}


def with_search(cell: Cell, n_trials: int) -> Cell:
    """Let Optuna choose what a cell would have chosen from its method's own grid.

    Parameters
    ----------
    cell : Cell
        Cells that select nothing, or from a grid of their own, are returned as they are.
    n_trials : int
        How many settings are tried.
    """
    options = cell.options
    if cell.task != "evaluate" or not options.get("select", True):
        return cell
    if "stages" in options or "search" in options:
        return cell
    return replace(cell, options={**options, "search": "optuna", "n_trials": n_trials})


def cells_to_run(planned: Mapping[str, Cell], n_trials: int | None) -> dict[str, Cell]:
    """Return by planned key what runs for it: the same cell, or one with a wider search.

    Parameters
    ----------
    planned : mapping of str to Cell
        By key.
    n_trials : int or None
        Settings that Optuna tries; None leaves the methods' grids.
    """
    actual: dict[str, Cell] = {}

    def resolve(key: str) -> Cell:
        if key not in actual:
            cell = planned[key] if n_trials is None else with_search(planned[key], n_trials)
            # What a needed cell chose is found under the name of the one that ran.
            needs = [resolve(need).key if need in planned else need for need in cell.needs]
            actual[key] = replace(cell, needs=needs) if needs else cell
        return actual[key]

    return {key: resolve(key) for key in planned}


def reproduce(
    folder: str | Path,
    context: Context,
    names: Sequence[str] = (),
    *,
    engine: str = "joblib",
    n_jobs: int | None = None,
    address: str = "local",
    n_trials: int | None = None,
    keep_failures: bool = False,
    run: bool = True,
    progress: RunProgress | None = None,
    note: Callable[[str], None] | None = None,
    run_info: Mapping[str, Any] | None = None,
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
    engine : {"joblib", "ray"}, default="joblib"
        What runs the cells; see `run_cells`.
    n_jobs : int, optional
        Cells at a time; by default one per core.
    address : str, default="local"
        Of the Ray cluster.
    n_trials : int, optional
        Search wider than the methods' grids: so many settings drawn by Optuna.
    keep_failures : bool, default=False
        Whether stored failures are kept; by default they are run again.
    run : bool, default=True
        False runs nothing: the report is of what is there, the rest is shown as not run.
    progress : callable, optional
        Called with the `RunState` whenever it changes.
    note : callable, optional
        Called with one line for every stored file that cannot be read.
    run_info : mapping, optional
        What else the head of the report tells.

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
    plans = {name: experiment.plan(context) for name, experiment in experiments.items()}
    planned = {c.key: c for plan in plans.values() for cells in plan.values() for c in cells}
    actual = cells_to_run(planned, n_trials)
    store = ResultStore(Path(folder) / CELLS, note)
    n_ran = 0

    def watch(state: RunState) -> None:
        nonlocal n_ran
        n_ran = state.n_done
        if progress is not None:
            progress(state)

    if run:
        found = run_cells(
            list(actual.values()),
            store,
            engine,
            n_jobs,
            watch,
            device=context.device,
            address=address,
            keep_failures=keep_failures,
        )
    else:
        found = store.load(actual.values())
        if not found:
            raise DataError(f"nothing of this has run: {store.folder} holds no result of it")
    # Experiments look for what they planned, whichever search was made for it.
    results = {key: found[cell.key] for key, cell in actual.items() if cell.key in found}
    n_there = len(results) - n_ran
    counts = {"cells_run_now": n_ran, "cells_from_earlier_runs": n_there}
    how = {"engine": engine} if run else {"cells_not_run": len(planned) - len(results)}
    info = {**counts, **how, **(run_info or {})}
    report = write_report(folder, context, experiments, plans, results, info)
    return Reproduction(report, results, n_ran, n_there)
