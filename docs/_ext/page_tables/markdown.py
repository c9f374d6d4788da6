"""Markdown tables and the numbers in them."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Sequence
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
    if environment.get("n_threads"):
        words.append(count(environment["n_threads"], "thread"))
    if environment.get("load") is not None:
        words.append(f"load {environment['load']:.1f} at the end")
    known = {"python": "Python", "numpy": "NumPy", "torch": "PyTorch"}
    other = ("machine", "n_cpus", "n_threads", "load", "mathematics")
    words += [f"{known.get(k, k)} {v}" for k, v in environment.items() if k not in other]
    return ", ".join(words)


def with_place(lines: str, found: dict[str, Any], on: str = "") -> str:
    """Return a table with a line below that says where a benchmark ran."""
    return f"{lines}\n\nMeasured on {on}{measured_on(found['environment'])}."
