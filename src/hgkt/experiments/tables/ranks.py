"""Figure of ranks: how often a method comes first, second, … over data sets and measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.experiments.base import (
    Block,
    Context,
    Experiment,
    FigureBlock,
    Results,
    TextBlock,
)
from hgkt.experiments.style import INK, MUTED, PAPER, RULE, figure, styled
from hgkt.experiments.tables._results import (
    data_note,
    evaluate_cells,
    label_of,
    plan_evaluations,
    rows_of,
    value,
)
from hgkt.experiments.tables.published import PUBLISHED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = ("ts", "tr", "H")
Scores = Mapping[str, Mapping[tuple[str, str], float]]
"""Accuracy by method label and by (data set, measure)."""


def rank_matrix(scores: Scores) -> tuple[list[str], NDArray[np.int64], list[float]]:
    """Count how often each method has each rank; the best mean rank comes first.

    Parameters
    ----------
    scores : mapping
        Accuracy by label and by column. A method that lacks a column is not ranked there; equal
        accuracies share the better rank.

    Returns
    -------
    labels : list of str
        Methods by mean rank.
    counts : ndarray of shape (n_methods, n_methods)
        Element (i, j): how often method i has rank j + 1.
    mean_ranks : list of float
        In the order of labels.

    Examples
    --------
    >>> scores = {"a": {("CUB", "H"): 2.0}, "b": {("CUB", "H"): 3.0}}
    >>> labels, counts, means = rank_matrix(scores)
    >>> labels, counts.tolist(), means
    (['b', 'a'], [[1, 0], [0, 1]], [1.0, 2.0])
    """
    table = pd.DataFrame({label: dict(columns) for label, columns in scores.items()})
    ranks = table.rank(axis=1, ascending=False, method="min")
    means = ranks.mean(axis=0).sort_values(kind="stable")
    labels = [str(label) for label in means.index]
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for position, label in enumerate(labels):
        found = ranks[label].dropna().astype(int).to_numpy()
        np.add.at(counts[position], found - 1, 1)
    return labels, counts, [float(mean) for mean in means]


def draw_ranks(labels: list[str], counts: NDArray[np.int64], means: list[float]) -> Figure:
    """Draw the matrix: darker is more often, the number is the count.

    Parameters
    ----------
    labels : list of str
        One a row.
    counts : ndarray of shape (n, n)
        As `rank_matrix` returns them.
    means : list of float
        Mean ranks, shown in brackets.
    """
    from matplotlib.colors import LinearSegmentedColormap

    n = len(labels)
    shades = LinearSegmentedColormap.from_list("ranks", [PAPER, "#9ecae1", "#08519c"])
    with styled():
        drawing, axes = figure(max(3.6, 1.9 + 0.29 * n), max(1.7, 1.0 + 0.25 * n))
        top = max(int(counts.max()), 1)
        shown = np.ma.masked_equal(counts, 0)
        axes.imshow(shown, cmap=shades, vmin=-0.15 * top, vmax=top, aspect="auto")
        for row, column in zip(*np.nonzero(counts), strict=True):
            count = int(counts[row, column])
            light = count > 0.5 * top
            axes.text(column, row, str(count), ha="center", va="center", fontsize=7.5,
                      color="#fefefe" if light else "#1e2227")  # fmt: skip
        axes.set_yticks(range(n), [f"{a} [{m:.1f}]" for a, m in zip(labels, means, strict=True)])
        axes.set_xticks(range(n), [str(rank) for rank in range(1, n + 1)])
        axes.set_xlabel("rank", color=MUTED)
        axes.tick_params(length=0, labelcolor=INK)
        axes.set_xticks(np.arange(-0.5, n), minor=True)
        axes.set_yticks(np.arange(-0.5, n), minor=True)
        axes.grid(False)
        axes.grid(which="minor", color=RULE, linewidth=0.5)
        axes.tick_params(which="minor", length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return drawing


def render(context: Context, results: Results) -> list[Block]:
    """Draw the ranks of our runs and, beside them, those of the numbers the paper prints.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    scores: dict[str, dict[tuple[str, str], float]] = {}
    keys: list[str] = []
    for row in rows_of(context):
        for data in context.data:
            cells = evaluate_cells(context, row, data)
            for measure in MEASURES:
                found = value(results, cells, measure)
                if found.number is not None:
                    scores.setdefault(row.label, {})[data.name, measure] = found.number
                    keys += found.keys
    blocks: list[Block] = []
    if len(scores) > 1:
        n_columns = len({column for columns in scores.values() for column in columns})
        note = (
            f"Element (i, j): how often method i has rank j over {n_columns} columns, the measures "
            f"ts, tr and H on each data set; mean rank in brackets. {data_note(context)}"
        )
        blocks.append(
            _block("figure-ranks", "Ranks of our runs", scores, note, tuple(dict.fromkeys(keys)))
        )
    else:
        blocks.append(TextBlock("Fewer than two methods have results, so there is no ranking yet."))
    note = "The same from the numbers that the paper prints: five data sets, three measures."
    blocks.append(_block("figure-ranks-paper", "Ranks as printed", _printed(), note, ()))
    return blocks


def _printed() -> Scores:
    return {
        label_of(method): {
            (data, measure): float(number)
            for data, (_, *numbers) in sets.items()
            for measure, number in zip(MEASURES, numbers, strict=True)
        }
        for method, sets in PUBLISHED.items()
    }


def _block(name: str, title: str, scores: Scores, note: str, keys: tuple[str, ...]) -> FigureBlock:
    labels, counts, means = rank_matrix(scores)
    rows = [
        {"method": label, "mean_rank": mean, "rank": rank + 1, "count": int(count)}
        for label, mean, line in zip(labels, means, counts, strict=True)
        for rank, count in enumerate(line)
    ]
    drawing = draw_ranks(labels, counts, means)
    return FigureBlock(name, title, drawing, pd.DataFrame(rows), note.strip(), keys)


EXPERIMENT = Experiment(
    "Ranks of the methods",
    "The paper sums up its main table by counting how often each method has each rank over all "
    "data sets and the measures ts, tr and H. By the numbers it prints HGKT comes first.",
    plan_evaluations,
    render,
)
