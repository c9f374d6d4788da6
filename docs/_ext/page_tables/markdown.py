"""Markdown tables and the numbers in them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from string import Formatter
from typing import Any

from page_tables.records import Run

METRICS = {"ZSL": "zsl", "ts": "ts", "tr": "tr", "H": "H", "AUSUC": "ausuc"}
"""Figures at one calibration, and what a run record calls them."""

RESULTS: dict[str, tuple[str, str]] = {
    "ZSL": ("by_zsl", "zsl"),
    "H, γ = 0": ("uncalibrated", "H"),
    "H with γ": ("metrics", "H"),
    "ts": ("metrics", "ts"),
    "tr": ("metrics", "tr"),
    "AUSUC": ("metrics", "ausuc"),
}
"""Columns of a table of results, and where a run record has them."""


def table(header: Sequence[str], lines: Iterable[Sequence[str]], text: Collection[str] = ()) -> str:
    """Return a Markdown table: text in the first column and those named, else numbers."""
    marks = ["---" if i == 0 or name in text else "--:" for i, name in enumerate(header)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, marks, *lines])


class _Cells(Formatter):
    """Formats numbers as ``{:amount}`` and ``{:percent}`` too, and a missing one as a dash."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return "–"
        if format_spec == "amount":
            return amount(value)
        if format_spec == "percent":
            return f"{100 * value:.0f} %"
        return str(super().format_field(value, format_spec))


def fill(text: str, row: Mapping[str, Any]) -> str:
    """Return a text whose fields are filled from a row of a record.

    Examples
    --------
    >>> fill("{n:,} rows in {times[fit]:amount} s, {share:percent}", {
    ...     "n": 1000, "times": {"fit": 12.3}, "share": 0.5
    ... })
    '1,000 rows in 12 s, 50 %'
    """
    return _Cells().vformat(text, (), row)


def filled(
    columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], text: Collection[str] = ()
) -> str:
    """Return a table with a line per row: by the title of each column, what `fill` makes of it."""
    lines = [[fill(cell, row) for cell in columns.values()] for row in rows]
    return table(list(columns), lines, text)


def crossed(rows: Sequence[dict[str, Any]], line: str, column: str, cell: str) -> list[list[str]]:
    """Return a line for each value of one name, with a cell for each value of another."""
    columns = dict.fromkeys(row[column] for row in rows)
    cells = {(row[line], row[column]): fill(cell, row) for row in rows}
    names = dict.fromkeys(row[line] for row in rows)
    return [[name, *(cells[name, other] for other in columns)] for name in names]


def mean(runs: Sequence[Run], metric: str, part: str = "metrics") -> float:
    """Return the mean of a metric over seeds."""
    return statistics.fmean(run[part][metric] for run in runs)


def spread(numbers: Sequence[float], digits: int = 1) -> str:
    """Return mean ± standard deviation; a single number has no deviation.

    Examples
    --------
    >>> spread([1.0, 2.0, 3.0]), spread([1.0])
    ('2.0 ± 1.0', '1.0')
    """
    text = f"{statistics.fmean(numbers):.{digits}f}"
    return text if len(numbers) < 2 else f"{text} ± {statistics.stdev(numbers):.{digits}f}"


def cell(runs: Sequence[Run], metric: str, part: str = "metrics") -> str:
    """Return a metric over seeds, or a dash where a run does not have it."""
    if not runs or not all(run.get(part) for run in runs):
        return "–"
    return spread([run[part][metric] for run in runs])


def result_cells(runs: Sequence[Run]) -> list[str]:
    """Return the cells of the columns `RESULTS`."""
    return [cell(runs, metric, part) for part, metric in RESULTS.values()]


def of_runs(
    header: Sequence[str],
    shown: Sequence[tuple[Sequence[str], str, Sequence[Run]]],
    text: Collection[str] = (),
    cells: Callable[[Sequence[Run]], list[str]] = result_cells,
) -> str:
    """Return a table of evaluations, and below it which of them have no record yet.

    Parameters
    ----------
    header : sequence of str
        Titles of all columns.
    shown : sequence of (sequence of str, str, sequence of run records)
        Of each evaluation the first cells, its name where it has no record, and its runs.
    text : collection of str
        The columns that hold text.
    cells : callable
        Makes the other cells from the runs.
    """
    lines = [[*first, *cells(runs)] for first, _, runs in shown if runs]
    missing = [name for _, name, runs in shown if not runs]
    return table(header, lines, text) + absent(missing, len(shown))


def absent(labels: Sequence[str], n_rows: int) -> str:
    """Return a table's last line: how many of its rows have no record yet, and which."""
    if not labels:
        return ""
    return f"\n\nRows without a record: {len(labels)} of {n_rows} ({', '.join(labels)})."


def amount(value: float) -> str:
    """Return a time or a rate with two or three digits that mean something.

    Examples
    --------
    >>> [amount(value) for value in (0.0563, 2.91, 34.2, 3685.4)]
    ['0.056', '2.9', '34', '3,685']
    """
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def settings(chosen: dict[str, Any]) -> str:
    """Return parameters as ``name=value``."""
    from hgkt._plain import short

    return ", ".join(f"{name}={short(value, 3)}" for name, value in chosen.items())


def count(n: int, noun: str) -> str:
    """Return "1 fold", "3 folds"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def measured_on(environment: dict[str, Any]) -> str:
    """Return where a benchmark ran, in words."""
    words = [f"{environment['n_cpus']} processors of a {environment['machine']} machine"]
    words.append(count(environment["n_threads"], "thread"))
    if environment["load"] is not None:
        words.append(f"load {environment['load']:.1f} at the end")
    known = {"python": "Python", "numpy": "NumPy", "torch": "PyTorch"}
    other = ("machine", "n_cpus", "n_threads", "load", "mathematics")
    words += [f"{known.get(k, k)} {v}" for k, v in environment.items() if k not in other]
    return ", ".join(words)


def with_place(lines: str, found: dict[str, Any]) -> str:
    """Return a table with a line below that says where a benchmark ran."""
    gpu = f"one {found['device_name']} beside " if found.get("device_name") else ""
    return f"{lines}\n\nMeasured on {gpu}{measured_on(found['environment'])}."
