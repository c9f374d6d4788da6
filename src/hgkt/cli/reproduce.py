"""`hgkt reproduce`: every experiment of the paper, and one report."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._validation import import_extra
from hgkt.cli._options import (
    AttributesOption,
    Device,
    DeviceOption,
    EngineOptions,
    JsonOption,
    RootOption,
    split_names,
    with_options,
)
from hgkt.cli._output import counted, emit, note, say, show_table
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.experiments.plan import Context
    from hgkt.experiments.run import Reproduction


_SEEDS, _QUICK_SEEDS = 3, 1


@with_options
def reproduce_command(
    folder: Annotated[Path, typer.Option("--out")] = Path("hgkt-report"),
    root: RootOption = None,
    data: str = "",
    features: str = "",
    attributes: AttributesOption = "att",
    only: str = "",
    methods: str = "",
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    *,
    where: EngineOptions,
    quick: bool = False,
    image_root: Path | None = None,
    device: DeviceOption = Device.auto,
    keep_failures: bool = False,
    no_run: bool = False,
    list_them: Annotated[bool, typer.Option("--list")] = False,
    as_json: JsonOption = False,
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
        _list(as_json)
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
        device=str(device),
        image_root=image_root,
    )
    from hgkt.cli._run_display import run_display

    try:
        with run_display() as progress:
            done = reproduce(
                folder,
                context,
                names,
                **where.engine_and_address(),
                n_jobs=where.workers,
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


def _list(as_json: bool) -> None:
    from hgkt.experiments.plan import EXPERIMENTS

    entries = [
        {"name": name, "summary": entry.summary, "family": entry.family}
        for name, entry in EXPERIMENTS.items()
    ]

    rows = [entry.values() for entry in entries]
    emit({"experiments": entries}, as_json, lambda: show_table(["name", "what", "family"], rows))


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
            say(f"failed: {cell['label']}: {cell['error']}")
    say(
        f"{counted(document['n_ran'], 'cell')} ran, {document['n_there']} were there, "
        f"{document['n_failed']} failed; {duration(document['seconds'])}"
    )
    if document["missing"]:
        say(f"not found: {', '.join(document['missing'])}")
    say(f"report: {document['report']}")
