"""What commands say: results on stdout, notes and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import TextColumn
from rich.table import Table

from hgkt._files import atomic_file, escape_frame
from hgkt._plain import json_text
from hgkt._typing import Progress
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

_SHOWN = 5  # names, or files that could not be read
_WIDE = 100_000  # characters

out = Console(highlight=False)
log = Console(stderr=True, highlight=False)
wants_json = ContextVar("wants_json", default=False)
"""Whether the command that runs was given ``--json``."""


# ---------------------------------------------------------------------- lines and tables
def emit(document: Any, *shown: object) -> None:
    """Print the result of a command on stdout, as JSON where that is asked for.

    Parameters
    ----------
    document : Any
        What JSON says.
    *shown : str, path or callable
        What a person sees instead: lines, and functions that print more.
    """
    if wants_json.get():
        sys.stdout.write(json_text(document))
        return
    for part in shown:
        if callable(part):
            part()
        else:
            say(part)


def say(*lines: object) -> None:
    """Print lines on stdout as they are: a terminal wraps them, nothing in them is markup."""
    for line in lines:
        out.print(str(line), soft_wrap=True, markup=False)


def note(line: str) -> None:
    """Print a line on stderr, beside the result."""
    log.print(line, soft_wrap=True, markup=False)


def show_table(
    columns: Iterable[str], rows: Iterable[Iterable[object]], whole: bool = False
) -> None:
    """Print a plain table on stdout; a column in which no row says anything is left out.

    Parameters
    ----------
    columns : iterable of str
        Their titles.
    rows : iterable of iterable
        The cells; None says nothing.
    whole : bool
        Whether no cell is broken to the width of the terminal, such as the name of a file.
    """
    cells = [["" if cell is None else escape(str(cell)) for cell in row] for row in rows]
    by_column = zip(columns, *cells, strict=True)
    shown = [(name, *column) for name, *column in by_column if any(column) or not cells]
    table = Table(box=None, pad_edge=not whole)
    for name, *_ in shown:
        table.add_column(name, overflow="fold")  # a long word is broken, never cut
    for row in list(zip(*shown, strict=True))[1:]:
        table.add_row(*row)
    if not whole:
        out.print(table)
        return
    wide = Console(width=_WIDE, color_system=None)
    with wide.capture() as captured:
        wide.print(table)
    say(*(line.rstrip() for line in captured.get().splitlines()))


def check_suffix(path: Path | None, *suffixes: str) -> None:
    """Refuse a file for ``--out`` that does not end in one of some suffixes."""
    if path is not None and path.suffix not in suffixes:
        raise DataError(f"--out must end in {' or '.join(suffixes)}; got {str(path)!r}")


def write_frame(path: Path, table: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Write columns or rows in one step: .parquet, or .csv, in which no text is a formula."""
    import pandas as pd

    frame = pd.DataFrame(table)
    with atomic_file(path) as scratch:
        if path.suffix == ".csv":
            escape_frame(frame).to_csv(scratch, index=False)
        else:
            frame.to_parquet(scratch, index=False)


def show_figures(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table of figures: what a row is about, then one figure per column."""
    table = Table(title=title, box=SIMPLE, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "class"), counted(2, "class"), counted(3, "row")
    ('1 class', '2 classes', '3 rows')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def percent(share: float | None) -> str:
    """Return a share in percent, a dash where there is none.

    Examples
    --------
    >>> percent(0.427), percent(None)
    ('43 %', '–')
    """
    return "–" if share is None else f"{100 * share:.0f} %"


def listed(names: Sequence[Any]) -> str:
    """Return the first names with commas between, and how many more there are.

    Examples
    --------
    >>> listed("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(str, names[:_SHOWN])) + more


def classes_text(names: Sequence[Any]) -> str:
    """Return how many classes there are and the first of them.

    Examples
    --------
    >>> classes_text(["okapi"]), classes_text([])
    ('1 class (okapi)', '0 classes')
    """
    return counted(len(names), "class") + (f" ({listed(names)})" if names else "")


# ---------------------------------------------------------------------- what several commands say
def left_out(unreadable: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return what JSON says about images that were left out."""
    return [{"file": file, "reason": reason} for file, reason in unreadable]


def left_out_lines(unreadable: Sequence[Mapping[str, str]], noun: str, more: str) -> list[str]:
    """Say how many images were left out, and why the first ones.

    Parameters
    ----------
    unreadable : sequence of mapping
        As `left_out` returns them.
    noun : str
        What they are called.
    more : str
        Where all of them are.
    """
    if not unreadable:
        return []
    verb = "was" if len(unreadable) == 1 else "were"
    lines = [f"{counted(len(unreadable), noun)} could not be read and {verb} left out{more}:"]
    return lines + [f"  {entry['reason']}" for entry in unreadable[:_SHOWN]]


def report_change(
    verb: str, names: list[Any], model: GZSLClassifier, path: Path, how: str = "", **more: Any
) -> None:
    """Say which classes of a folder were changed, and how.

    Parameters
    ----------
    verb : str
        What was done to them.
    names : list
        The classes.
    model : GZSLClassifier
        The model as it is now.
    path : Path
        Its folder.
    how : str
        What else the sentence says.
    **more
        What else the JSON document holds; `costs` are said, too.
    """
    count, costs = len(model.classes_), more.get("costs")
    sentence = f"{verb} {classes_text(names)}{how}; {path} has {count} classes now"
    below = [] if costs is None else [costs.sentence()]
    emit({verb: names, "n_classes": count, "model": path, **more}, sentence, *below)


# ---------------------------------------------------------------------- progress
@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yield a callback ``(stage, done, total, values)`` that draws bars, on a terminal only."""
    facts = TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[values]}")
    columns = (*Bars.get_default_columns(), facts)  # what, a bar, percent and the time left
    with Bars(*columns, console=log, transient=True, disable=not log.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int, values: dict[str, float]) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total, values="")
            text = " ".join(f"{name} {value:.4g}" for name, value in values.items())
            bars.update(tasks[stage], completed=done, total=total, values=text)

        yield update
