"""Results by class of the default model, and what its classes are taken for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.experiments.base import Cell, CellResult, Context, DataSpec
from hgkt.experiments.blocks import Block, Experiment, FigureBlock, Outcome, Plan, TableBlock, Value
from hgkt.experiments.figures import style
from hgkt.experiments.tables.rows import DEFAULT, evaluate_cells

_NAMED = 40  # with more classes than this the picture has no names


def _plan(context: Context) -> Plan:
    """Return a count of predictions with what the main table's first seed selected."""
    plan: dict[Any, list[Cell]] = {}
    for data in context.data:
        main = evaluate_cells(context, DEFAULT, data)[0]
        plan["main", data.name] = [main]
        plan[data.name] = [
            Cell("classes", data, DEFAULT.method, DEFAULT.preset, {}, 0, {}, [main.key])
        ]
    return plan


def _render(outcome: Outcome) -> list[Block]:
    blocks: list[Block] = []
    for data in outcome.context.data:
        result = outcome.first(data.name)
        if result is None:
            blocks.append(outcome.nothing(f"Results by class, {data.name}", data.name))
        else:
            blocks += [_drawing(outcome, data, result), _table(outcome, data, result)]
    return blocks


def class_table(
    confusion: NDArray[Any], names: list[str], n_seen: int
) -> list[tuple[str, bool, int, float, str, float]]:
    """Return a line per class with test rows, the worst first.

    Parameters
    ----------
    confusion : ndarray of shape (C, C)
        Rows by true and predicted class.
    names : list of str
        Of the classes, seen ones first.
    n_seen : int
        How many are seen.

    Returns
    -------
    list of tuple
        Name, whether seen, number of rows, accuracy in percent, the class it is most often
        mistaken for (or empty), and how often in percent.

    Examples
    --------
    >>> class_table(np.array([[3, 1], [0, 4]]), ["cat", "dog"], 1)
    [('cat', True, 4, 75.0, 'dog', 25.0), ('dog', False, 4, 100.0, '', 0.0)]
    """
    lines = []
    for place, row in enumerate(confusion):
        total = int(row.sum())
        if total:
            wrong = np.where(np.arange(len(row)) == place, 0, row)
            other = int(wrong.argmax())
            mistaken = names[other] if wrong[other] else ""
            share = 100.0 * float(wrong[other]) / total
            accuracy = 100.0 * float(row[place]) / total
            lines.append((names[place], place < n_seen, total, accuracy, mistaken, share))
    return sorted(lines, key=lambda line: line[3])


def _table(outcome: Outcome, data: DataSpec, result: CellResult) -> TableBlock:
    keys = outcome.keys(data.name)
    rows: list[list[Value | str]] = []
    for name, seen, total, accuracy, other, share in class_table(
        result.arrays["confusion"], result.values["classes"], result.values["n_seen"]
    ):
        rows.append([
            name, "seen" if seen else "unseen", Value(total, n=1, keys=keys, form=".0f"),
            Value(accuracy, n=1, keys=keys), other or "–",
            Value(share, n=1, keys=keys) if other else "–",
        ])  # fmt: skip
    return TableBlock(
        f"figure-classes-table-{data.name}",
        f"Results by class, {data.name}",
        ["Class", "Kind", "Test images", "Accuracy, %", "Most often taken for", "so often, %"],
        rows,
        "All classes are candidates, γ as validation classes chose it, first seed; the worst "
        "class first.",
        closed=True,
    )


def _drawing(outcome: Outcome, data: DataSpec, result: CellResult) -> FigureBlock:
    names, n_seen = result.values["classes"], result.values["n_seen"]
    counts = result.arrays["confusion"].astype(np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    size = min(6.4, 2.4 + 0.2 * len(names))
    with style.styled():
        drawing, axis = style.figure(size + 0.7, size)
        image = axis.imshow(100.0 * shares, vmin=0, vmax=100, cmap=style.shades())
        axis.axhline(n_seen - 0.5, color=style.MUTED, linewidth=0.8)
        axis.axvline(n_seen - 0.5, color=style.MUTED, linewidth=0.8)
        few = len(names) <= _NAMED
        places = np.arange(len(names)) if few else np.array([n_seen / 2, (n_seen + len(names)) / 2])
        words = [style.short(name) for name in names] if few else ["seen", "unseen"]
        axis.set_xticks(places, words, rotation=90 if few else 0)
        axis.set_yticks(places, words)
        axis.grid(visible=False)
        axis.set_xlabel("predicted class")
        axis.set_ylabel("true class")
        drawing.colorbar(image, label="% of the class's test images", shrink=0.8)
    true, predicted = np.nonzero(counts)
    frame = pd.DataFrame({
        "true": [names[i] for i in true],
        "predicted": [names[i] for i in predicted],
        "count": counts[true, predicted].astype(int),
    })  # fmt: skip
    n_seen_as = int(counts[:n_seen, n_seen:].sum())
    n_unseen_as = int(counts[n_seen:, :n_seen].sum())
    return FigureBlock(
        f"figure-classes-{data.name}",
        f"Confusion of classes, {data.name}",
        drawing,
        frame,
        f"Seen classes first, then the {len(names) - n_seen} unseen ones behind the line. "
        f"{n_seen_as:,} of {int(counts[:n_seen].sum()):,} images of seen classes are called an "
        f"unseen class, {n_unseen_as:,} of {int(counts[n_seen:].sum()):,} of unseen classes a "
        "seen one.",
        outcome.keys(data.name),
    )


EXPERIMENT = Experiment(
    "Results by class",
    "Beyond the paper. Which classes the closed form recognises and what it takes the others for, "
    "with the settings that the main table's first seed selected.",
    _plan,
    _render,
)
