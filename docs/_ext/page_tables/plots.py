"""Plots of how cost grows, from what `benchmarks/run.py NAME --json` printed.

An SVG ends with a digest of the numbers it was drawn from: whether it is up to date can be told
without drawing it, and whatever the version of the library that draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hgkt._files import sha256
from page_tables.performance import closed_form_adds
from page_tables.records import Records

Numbers = dict[str, list[float]]

_WIDTH, _HEIGHT = 6.4, 2.8
MOST_MB = 1500.0  # what `benchmarks/gather.py` allows a process that gathers


class Plot(NamedTuple):
    """What is drawn, and how."""

    numbers: Callable[[Records], Numbers]
    draw: Callable[[Numbers], Any]


def stale(folder: Path, records: Records) -> Iterator[str]:
    """Yield the names of plots that were drawn from other numbers than the records have."""
    for name, plot in PLOTS.items():
        path = folder / f"{name}.svg"
        if not path.is_file() or _mark(plot.numbers(records)) not in path.read_text("utf-8"):
            yield name


def redraw(folder: Path, records: Records, names: list[str]) -> None:
    """Draw some plots anew."""
    from hgkt.experiments.style import styled, svg_of

    folder.mkdir(exist_ok=True)
    for name in names:
        numbers = PLOTS[name].numbers(records)
        with styled():
            drawn = svg_of(PLOTS[name].draw(numbers))
        (folder / f"{name}.svg").write_text(f"{drawn}{_mark(numbers)}\n", encoding="utf-8")


def _mark(numbers: Numbers) -> str:
    return f"<!-- drawn from {sha256(json.dumps(numbers))} -->"


def _predict(records: Records) -> Numbers:
    batches = records.bench("predict")["batches"]
    rates = {
        name: [batch["n_rows"] / batch[f"{name}_cpu_seconds"] for batch in batches]
        for name in ("bound", "ranking", "predict", "peer")
    }
    return {"classes": [batch["n_classes"] for batch in batches], **rates}


def _gather(records: Records) -> Numbers:
    points = records.bench("gather")["streamed"]["points"]
    columns = ("n_rows", "cpu_seconds", "peak_mb")
    return {name: [point[name] for point in points] for name in columns}


def _draw_gather(numbers: Numbers) -> Any:
    from hgkt.experiments.style import MUTED, figure, series

    drawing, (left, right) = figure(_WIDTH, _HEIGHT, columns=2)
    millions = [n / 1e6 for n in numbers["n_rows"]]
    rates = [n / s for n, s in zip(numbers["n_rows"], numbers["cpu_seconds"], strict=True)]
    left.plot(millions, rates, **series(0, marker=False))
    left.set(xlabel="million rows", ylabel="rows per CPU second so far", ylim=(0, None))
    right.plot(millions, numbers["peak_mb"], **series(1, marker=False))
    right.axhline(MOST_MB, color=MUTED, linewidth=0.8)
    right.annotate("target", (millions[0], MOST_MB), va="bottom", fontsize=8, color=MUTED)
    right.set(xlabel="million rows", ylabel="MB at most so far", ylim=(0, 1.15 * MOST_MB))
    return drawing


def _adding(records: Records) -> Numbers:
    adds = closed_form_adds(records.bench("add-class"))
    rows = [row for row in adds if row["n_added"] == 0]
    columns = ("n_seen", "median_cpu_ms", "bound_cpu_ms")
    return {name: [row[name] for row in rows] for name in columns}


def _curves(x: str, xlabel: str, ylabel: str, labels: dict[str, str]) -> Callable[[Numbers], Any]:
    """Return what draws some of the numbers over one of them, on logarithmic axes."""

    def draw(numbers: Numbers) -> Any:
        from hgkt.experiments.style import figure, series

        drawing, axes = figure(_WIDTH, _HEIGHT)
        for index, (name, label) in enumerate(labels.items()):
            axes.plot(numbers[x], numbers[name], label=label, **series(index))
        axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
        axes.legend()
        return drawing

    return draw


PLOTS = {
    "performance-predict": Plot(_predict, _curves("classes", "classes", "rows per CPU second", {
        "bound": "two products, the bound of scores", "ranking": "the 5 best and their scores",
        "predict": "predict", "peer": "discriminant analysis",
    })),
    "performance-gather": Plot(_gather, _draw_gather),
    "performance-adding": Plot(_adding, _curves("n_seen", "seen classes", "CPU milliseconds", {
        "median_cpu_ms": "one more class", "bound_cpu_ms": "its product alone",
    })),
}  # fmt: skip
