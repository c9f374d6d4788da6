"""`hgkt reproduce`: every experiment of the paper, and one report."""

from __future__ import annotations

import shlex
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hgkt._validation import import_extra
from hgkt.cli._options import (
    AttributesOption,
    Device,
    DeviceOption,
    JsonOption,
    RootOption,
    split_names,
)
from hgkt.cli._output import emit, log, out
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.experiments.plan import Context
    from hgkt.experiments.run import Reproduction


class EngineName(StrEnum):
    """What runs the cells."""

    local = "local"
    ray = "ray"


class SearchName(StrEnum):
    """How settings are proposed."""

    grid = "grid"
    optuna = "optuna"


_SEEDS, _QUICK_SEEDS, _TRIALS = 3, 1, 50


def reproduce_command(
    folder: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder of the report and results.")
    ] = Path("hgkt-report"),
    root: RootOption = None,
    data: Annotated[
        str,
        typer.Option("--data", metavar="A,B", help="Data sets. [default: all under --root]"),
    ] = "",
    features: Annotated[
        str,
        typer.Option("--features", help="Feature file, without .mat; found if left out."),
    ] = "",
    attributes: AttributesOption = "att",
    only: Annotated[
        str, typer.Option("--only", metavar="A,B", help="Experiments: names of --list.")
    ] = "",
    methods: Annotated[
        str,
        typer.Option(
            "--methods", metavar="A,B", help="Run these methods only: names of `hgkt methods`."
        ),
    ] = "",
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, help="Seeds. [default: 3; 1 with --quick]"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Cells at a time. [default: one per core]"),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="Processes of this machine, or a Ray cluster.")
    ] = EngineName.local,
    address: Annotated[
        str, typer.Option("--address", help="Ray cluster; local starts one on this machine.")
    ] = "local",
    quick: Annotated[
        bool, typer.Option("--quick", help="Small grids and few steps: shows that it runs.")
    ] = False,
    image_root: Annotated[
        Path | None, typer.Option("--image-root", help="Folder of the data sets' images.")
    ] = None,
    device: DeviceOption = Device.auto,
    search: Annotated[
        SearchName, typer.Option("--search", help="The methods' grids, or wider, by Optuna.")
    ] = SearchName.grid,
    trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, help="Settings that Optuna tries. [default: 50]"),
    ] = None,
    keep_failures: Annotated[
        bool, typer.Option("--keep-failures", help="Do not run again what failed before.")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Write the report of what has run; run nothing.")
    ] = False,
    list_them: Annotated[bool, typer.Option("--list", help="Show the experiments.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments on the data sets you have and write one HTML report.

    Whatever has run is kept: after Ctrl-C, or worse, the same command goes on. With --no-run it
    writes the report of what has run so far, even while another command is still at work. Before
    anything runs, one line says how many cells of which methods there are, and how long they take
    where earlier runs tell.

    Example: hgkt reproduce --root data --only table-gzsl --methods hgkt,dem --data CUB
    """
    from hgkt.estimators.methods import METHODS, attribute_methods
    from hgkt.experiments.run import load_experiments, reproduce

    if list_them:
        _list(as_json)
        return
    start = time.perf_counter()
    for package in ("matplotlib", "jinja2"):
        import_extra(package, "report")
    names, wanted = split_names(only), split_names(methods.lower())
    load_experiments(names)  # wrong names are told before data is read
    for name in wanted:
        METHODS[name]
    if trials is not None and search is not SearchName.optuna:
        raise DataError("--trials belongs to --search optuna; give both or neither")
    if image_root is not None and not image_root.is_dir():
        raise DataError(f"--image-root {image_root} is no folder")

    def note(line: str) -> None:
        log.print(escape(line), soft_wrap=True)

    context = _context(
        root, split_names(data), features, attributes, note,
        methods=wanted or attribute_methods(),
        n_seeds=seeds or (_QUICK_SEEDS if quick else _SEEDS),
        quick=quick, device=str(device), image_root=image_root,
    )  # fmt: skip
    from hgkt.cli._run_display import run_display

    try:
        with run_display() as progress:
            done = reproduce(
                folder,
                context,
                names,
                engine=str(engine),
                n_jobs=workers,
                address=address,
                n_trials=(trials or _TRIALS) if search is SearchName.optuna else None,
                keep_failures=keep_failures,
                run=not no_run,
                progress=progress,
                note=note,
                run_info={"command": shlex.join(["hgkt", *sys.argv[1:]])},
            )
    except KeyboardInterrupt:
        note(f"what has run is in {folder}; the same command goes on from there")
        raise
    document = _document(done, context, time.perf_counter() - start)
    emit(document, as_json, lambda: _render(document))
    if done.results and done.n_failed == len(done.results):
        raise typer.Exit(1)


def _context(
    root: Path | None,
    names: list[str],
    features: str,
    attributes: str,
    note: Any,
    **choices: Any,
) -> Context:
    from hgkt.experiments.discovery import discover
    from hgkt.experiments.plan import Context

    found = discover(root, names, features, attributes, note)
    return Context(found.data, found.missing, **choices)


def _list(as_json: bool) -> None:
    from hgkt.experiments.plan import EXPERIMENTS

    entries = [
        {"name": name, "summary": entry.summary, "family": entry.family}
        for name, entry in EXPERIMENTS.items()
    ]

    def render() -> None:
        table = Table("name", "what", "family", box=None)
        for entry in entries:
            table.add_row(*(escape(value) for value in entry.values()))
        out.print(table)

    emit({"experiments": entries}, as_json, render)


def _document(done: Reproduction, context: Context, seconds: float) -> dict[str, Any]:
    return {
        "report": done.report.html,
        "markdown": done.report.markdown,
        "folder": done.report.folder,
        "data": [spec.name for spec in context.data],
        "missing": list(context.missing),
        "n_cells": len(done.results),
        "n_ran": done.n_ran,
        "n_there": done.n_there,
        "n_failed": done.n_failed,
        "seconds": seconds,
        "cells": [
            {
                "key": result.cell.key,
                "label": result.cell.label,
                "ok": result.ok,
                "error": result.error or None,
                "seconds": result.seconds,
            }
            for result in done.results.values()
        ],
    }


def _render(document: dict[str, Any]) -> None:
    from hgkt.cli._run_display import duration

    for cell in document["cells"]:
        if not cell["ok"]:
            out.print(f"failed: {cell['label']}: {cell['error']}", soft_wrap=True, markup=False)
    n_ran = document["n_ran"]
    counts = (
        f"{n_ran} cell{'' if n_ran == 1 else 's'} ran, {document['n_there']} were there, "
        f"{document['n_failed']} failed; {duration(document['seconds'])}"
    )
    out.print(counts, soft_wrap=True, markup=False)
    if document["missing"]:
        names = ", ".join(document["missing"])
        out.print(f"not found: {names}", soft_wrap=True, markup=False)
    out.print(f"report: {document['report']}", soft_wrap=True, markup=False)
