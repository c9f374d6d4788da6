"""With and without calibration: the same models at γ = 0, at the chosen γ and at the best γ."""

from __future__ import annotations

from typing import Any

from hgkt.experiments.ablations._common import NOTHING, missing_words, slug
from hgkt.experiments.base import (
    Block,
    Cell,
    Context,
    DataSpec,
    Experiment,
    FigureBlock,
    Results,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.tables._results import (
    evaluate_cells,
    mark_best,
    plan_evaluations,
    rows_of,
    value,
)

_COLUMNS = {
    "ts, γ = 0": "uncalibrated.ts",
    "tr, γ = 0": "uncalibrated.tr",
    "H, γ = 0": "uncalibrated.H",
    "ts, γ chosen": "calibrated.ts",
    "tr, γ chosen": "calibrated.tr",
    "H, γ chosen": "calibrated.H",
    "H*": "uncalibrated.H_star",
}


def plan(context: Context) -> list[Cell]:
    """Return the cells of the main table: nothing is run anew.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return plan_evaluations(context)


def render(context: Context, results: Results) -> list[Block]:
    """Make a table and a figure for each data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    blocks: list[Block] = []
    for data in context.data:
        blocks += [_table(context, results, data), _drawing(context, results, data)]
    return blocks


def _table(context: Context, results: Results, data: DataSpec) -> TableBlock:
    rows: list[list[Value | str]] = []
    for row in rows_of(context):
        cells = evaluate_cells(context, row, data)
        rows.append([row.label, *(value(results, cells, path) for path in _COLUMNS.values())])
    columns = [list(column) for column in zip(*rows, strict=True)]
    for position, name in enumerate(_COLUMNS, start=1):
        if name.startswith("H"):
            columns[position] = mark_best(columns[position])
    return TableBlock(
        slug("ablation-calibration", data.name),
        f"With and without calibration, {data.name}",
        ["Method", *_COLUMNS],
        [list(row) for row in zip(*columns, strict=True)],
        "Percent, mean ± standard deviation over seeds. γ is taken off the scores of seen "
        "classes; it is chosen at the highest mean H of the validation folds. H* is the best H "
        "over all γ on the test rows: an oracle that bounds what calibration can give. A dash "
        "below γ chosen: the method has nothing to choose and looked at no validation fold.",
    )


def _drawing(context: Context, results: Results, data: DataSpec) -> Block:
    import pandas as pd

    from hgkt.experiments import style

    marks = {"γ = 0": "uncalibrated.H", "γ chosen": "calibrated.H", "H*": "uncalibrated.H_star"}
    lines: list[dict[str, Any]] = []
    for row in rows_of(context):
        cells = evaluate_cells(context, row, data)
        line = {name: value(results, cells, path).number for name, path in marks.items()}
        if line["γ = 0"] is not None:
            lines.append({"method": row.label, **line})
    title = f"What calibration gives, {data.name}"
    cells = [c for row in rows_of(context) for c in evaluate_cells(context, row, data)]
    if not lines:
        return TextBlock(f"{title}: {missing_words(results, cells)}")
    frame = pd.DataFrame(lines).sort_values("H*", kind="stable").reset_index(drop=True)
    frame[list(marks)] = frame[list(marks)].astype(float)
    with style.styled():
        drawing, axis = style.figure(6.4, 1.1 + 0.24 * len(frame))
        places = range(len(frame))
        spans = frame[list(marks)]
        axis.hlines(
            places, spans.min(axis=1), spans.max(axis=1), color=style.RULE, linewidth=2.5, zorder=1
        )
        for index, name in enumerate(marks):
            look = {"color": style.colour(index), "marker": style.MARKERS[index]}
            axis.plot(frame[name], places, linestyle="none", markersize=6, label=name, **look)
        axis.set_yticks(list(places), frame["method"].tolist())
        axis.set_xlabel("H, %")
        axis.set_xlim(left=-1.5)
        axis.grid(axis="y", visible=False)
        drawing.legend(loc="outside lower center", ncols=3)
    return FigureBlock(
        slug("ablation-calibration-figure", data.name),
        title,
        drawing,
        frame,
        "Each line is one method: without calibration, with the γ of validation classes, and with "
        "the best γ there is.",
        tuple(cell.key for cell in cells if cell.key in results),
    )


EXPERIMENT = Experiment(
    "Calibration",
    "Beyond the paper, which does not calibrate. Every method favours the classes it has seen; "
    "taking a constant γ off their scores (calibrated stacking) trades seen for unseen accuracy. "
    "The models are those of the main table.",
    plan,
    render,
)
