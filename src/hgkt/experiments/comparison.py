"""Figures that compare all methods: ranks, curves, calibration; and results by class."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.data import GZSLDataset
from hgkt.experiments import style
from hgkt.experiments.blocks import (
    Block,
    Column,
    FigureBlock,
    Outcome,
    Plan,
    TableBlock,
    TextBlock,
    Value,
    experiment,
    lookup,
)
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs, build_estimator
from hgkt.experiments.rows import (
    DEFAULT,
    PUBLISHED,
    MethodRow,
    data_note,
    evaluate_cells,
    label_of,
    method_table,
    plan_evaluations,
    rows_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MEASURES = ("ts", "tr", "H")
_N_OTHERS = 3
_MAX_POINTS = 300


# ---------------------------------------------------------------------- ranks
def rank_matrix(scores: pd.DataFrame) -> tuple[list[str], NDArray[np.int64], list[float]]:
    """Count how often each method has each rank; the best mean rank comes first.

    Parameters
    ----------
    scores : DataFrame
        Accuracies, a column per method and a row per data set and measure. A method without a
        number is not ranked there; equal accuracies share the better rank.

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
    >>> labels, counts, means = rank_matrix(pd.DataFrame({"a": [2.0], "b": [3.0]}))
    >>> labels, counts.tolist(), means
    (['b', 'a'], [[1, 0], [0, 1]], [1.0, 2.0])
    """
    ranks = scores.rank(axis=1, ascending=False, method="min")
    means = ranks.mean().sort_values(kind="stable")
    labels = [str(label) for label in means.index]
    counts = ranks[labels].apply(pd.Series.value_counts).reindex(range(1, len(labels) + 1))
    return labels, counts.T.fillna(0).to_numpy(dtype=np.int64), means.tolist()


@experiment("Ranks of the methods", plan_evaluations)
def ranks(outcome: Outcome) -> list[Block]:
    """The paper sums up its main table by counting how often each method has each rank over all
    data sets and the measures ts, tr and H. By the numbers it prints HGKT comes first.
    """
    if len(outcome.context.data) < 2:
        return [TextBlock("Ranks over one data set say no more than its table above.")]
    columns = [(data.name, measure) for data in outcome.context.data for measure in _MEASURES]
    found = {
        row.label: [outcome.value((name, row.name), measure).mean for name, measure in columns]
        for row in rows_of(outcome.context)
    }
    scores = pd.DataFrame(found, columns, dtype=float).dropna(axis=1, how="all").dropna(how="all")
    ours: Block = outcome.nothing("Ranks of our runs", *outcome.plan)
    if not scores.empty:
        fill = {"n_columns": len(scores), "features": data_note(outcome.context)}
        ours = _rank_block("figure-ranks", scores, outcome.keys(*outcome.plan), fill)
    printed = {
        label_of(method): pd.DataFrame(sets, ["ZSL", *_MEASURES])
        .drop("ZSL")
        .astype(float)
        .unstack()
        for method, sets in PUBLISHED.items()
    }
    return [ours, _rank_block("figure-ranks-paper", pd.DataFrame(printed))]


def _rank_block(
    name: str, scores: pd.DataFrame, keys: tuple[str, ...] = (), fill: Any = None
) -> FigureBlock:
    labels, counts, means = rank_matrix(scores)
    ranks = list(range(1, len(labels) + 1))
    frame = pd.DataFrame(counts, columns=ranks).assign(method=labels, mean_rank=means)
    frame = frame.melt(["method", "mean_rank"], var_name="rank", value_name="count")
    drawing = _draw_ranks(labels, counts, means)
    return FigureBlock.of(name, None, drawing, frame, keys=keys, fill=fill)


def _draw_ranks(labels: list[str], counts: NDArray[np.int64], means: list[float]) -> Figure:
    """Draw the matrix: darker is more often, the number is the count."""
    n = len(labels)
    with style.drawn(max(3.6, 1.9 + 0.29 * n), max(1.7, 1.0 + 0.25 * n)) as (drawing, axes):
        top, shown = counts.max(), np.ma.masked_equal(counts, 0)
        axes.pcolormesh(shown, cmap=style.shades(), vmin=-0.15 * top, vmax=top,
                        edgecolors=style.RULE, linewidth=0.5)  # fmt: skip
        for row, column in zip(*np.nonzero(counts), strict=True):
            light = counts[row, column] > 0.5 * top
            axes.text(column + 0.5, row + 0.5, str(counts[row, column]), ha="center", va="center",
                      fontsize=7.5, color=style.PAPER if light else style.INK)  # fmt: skip
        places, words = np.arange(0.5, n), zip(labels, means, strict=True)
        axes.set_yticks(places, [f"{label} [{mean:.1f}]" for label, mean in words])
        axes.set_xticks(places, range(1, n + 1))
        axes.set_xlabel("rank", color=style.MUTED)
        axes.tick_params(length=0, labelcolor=style.INK)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
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


@experiment("Seen–unseen curves", plan_evaluations)
def curves(outcome: Outcome) -> list[Block]:
    """Taking a calibration γ off the scores of seen classes trades accuracy on seen classes for
    accuracy on unseen ones. The curve shows every trade a method offers, and its area (AUSUC)
    compares methods without regard to γ. The paper does not have it.
    """
    panels = {data.name: curves_of(outcome, data) for data in outcome.context.data}
    panels = {name: curves for name, curves in panels.items() if curves}
    if not panels:
        return [TextBlock("No evaluation has a curve yet, so there is nothing to draw.")]
    looks = _looks(panels)
    n_columns = min(len(panels), 2)
    grid = {"rows": -(-len(panels) // n_columns), "columns": n_columns}
    width, height = 4.2 * n_columns + 0.4, 4.2 * grid["rows"]
    with style.drawn(width, height, **grid, squeeze=False) as (drawing, axes):
        frames = []
        for place, (name, curves) in zip(axes.flat, panels.items(), strict=False):
            frames += [_draw_curve(place, name, curve, looks[curve.row.name]) for curve in curves]
            place.set(title=name, xlabel="accuracy on unseen classes, %", xlim=(0, None),
                      ylabel="accuracy on seen classes, %", ylim=(0, None))  # fmt: skip
            place.legend(loc="upper left", bbox_to_anchor=(0.0, -0.17), ncols=2,
                         labelcolor=style.INK, columnspacing=1.4)  # fmt: skip
        for place in axes.flat[len(panels) :]:
            place.set_visible(False)
    keys = tuple(key for curves in panels.values() for curve in curves for key in curve.keys)
    fill = {"features": data_note(outcome.context)}
    return [FigureBlock.of("figure-curves", None, drawing, pd.concat(frames), keys=keys, fill=fill)]


def _looks(panels: dict[str, list[Curve]]) -> dict[str, dict[str, Any]]:
    """Give each method one look in all panels; where colours repeat, not within a panel."""
    members = [{curve.row.name for curve in curves} for curves in panels.values()]
    n_colours = len(style.PALETTE)
    places: dict[str, int] = {}
    for name in (curve.row.name for curves in panels.values() for curve in curves):
        beside = set().union(*(panel for panel in members if name in panel))
        taken = {places[other] % n_colours for other in beside if other in places}
        free = (n for n in count() if n not in places.values() and n % n_colours not in taken)
        places[name] = places[name] if name in places else next(free)
    return {name: style.series(place, marker=False) for name, place in places.items()}


def _draw_curve(axes: Any, name: str, curve: Curve, look: dict[str, Any]) -> pd.DataFrame:
    arrays = curve.result.arrays
    points = 100 * np.column_stack([arrays["unseen"], arrays["seen"]])
    # A data set of the paper has thousands of points; this many draw the same line.
    places = np.linspace(0, len(points) - 1, min(len(points), _MAX_POINTS)).round().astype(int)
    unseen, seen = points[places].T
    axes.plot(unseen, seen, label=f"{curve.row.label}  {curve.ausuc:.1f}", **look)
    ts, tr = (lookup(curve.result.values, metric) for metric in ("ts", "tr"))
    if ts is not None and tr is not None:
        axes.plot(ts, tr, marker="o", color=look["color"], linestyle="none")
    about = {"data": name, "method": curve.row.name, "seed": curve.result.cell.seed}
    return pd.DataFrame({**about, "unseen": unseen, "seen": seen})


# ---------------------------------------------------------------------- calibration
_PARTS = {"uncalibrated": "γ = 0", "calibrated": "γ chosen"}
_ORACLE = ("uncalibrated", "H_star")


@experiment("Calibration", plan_evaluations)
def calibration(outcome: Outcome) -> list[Block]:
    """Beyond the paper, which does not calibrate. Every method favours the classes it has seen;
    taking a constant γ off their scores (calibrated stacking) trades seen for unseen accuracy. The
    models are those of the main table.
    """
    return [
        block
        for data in outcome.context.data
        for block in (_calibration_table(outcome, data), _draw_calibration(outcome, data))
    ]


def _calibration_table(outcome: Outcome, data: DataSpec) -> TableBlock:
    columns = {
        Column(name, words): (data, (part, name))
        for part, words in _PARTS.items()
        for name in _MEASURES
    } | {Column("H*"): (data, _ORACLE)}
    harmonic = [column for column in columns if column.name.startswith("H")]
    return method_table(outcome, "ablation-calibration", data, columns, harmonic)


def _draw_calibration(outcome: Outcome, data: DataSpec) -> Block:
    marks = {words: (part, "H") for part, words in _PARTS.items()} | {"H*": _ORACLE}
    slots = {row.label: (data.name, row.name) for row in rows_of(outcome.context)}
    frame = outcome.frame("method", slots, marks)
    if frame.empty:
        return outcome.nothing(f"What calibration gives, {data.name}", *slots.values())
    frame = frame.sort_values("H*", kind="stable")
    spans = frame[list(marks)]
    with style.drawn(6.4, 1.1 + 0.24 * len(frame)) as (drawing, axis):
        places = range(len(frame))
        axis.hlines(
            places, spans.min(axis=1), spans.max(axis=1), color=style.RULE, linewidth=2.5, zorder=1
        )
        for index, name in enumerate(marks):
            look = style.series(index) | {"linestyle": "none"}
            axis.plot(frame[name], places, markersize=6, label=name, **look)
        axis.set_yticks(list(places), frame["method"].tolist())
        axis.set(xlabel="H, %", xlim=(-1.5, None))
        axis.grid(axis="y", visible=False)
        drawing.legend(loc="outside lower center", ncols=3)
    keys = outcome.keys(*slots.values())
    return FigureBlock.of("ablation-calibration-figure", data, drawing, frame, keys=keys)


# ---------------------------------------------------------------------- results by class
_NAMED = 40  # with more classes than this the picture has no names


def _plan_classes(context: Context) -> Plan:
    """Return a count of predictions with what the main table's first seed selected."""
    plan: dict[Any, list[Cell]] = {}
    for data in context.data:
        main = evaluate_cells(context, DEFAULT, data)[0]
        counted = replace(main, task="classes", params={}, options={}, needs=[main.key])
        plan |= {("main", data.name): [main], data.name: [counted]}
    return plan


@experiment("Results by class", _plan_classes)
def classes(outcome: Outcome) -> list[Block]:
    """Beyond the paper. Which classes the closed form recognises and what it takes the others for,
    with the settings that the main table's first seed selected.
    """
    return outcome.by_data("Results by class", _draw_confusion, _classes_table)


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
    totals, wrong = confusion.sum(axis=1), confusion - np.diag(confusion.diagonal())
    lines = []
    for place in np.flatnonzero(totals).tolist():
        total, other = int(totals[place]), int(wrong[place].argmax())
        accuracy = 100.0 * int(confusion[place, place]) / total
        share = 100.0 * int(wrong[place, other]) / total
        mistaken = names[other] if wrong[place, other] else ""
        lines.append((names[place], place < n_seen, total, accuracy, mistaken, share))
    return sorted(lines, key=lambda line: line[3])


def _classes_table(data: DataSpec, result: CellResult, keys: tuple[str, ...]) -> TableBlock:
    rows: list[list[Value | str]] = []
    for name, seen, total, accuracy, other, share in class_table(
        result.arrays["confusion"], result.values["classes"], result.values["n_seen"]
    ):
        rows.append([
            name, "seen" if seen else "unseen", Value(total, n=1, keys=keys, form=".0f"),
            Value(accuracy, n=1, keys=keys), other or "–",
            Value(share, n=1, keys=keys) if other else "–",
        ])  # fmt: skip
    columns = ["Class", "Kind", "Test images", "Accuracy, %", "Most often taken for", "so often, %"]
    return TableBlock.of("figure-classes-table", data, columns, rows, closed=True)


def _draw_confusion(data: DataSpec, result: CellResult, keys: tuple[str, ...]) -> FigureBlock:
    names, n_seen = result.values["classes"], result.values["n_seen"]
    counts = result.arrays["confusion"].astype(np.float64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    size = min(6.4, 2.4 + 0.2 * len(names))
    with style.drawn(size + 0.7, size) as (drawing, axis):
        image = axis.imshow(100.0 * shares, vmin=0, vmax=100, cmap=style.shades())
        axis.axhline(n_seen - 0.5, color=style.MUTED, linewidth=0.8)
        axis.axvline(n_seen - 0.5, color=style.MUTED, linewidth=0.8)
        few = len(names) <= _NAMED
        places = np.arange(len(names)) if few else np.array([n_seen / 2, (n_seen + len(names)) / 2])
        words = [style.short(name) for name in names] if few else ["seen", "unseen"]
        axis.set_xticks(places, words, rotation=90 if few else 0)
        axis.set_yticks(places, words)
        axis.grid(visible=False)
        axis.set(xlabel="predicted class", ylabel="true class")
        drawing.colorbar(image, label="% of the class's test images", shrink=0.8)
    frame = pd.DataFrame(counts.astype(int), names, names).rename_axis("true")
    frame = frame.melt(var_name="predicted", value_name="count", ignore_index=False)
    fill = {
        "n_unseen": len(names) - n_seen,
        "n_seen_as": int(counts[:n_seen, n_seen:].sum()),
        "n_seen_rows": int(counts[:n_seen].sum()),
        "n_unseen_as": int(counts[n_seen:, :n_seen].sum()),
        "n_unseen_rows": int(counts[n_seen:].sum()),
    }
    frame = frame[frame["count"] > 0].reset_index()
    return FigureBlock.of("figure-classes", data, drawing, frame, keys=keys, fill=fill)


def run_classes(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Count predictions by true and predicted class, all classes being candidates.

    Parameters
    ----------
    cell : Cell
        The method, with parameters and γ that another cell selected; it has no options.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``classes`` by name, seen ones first, and how many of them are seen, ``n_seen``.
    arrays : dict of ndarray
        ``confusion`` (C, C): test rows by true class (row) and predicted class (column).

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("classes", DataSpec("digits", "digits"), "hgkt", params={"calibration": 0.3})
    >>> values, arrays = run_classes(cell, load_dataset("digits"))
    >>> values["n_seen"], arrays["confusion"].shape, int(arrays["confusion"].sum())
    (8, (10, 10), 646)
    """
    from sklearn.metrics import confusion_matrix

    X_train, y_train = dataset.rows("train")
    model = build_estimator(cell, dataset)
    model.fit(X_train, y_train, class_attributes=dataset.attributes_of(dataset.seen_classes))
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    parts = [dataset.rows(split) for split in ("test_seen", "test_unseen")]
    truth = np.concatenate([y for _, y in parts])
    found = np.concatenate([model.predict(X) for X, _ in parts])
    seen, unseen = (dataset.names(c) for c in (dataset.seen_classes, dataset.unseen_classes))
    names = [*seen, *unseen]
    confusion = confusion_matrix(truth, found, labels=names)
    return {"classes": names, "n_seen": len(seen)}, {"confusion": confusion}
