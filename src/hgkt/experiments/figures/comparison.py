"""Figures that compare all methods: their ranks and their seen–unseen curves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.experiments.base import CellResult, DataSpec
from hgkt.experiments.blocks import Block, Experiment, FigureBlock, Outcome, TextBlock, lookup
from hgkt.experiments.figures import style
from hgkt.experiments.tables.published import PUBLISHED
from hgkt.experiments.tables.rows import MethodRow, data_note, label_of, plan_evaluations, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MEASURES = ("ts", "tr", "H")
_N_OTHERS = 3
_MAX_POINTS = 300
Scores = Mapping[str, Mapping[tuple[str, str], float]]
"""Accuracy by method label and by (data set, measure)."""


# ---------------------------------------------------------------------- ranks
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


def _render_ranks(outcome: Outcome) -> list[Block]:
    """Draw the ranks of our runs and, beside them, those of the numbers the paper prints."""
    if len(outcome.context.data) < 2:
        return [TextBlock("Ranks over one data set say no more than its table above.")]
    scores: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows_of(outcome.context):
        for data in outcome.context.data:
            for measure in _MEASURES:
                found = outcome.value((data.name, row.name), measure)
                if found.mean is not None:
                    scores.setdefault(row.label, {})[data.name, measure] = found.mean
    blocks: list[Block] = []
    if len(scores) > 1:
        n_columns = len({column for columns in scores.values() for column in columns})
        note = (
            f"Element (i, j): how often method i has rank j over {n_columns} columns, the measures "
            f"ts, tr and H on each data set; mean rank in brackets. {data_note(outcome.context)}"
        )
        keys = outcome.keys(*outcome.plan)
        blocks.append(_rank_block("figure-ranks", "Ranks of our runs", scores, note, keys))
    else:
        blocks.append(TextBlock("Fewer than two methods have results, so there is no ranking yet."))
    note = "The same from the numbers that the paper prints: five data sets, three measures."
    printed = {
        label_of(method): {
            (data, measure): float(number)
            for data, (_, *numbers) in sets.items()
            for measure, number in zip(_MEASURES, numbers, strict=True)
        }
        for method, sets in PUBLISHED.items()
    }
    return [*blocks, _rank_block("figure-ranks-paper", "Ranks as printed", printed, note, ())]


def _rank_block(
    name: str, title: str, scores: Scores, note: str, keys: tuple[str, ...]
) -> FigureBlock:
    labels, counts, means = rank_matrix(scores)
    rows = [
        {"method": label, "mean_rank": mean, "rank": rank + 1, "count": int(count)}
        for label, mean, line in zip(labels, means, counts, strict=True)
        for rank, count in enumerate(line)
    ]
    drawing = _draw_ranks(labels, counts, means)
    return FigureBlock(name, title, drawing, pd.DataFrame(rows), note.strip(), keys)


def _draw_ranks(labels: list[str], counts: NDArray[np.int64], means: list[float]) -> Figure:
    """Draw the matrix: darker is more often, the number is the count."""
    n = len(labels)
    shades = style.shades()
    with style.styled():
        drawing, axes = style.figure(max(3.6, 1.9 + 0.29 * n), max(1.7, 1.0 + 0.25 * n))
        top = max(int(counts.max()), 1)
        shown = np.ma.masked_equal(counts, 0)
        axes.imshow(shown, cmap=shades, vmin=-0.15 * top, vmax=top, aspect="auto")
        for row, column in zip(*np.nonzero(counts), strict=True):
            light = counts[row, column] > 0.5 * top
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=7.5,
                      color="#fefefe" if light else "#1e2227")  # fmt: skip
        axes.set_yticks(range(n), [f"{a} [{m:.1f}]" for a, m in zip(labels, means, strict=True)])
        axes.set_xticks(range(n), [str(rank) for rank in range(1, n + 1)])
        axes.set_xlabel("rank", color=style.MUTED)
        axes.tick_params(length=0, labelcolor=style.INK)
        axes.set_xticks(np.arange(-0.5, n), minor=True)
        axes.set_yticks(np.arange(-0.5, n), minor=True)
        axes.grid(False)
        axes.grid(which="minor", color=style.RULE, linewidth=0.5)
        axes.tick_params(which="minor", length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return drawing


# ---------------------------------------------------------------------- curves
class Curve(NamedTuple):
    """One line of a panel: the first seed's curve, and the mean area over seeds."""

    row: MethodRow
    result: CellResult
    ausuc: float
    keys: tuple[str, ...]


def curves_of(outcome: Outcome, data: DataSpec) -> list[Curve]:
    """Return HGKT's rows and the three best other methods that have a curve.

    Parameters
    ----------
    outcome : Outcome
        What came of the evaluations.
    data : DataSpec
        The data set.

    Returns
    -------
    list of Curve
        HGKT first, then the others, best area first.
    """
    found = []
    for row in rows_of(outcome.context):
        slot = (data.name, row.name)
        drawn = [r for r in outcome.good(slot) if {"seen", "unseen"} <= set(r.arrays)]
        area = outcome.value(slot, "ausuc")
        if drawn and area.mean is not None:
            found.append(Curve(row, drawn[0], area.mean, area.keys))
    others = sorted((c for c in found if not c.row.ours), key=lambda curve: -curve.ausuc)
    return [curve for curve in found if curve.row.ours] + others[:_N_OTHERS]


def thin(unseen: NDArray[Any], seen: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most 300 points of a curve, in percent, evenly along its length.

    Parameters
    ----------
    unseen, seen : ndarray of shape (n,)
        Accuracies as fractions.

    Examples
    --------
    >>> unseen, seen = thin(np.linspace(0, 1, 1000), np.linspace(1, 0, 1000))
    >>> len(unseen), float(unseen[0]), float(seen[-1])
    (300, 0.0, 0.0)
    """
    x, y = 100 * np.asarray(unseen, dtype=float), 100 * np.asarray(seen, dtype=float)
    if len(x) > _MAX_POINTS:
        along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        wanted = np.searchsorted(along, np.linspace(0, along[-1], _MAX_POINTS))
        wanted = np.clip(wanted, 0, len(x) - 1)
        wanted[-1] = len(x) - 1
        x, y = x[wanted], y[wanted]
    return x, y


def _render_curves(outcome: Outcome) -> list[Block]:
    """Draw one panel per data set."""
    panels = {data.name: curves_of(outcome, data) for data in outcome.context.data}
    panels = {name: curves for name, curves in panels.items() if curves}
    if not panels:
        return [TextBlock("No evaluation has a curve yet, so there is nothing to draw.")]
    looks = _looks(panels)
    n_columns = min(len(panels), 2)
    n_rows = -(-len(panels) // n_columns)
    with style.styled():
        drawing, axes = style.figure(
            4.2 * n_columns + 0.4, 4.2 * n_rows, n_rows, n_columns, squeeze=False
        )
        frames = []
        for place, (name, curves) in zip(axes.flat, panels.items(), strict=False):
            frames += [_draw_curve(place, name, curve, looks[curve.row.name]) for curve in curves]
            place.set(title=name, xlabel="accuracy on unseen classes, %",
                      ylabel="accuracy on seen classes, %")  # fmt: skip
            place.set_xlim(left=0)
            place.set_ylim(bottom=0)
            place.legend(loc="upper left", bbox_to_anchor=(0.0, -0.17), ncols=2,
                         labelcolor=style.INK, columnspacing=1.4)  # fmt: skip
        for place in axes.flat[len(panels) :]:
            place.set_visible(False)
    keys = tuple(key for curves in panels.values() for curve in curves for key in curve.keys)
    note = (
        "Each line is the first seed of a method: HGKT and the three others with the largest area. "
        "A dot marks the calibration in force. The number in the legend is the area (AUSUC) in "
        "percent, mean over seeds. " + data_note(outcome.context)
    )
    title = "Seen–unseen curves"
    return [FigureBlock("figure-curves", title, drawing, pd.concat(frames), note.strip(), keys)]


def _looks(panels: dict[str, list[Curve]]) -> dict[str, dict[str, Any]]:
    """Give each method one look in all panels; where colours repeat, not within a panel."""
    members = [{curve.row.name for curve in curves} for curves in panels.values()]
    names = dict.fromkeys(curve.row.name for curves in panels.values() for curve in curves)
    places: dict[str, int] = {}
    n_colours = len(style.PALETTE)
    for name in names:
        beside = set().union(*(panel for panel in members if name in panel))
        taken = {places[other] % n_colours for other in beside if other in places}
        used = set(places.values())
        places[name] = next(
            place for place in count() if place not in used and place % n_colours not in taken
        )
    return {name: style.series(place, marker=False) for name, place in places.items()}


def _draw_curve(axes: Any, name: str, curve: Curve, look: dict[str, Any]) -> pd.DataFrame:
    unseen, seen = thin(curve.result.arrays["unseen"], curve.result.arrays["seen"])
    axes.plot(unseen, seen, label=f"{curve.row.label}  {curve.ausuc:.1f}", **look)
    ts, tr = (lookup(curve.result.values, metric) for metric in ("ts", "tr"))
    if ts is not None and tr is not None:
        axes.plot(ts, tr, marker="o", color=look["color"], linestyle="none")
    told = {"data": name, "method": curve.row.name, "seed": curve.result.cell.seed}
    return pd.DataFrame({**told, "unseen": unseen, "seen": seen})


RANKS = Experiment(
    "Ranks of the methods",
    "The paper sums up its main table by counting how often each method has each rank over all "
    "data sets and the measures ts, tr and H. By the numbers it prints HGKT comes first.",
    plan_evaluations,
    _render_ranks,
)
CURVES = Experiment(
    "Seen–unseen curves",
    "Taking a calibration γ off the scores of seen classes trades accuracy on seen classes for "
    "accuracy on unseen ones. The curve shows every trade a method offers, and its area (AUSUC) "
    "compares methods without regard to γ. The paper does not have it.",
    plan_evaluations,
    _render_curves,
)
