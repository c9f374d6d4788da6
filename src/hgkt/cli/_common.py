"""What every command shares: options, results on stdout, notes and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table

from hgkt._plain import json_text
from hgkt._typing import Progress

out = Console(highlight=False)
log = Console(stderr=True, highlight=False)


class Device(StrEnum):
    """Where a network is trained."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where to compute.")]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", help="Folder that holds the benchmark's data-set folders."),
]
AttributesOption = Annotated[
    str,
    typer.Option(
        "--attributes",
        help="Class attributes: att, original_att, NAME of a NAME_splits.mat (sent), "
        "a file (.parquet, .csv), or a+b.",
    ),
]


def emit(document: Any, as_json: bool, render: Callable[[], object]) -> None:
    """Print `document` as JSON on stdout, or call `render`, which shows it to a person."""
    if as_json:
        sys.stdout.write(json_text(document))
    else:
        render()


def say(*lines: object) -> None:
    """Print lines on stdout as they are: a terminal wraps them, nothing in them is markup."""
    for line in lines:
        out.print(str(line), soft_wrap=True, markup=False)


def note(line: str) -> None:
    """Print a line on stderr, beside the result."""
    log.print(line, soft_wrap=True, markup=False)


def split_names(names: str) -> list[str]:
    """Return names that an option holds, separated by commas, each once.

    Examples
    --------
    >>> split_names("CUB, AWA1,CUB")
    ['CUB', 'AWA1']
    """
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def show_table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a plain table on stdout."""
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    out.print(table)


@contextmanager
def one_bar(shares: Mapping[str, float]) -> Iterator[Progress]:
    """Yield a callback as `progress_bar` does that draws one bar over several stages.

    Parameters
    ----------
    shares : mapping of str to float
        The stages in their order, and how much of the bar each takes. Others show their name.
    """
    stops = dict(zip(shares, accumulate(shares.values()), strict=True))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[values]}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=log, transient=True, disable=not log.is_terminal) as bars:
        task = bars.add_task("", total=sum(shares.values()), values="")

        def update(stage: str, done: int, total: int, values: dict[str, float]) -> None:
            key = stage.split()[0]
            place = bars.tasks[task].completed
            if key in shares:
                place = max(place, stops[key] - shares[key] * (1 - done / max(total, 1)))
            text = f"{done}/{total} " + " ".join(f"{n} {v:.4g}" for n, v in values.items())
            bars.update(task, description=stage, completed=place, values=text)

        yield update


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yield a callback ``(stage, done, total, values)`` that draws a bar on a terminal only."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[values]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=log, transient=True, disable=not log.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int, values: dict[str, float]) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, values="")
            text = " ".join(f"{name} {value:.4g}" for name, value in values.items())
            bars.update(tasks[stage], completed=done, total=total, values=text)

        yield update
