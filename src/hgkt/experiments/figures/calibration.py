"""With and without calibration: the same models at γ = 0, at the chosen γ and at the best γ."""

from __future__ import annotations

import pandas as pd

from hgkt.experiments.base import DataSpec
from hgkt.experiments.blocks import (
    Block,
    Column,
    Experiment,
    FigureBlock,
    Outcome,
    TableBlock,
    Value,
    mark_columns,
)
from hgkt.experiments.figures import style
from hgkt.experiments.tables.rows import method_values, plan_evaluations, rows_of

_PARTS = {"uncalibrated": "γ = 0", "calibrated": "γ chosen"}
_ORACLE = ("uncalibrated", "H_star")


def _render(outcome: Outcome) -> list[Block]:
    return [
        block
        for data in outcome.context.data
        for block in (_table(outcome, data), _drawing(outcome, data))
    ]


def _table(outcome: Outcome, data: DataSpec) -> TableBlock:
    heads = {
        Column(name, words): (part, name)
        for part, words in _PARTS.items()
        for name in ("ts", "tr", "H")
    } | {Column("H*"): _ORACLE}
    rows = rows_of(outcome.context)
    lines: list[list[Value | str]] = [
        [row.label, *method_values(outcome, row, data, heads)] for row in rows
    ]
    harmonic = [place for place, head in enumerate(heads, start=1) if head.name in ("H", "H*")]
    return TableBlock(
        f"ablation-calibration-{data.name}",
        f"With and without calibration, {data.name}",
        ["Method", *heads],
        mark_columns(lines, harmonic),
        "Percent, mean ± standard deviation over seeds. γ is taken off the scores of seen "
        "classes; it is chosen at the highest mean H of the validation folds. H* is the best H "
        "over all γ on the test rows: an oracle that bounds what calibration can give.",
        [position for position, row in enumerate(rows) if row.ours],
    )


def _drawing(outcome: Outcome, data: DataSpec) -> Block:
    marks = {words: (part, "H") for part, words in _PARTS.items()} | {"H*": _ORACLE}
    slots = {row.label: (data.name, row.name) for row in rows_of(outcome.context)}
    lines = [
        {"method": label} | {name: outcome.value(slot, path).mean for name, path in marks.items()}
        for label, slot in slots.items()
        if outcome.value(slot, ("uncalibrated", "H")).n
    ]
    title = f"What calibration gives, {data.name}"
    if not lines:
        return outcome.nothing(title, *slots.values())
    frame = pd.DataFrame(lines).sort_values("H*", kind="stable").reset_index(drop=True)
    spans = frame[list(marks)] = frame[list(marks)].astype(float)
    with style.styled():
        drawing, axis = style.figure(6.4, 1.1 + 0.24 * len(frame))
        places = range(len(frame))
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
        f"ablation-calibration-figure-{data.name}",
        title,
        drawing,
        frame,
        "Each line is one method: without calibration, with the γ of validation classes, and with "
        "the best γ there is.",
        outcome.keys(*slots.values()),
    )


EXPERIMENT = Experiment(
    "Calibration",
    "Beyond the paper, which does not calibrate. Every method favours the classes it has seen; "
    "taking a constant γ off their scores (calibrated stacking) trades seen for unseen accuracy. "
    "The models are those of the main table.",
    plan_evaluations,
    _render,
)
