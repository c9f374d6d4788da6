"""What every command shares: options, one JSON document on stdout, one sentence on errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hgkt.exceptions import DataError

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
DataOption = Annotated[
    str, typer.Option("--data", help="Data set: a name of `hgkt datasets list`, or a path.")
]
FeaturesOption = Annotated[
    str, typer.Option("--features", help="Feature file of an xlsa17 folder, without .mat.")
]
AttributesOption = Annotated[
    str,
    typer.Option(
        "--attributes",
        help="Class attributes: att, original_att, sent, a file (.parquet, .csv), or a+b.",
    ),
]
ParamOption = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=VALUE", help="Set a parameter; repeatable."),
]


def emit(document: Any, as_json: bool, render: Callable[[], object]) -> None:
    """Print `document` as JSON on stdout, or call `render`, which shows it to a person."""
    if as_json:
        sys.stdout.write(json.dumps(plain(document), indent=2) + "\n")
    else:
        render()


def plain(value: Any) -> Any:
    """Turn NumPy values into what JSON can say; NaN becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def parse_params(params: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value is JSON where it can be, else text."""
    parsed = {}
    for text in params or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise DataError(f"--param expects NAME=VALUE; got {text!r}")
        try:
            parsed[name.strip()] = json.loads(value)
        except ValueError:
            parsed[name.strip()] = value
    return parsed


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int, dict[str, float]], None]]:
    """Yield a callback ``(stage, done, total, values)`` that draws a bar on a terminal only."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[values]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=log, transient=True, disable=not log.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int, values: dict[str, float]) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, values="")
            text = " ".join(f"{name} {value:.4g}" for name, value in values.items())
            bars.update(tasks[stage], completed=done, total=total, values=text)

        yield update
