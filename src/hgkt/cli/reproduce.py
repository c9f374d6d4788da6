"""`hgkt reproduce`: every experiment of the paper, and one report."""

from __future__ import annotations

import shlex
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._typing import Progress
from hgkt._validation import import_extra
from hgkt.cli._options import Device, EngineOptions, split_names, with_options
from hgkt.cli._output import counted, emit, note, progress_bar, show_table
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.experiments.plan import Context
    from hgkt.experiments.run import Reproduction, RunState


_SEEDS, _QUICK_SEEDS = 3, 1


@with_options
def reproduce_command(
    folder: Annotated[Path, typer.Option("--out")] = Path("hgkt-report"),
    root: Path | None = None,
    data: str = "",
    features: str = "",
    attributes: str = "att",
    only: str = "",
    methods: str = "",
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    *,
    where: EngineOptions,
    quick: bool = False,
    image_root: Path | None = None,
    device: Device = "auto",
    keep_failures: bool = False,
    no_run: bool = False,
    list_them: Annotated[bool, typer.Option("--list")] = False,
) -> None:
    """Run the paper's experiments on the data sets you have and write one HTML report.

    Whatever has run is kept: after Ctrl-C, or worse, the same command goes on. With --no-run it
    writes the report of what has run so far, even while another command is still at work. Before
    anything runs, one line says how many cells of which methods there are, and how long they take
    where earlier runs tell.

    Example: hgkt reproduce --root data --only table-gzsl --methods hgkt,dem --data CUB

    Parameters
    ----------
    folder : FOLDER
        Folder of the report and results.
    data : A,B
        Data sets. [default: all under --root]
    features
        Feature file, without .mat; found if left out.
    only : A,B
        Experiments: names of --list.
    methods : A,B
        Run these methods only: names of `hgkt methods`.
    seeds
        Seeds. [default: 3; 1 with --quick]
    quick
        Small grids and few steps: shows that it runs.
    image_root
        Folder of the data sets' images.
    keep_failures
        Do not run again what failed before.
    no_run
        Write the report of what has run; run nothing.
    list_them
        Show the experiments.
    """
    from hgkt.estimators.methods import METHODS, attribute_methods
    from hgkt.experiments.discovery import discover
    from hgkt.experiments.plan import Context
    from hgkt.experiments.run import load_experiments, reproduce

    if list_them:
        _list()
        return
    start = time.perf_counter()
    for package in ("matplotlib", "jinja2"):
        import_extra(package, "report")
    names, wanted = split_names(only), split_names(methods.lower())
    load_experiments(names)  # wrong names are told before data is read
    for name in wanted:
        METHODS[name]
    if image_root is not None and not image_root.is_dir():
        raise DataError(f"--image-root {image_root} is no folder")

    found = discover(root, split_names(data), features, attributes, note)
    context = Context(
        found.data,
        found.missing,
        methods=wanted or attribute_methods(),
        n_seeds=seeds or (_QUICK_SEEDS if quick else _SEEDS),
        quick=quick,
        device=device,
        image_root=image_root,
    )
    try:
        with progress_bar() as bar:
            done = reproduce(
                folder,
                context,
                names,
                **where.engine_and_address(),
                n_jobs=where.workers,
                keep_failures=keep_failures,
                run=not no_run,
                progress=partial(_show_state, bar),
                note=note,
                run_info={"command": shlex.join(["hgkt", *sys.argv[1:]])},
            )
    except KeyboardInterrupt:
        note(f"what has run is in {folder}; the same command goes on from there")
        raise
    seconds = time.perf_counter() - start
    emit(_document(done, context, seconds), *_lines(done, context, seconds))
    if done.results and done.n_failed == len(done.results):
        raise typer.Exit(1)


def _list() -> None:
    from hgkt.experiments.plan import EXPERIMENTS

    entries = [
        {"name": name, "summary": entry.summary, "family": entry.family}
        for name, entry in EXPERIMENTS.items()
    ]
    rows = [entry.values() for entry in entries]
    emit({"experiments": entries}, lambda: show_table(["name", "what", "family"], rows))


def _document(done: Reproduction, context: Context, seconds: float) -> dict[str, Any]:
    return {
        "report": done.report.html,
        "markdown": done.report.markdown,
        "folder": done.report.folder,
        "data": [spec.name for spec in context.data],
        "missing": list(context.missing),
        "n_cells": len(done.results),
        **{name: getattr(done, name) for name in ("n_ran", "n_there", "n_failed")},
        "seconds": seconds,
        "cells": [
            {"key": result.cell.key, "label": result.cell.label}
            | {"ok": result.ok, "error": result.error or None, "seconds": result.seconds}
            for result in done.results.values()
        ],
    }


def _lines(done: Reproduction, context: Context, seconds: float) -> list[str]:
    """Return what is said of a run."""
    failed = [result for result in done.results.values() if not result.ok]
    counts = f"{done.n_there} were there, {done.n_failed} failed; {_clock(seconds)}"
    return [
        *(f"failed: {result.cell.label}: {result.error}" for result in failed),
        f"{counted(done.n_ran, 'cell')} ran, {counts}",
        *([f"not found: {', '.join(context.missing)}"] if context.missing else []),
        f"report: {done.report.html}",
    ]


# ---------------------------------------------------------------------- while it runs
def _show_state(bar: Progress, state: RunState) -> None:
    """Show the state of a run: what will run, a line per cell, and a bar."""
    last = state.last
    if not state.n_done and not state.running:
        note(plan_line(state))
    if last is not None:
        ended = f"({_clock(last.seconds)})" if last.ok else f"failed: {last.error}"
        left = f", about {_clock(state.seconds_left)} left" if state.seconds_left else ""
        note(f"{state.n_done}/{state.n_total} {last.cell.label} {ended}{left}")
    bar("cells", state.n_done, state.n_total, {"failed": state.n_failed})


def plan_line(state: RunState) -> str:
    """Say what will run: cells by method, and how long they take where earlier runs tell.

    Examples
    --------
    >>> from hgkt.experiments.run import RunState
    >>> state = RunState(3, 2, todo={"hgkt": 2, "ridge": 1}, n_guessed=3)
    >>> plan_line(state)
    '3 cells to run (hgkt 2, ridge 1), 2 are there; how long they take is not known yet'
    """
    n, methods = state.n_total, ", ".join(f"{name} {n}" for name, n in sorted(state.todo.items()))
    head = f"{counted(n, 'cell')} to run" + (f" ({methods})" if n else "")
    line = f"{head}, {state.n_there} {'is' if state.n_there == 1 else 'are'} there"
    if not n:
        return line
    if state.n_guessed:
        some = "they take" if state.n_guessed == n else f"{state.n_guessed} of them take"
        return f"{line}; how long {some} is not known yet"
    return f"{line}; about {_clock(state.seconds_left or 0.0)}"


def _clock(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))
