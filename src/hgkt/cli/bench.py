"""`hgkt bench`: the benchmarks behind the claims."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from hgkt._registry import Entry, Registry
from hgkt.cli._options import Device, DeviceOption, JsonOption, split_names
from hgkt.cli._output import emit, log, out, progress_bar
from hgkt.exceptions import DataError

BENCHMARKS = Registry(
    "benchmark",
    {
        "predict": Entry(
            "hgkt.benchmarks.predict:run",
            "predicting beside the products it cannot do without, and discriminant analysis",
        ),
        "representatives": Entry(
            "hgkt.benchmarks.representatives:run",
            "exact representatives beside POT's Sinkhorn barycenter",
        ),
        "train": Entry(
            "hgkt.benchmarks.train:run", "an epoch on the quotient beside drawn neighbours"
        ),
        "network": Entry(
            "hgkt.benchmarks.network:run",
            "the quotient to the same loss as PyTorch Geometric's full graph and drawn neighbours",
        ),
        "add-class": Entry(
            "hgkt.benchmarks.add_class:run", "milliseconds to add a class to a fitted model"
        ),
        "gather": Entry(
            "hgkt.benchmarks.gather:run",
            "statistics of many rows beside reading them and the product they need",
        ),
        "fit": Entry(
            "hgkt.benchmarks.fit:run",
            "closed-form fit beside scikit-learn's discriminant analysis and the network",
        ),
        "suite": Entry(
            "hgkt.benchmarks.suite:run",
            "selection, fit and test on data of the five benchmarks' shapes, beside two peers",
        ),
        "serve": Entry(
            "hgkt.benchmarks.serve:run", "the service under load beside the estimator itself"
        ),
    },
)


def bench_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(BENCHMARKS)}.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that it runs, not how fast.")
    ] = False,
    device: DeviceOption = Device.auto,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            help="Parts to measure, separated by commas: AWA2,CUB of suite, rates of gather.",
        ),
    ] = "",
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            help="File that keeps every part as soon as it is measured; what it lacks is measured.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a benchmark on this machine and show what it measured.

    Example: hgkt bench add-class --quick
    """
    entry = BENCHMARKS[name]
    log.print(f"{name}: {entry.summary}", soft_wrap=True, markup=False)
    run = entry.load()
    asked: dict[str, Any] = {
        "device": None if device is Device.auto else device.value,
        "only": split_names(only) or None,
        "record": record,
    }
    with progress_bar() as bar:
        result = run(quick=quick, **_accepted(name, run, {**asked, "progress": bar}))
    emit({"benchmark": name.lower(), "quick": quick, **result}, as_json, lambda: _show(result))


def _accepted(name: str, run: Callable[..., Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked for; refuse an option that the benchmark does not have."""
    known = signature(run).parameters
    for option, value in asked.items():
        if value is not None and option not in known and option != "progress":
            raise DataError(f"the benchmark {name!r} has no choice of --{option}; leave it out")
    return {key: value for key, value in asked.items() if key in known and value is not None}


def _show(result: dict[str, Any]) -> None:
    """Plain values as lines, lists of records as tables, whatever the benchmark returns."""
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            _show_records(key, value)
        elif isinstance(value, list):
            for item in value:
                out.print(f"{key}: {_text(item)}", soft_wrap=True, markup=False)
        elif isinstance(value, dict):
            inside = ", ".join(f"{name} {_text(item)}" for name, item in value.items())
            out.print(f"{key}: {inside}", soft_wrap=True, markup=False)
        else:
            out.print(f"{key}: {_text(value)}", soft_wrap=True, markup=False)


def _show_records(title: str, records: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title=escape(title), box=None, title_justify="left")
    for column in records[0]:
        table.add_column(escape(column), overflow="fold")
    for record in records:
        table.add_row(*(escape(_text(value)) for value in record.values()))
    out.print(table)


def _text(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"({len(value)} records)"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
