"""How sure answers are and how right that is: reliability, risk at a coverage, size of sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hgkt.evaluation.confidence import COLUMNS
from hgkt.experiments import style
from hgkt.experiments.blocks import Block, FigureBlock, Outcome, Plan, TableBlock, Value, experiment
from hgkt.experiments.plan import CellResult, Context, DataSpec
from hgkt.experiments.rows import DEFAULT, evaluate_cells

GROUPS = {"confidence_seen": "seen classes", "confidence_unseen": "unseen classes"}
_CURVES = {
    "reliability": ["confidence", "accuracy", "share"],
    "risk": ["coverage", "risk"],
    "sets": ["asked", "coverage", "size"],
}
_COLUMNS = COLUMNS | {"aurc": "risk, all coverages"}


def _percent(group: Mapping[str, Any], part: str) -> pd.DataFrame:
    return 100 * pd.DataFrame(group[part], columns=_CURVES[part])


def _plan(context: Context) -> Plan:
    return {data.name: evaluate_cells(context, DEFAULT, data) for data in context.data}


@experiment("Confidence", _plan)
def confidence(outcome: Outcome) -> list[Block]:
    """Beyond the paper. Probabilities, the risk of answering only what is sure, and prediction sets
    of the closed form. Temperatures and thresholds come from validation classes.
    """
    return outcome.by_data("Confidence", _drawing, lambda data, *_: _table(outcome, data))


def _drawing(data: DataSpec, result: CellResult, keys: tuple[str, ...]) -> FigureBlock:
    groups = {words: result.values[name] for name, words in GROUPS.items()}
    frame = pd.concat(_percent(group, "risk").assign(group=name) for name, group in groups.items())
    frame = frame.reset_index(drop=True)
    with style.drawn(9.6, 3.4, columns=3) as (drawing, (left, middle, right)):
        for axis in (left, right):
            axis.plot([0, 100], [0, 100], color=style.RULE, linewidth=1.0, zorder=0)
        sizes = right.twinx()
        for index, (name, group) in enumerate(groups.items()):
            look = style.series(index)
            bins, risk, sets = (_percent(group, part) for part in _CURVES)
            left.plot(bins["confidence"], bins["accuracy"], label=name, **look)
            middle.plot(risk["coverage"], risk["risk"], **style.series(index, marker=False))
            right.plot(sets["asked"], sets["coverage"], **look)
            sizes.plot(sets["asked"], sets["size"] / 100, color=look["color"], linestyle=":")
        left.set(xlabel="probability of the answer, %", ylabel="right, %", title="Reliability")
        middle.set(xlabel="rows answered, surest first, %", ylabel="wrong, %", title="Risk")
        right.set(xlabel="coverage asked for, %", ylabel="sets with the true class, %",
                  title="Sets", xlim=(48, 100), ylim=(48, 101))  # fmt: skip
        sizes.set_ylabel("classes in a set (dotted)")
        sizes.grid(visible=False)
        drawing.legend(loc="outside lower center", ncols=2)
    return FigureBlock.of("figure-confidence", data, drawing, frame, keys=keys)


def _table(outcome: Outcome, data: DataSpec) -> TableBlock:
    rows: list[list[Value | str]] = [
        [words, *(outcome.value(data.name, (group, name)) for name in _COLUMNS)]
        for group, words in GROUPS.items()
    ]
    columns = ["Test rows of", *(words.capitalize() for words in _COLUMNS.values())]
    return TableBlock.of("figure-confidence-table", data, columns, rows)
