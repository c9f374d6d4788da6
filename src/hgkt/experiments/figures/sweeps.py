"""Curves over one parameter, and bars of variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from hgkt.experiments.base import Cell, Context, DataSpec
from hgkt.experiments.blocks import Block, FigureBlock, Metric, Outcome, Slot
from hgkt.experiments.figures import style
from hgkt.experiments.tables.rows import MethodRow, evaluate_cells
from hgkt.experiments.tables.variants import VariantTable

DEFAULTS: Mapping[str, Any] = {"select": False}
"""Options that leave nothing but γ to validation."""

_WORDS = {"ts": "ts (unseen)", "tr": "tr (seen)", "H": "H"}
_CURVES: dict[str, Metric] = {**{n: n for n in _WORDS}, "validation": ("validation", "score")}
_HATCHES = ("", "//", "..")


@dataclass(frozen=True)
class Sweep:
    """One parameter over its values, the rest held or chosen on validation classes.

    Parameters
    ----------
    title : str
        Of the panel, after the model's name.
    label : str
        Of the axis.
    parameter : str
        The parameter.
    values : sequence
        Its values.
    row : MethodRow
        The model.
    options : mapping
        Options of the task "evaluate".
    quick : sequence
        The values of a quick run; by default all.
    params : mapping
        Other parameters set by hand.
    """

    title: str
    label: str
    parameter: str
    values: Sequence[Any]
    row: MethodRow
    options: Mapping[str, Any]
    quick: Sequence[Any] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    def slots(self, context: Context, data: DataSpec) -> dict[Any, Slot]:
        """Return where the cells of each value are in a plan."""
        values = (self.quick if context.quick else ()) or self.values
        return {item: (data.name, self.row.name, self.parameter, item) for item in values}

    def plan(self, context: Context, data: DataSpec) -> dict[Slot, list[Cell]]:
        """Return the cells of each value on one data set."""
        return {
            slot: evaluate_cells(
                context, self.row, data, {**self.params, self.parameter: item}, **self.options
            )
            for item, slot in self.slots(context, data).items()
        }

    def frame(self, outcome: Outcome, data: DataSpec) -> pd.DataFrame:
        """Return one line per value: means and deviations of ts, tr, H and the validation score.

        Values that did not run are left out; ``chosen`` says which one validation would take.
        """
        lines = []
        for item, slot in self.slots(outcome.context, data).items():
            line: dict[str, Any] = {
                "model": self.row.label,
                "parameter": self.parameter,
                "value": str(item),
            }
            found = {name: outcome.value(slot, metric) for name, metric in _CURVES.items()}
            for name, value in found.items():
                line |= {name: value.mean, f"{name}_std": value.deviation or 0.0}
            if found["H"].n:
                lines.append(line)
        frame = pd.DataFrame(lines)
        if lines:
            scores = frame["validation"].astype(float)
            frame["chosen"] = scores == scores.max()
        return frame


@dataclass(frozen=True)
class SweepFigure:
    """A figure per data set with a panel per sweep.

    Parameters
    ----------
    name, title, note : str
        Of the block; the data set's name is added.
    sweeps : sequence of Sweep
        The panels.
    """

    name: str
    title: str
    sweeps: Sequence[Sweep]
    note: str

    def plan(self, context: Context) -> dict[Slot, list[Cell]]:
        """Return the cells of all sweeps on all data sets."""
        plans = [sweep.plan(context, data) for data in context.data for sweep in self.sweeps]
        return {slot: cells for plan in plans for slot, cells in plan.items()}

    def render(self, outcome: Outcome) -> list[Block]:
        """Draw the figures."""
        return [self._draw(outcome, data) for data in outcome.context.data]

    def _draw(self, outcome: Outcome, data: DataSpec) -> Block:
        slots = [s for sweep in self.sweeps for s in sweep.slots(outcome.context, data).values()]
        frames = [sweep.frame(outcome, data) for sweep in self.sweeps]
        title = f"{self.title}, {data.name}"
        if not any(len(frame) for frame in frames):
            return outcome.nothing(title, *slots)
        n_panels = len(self.sweeps)
        with style.styled():
            drawing, axes = style.figure(
                max(5.0, 0.6 + 3.3 * n_panels), 3.1, columns=n_panels, squeeze=False, sharey=True
            )
            for axis, sweep, frame in zip(axes[0], self.sweeps, frames, strict=True):
                if len(frame):
                    _draw_sweep(axis, frame)
                axis.set(xlabel=sweep.label, title=f"{sweep.row.label}: {sweep.title}")
            axes[0][0].set_ylabel("%")
            axes[0][0].set_ylim(bottom=0)  # shared: set once all panels are drawn
            handles: dict[str, Any] = {}
            for axis in axes[0]:
                handles |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
            drawing.legend(
                list(handles.values()),
                list(handles),
                loc="outside lower center",
                ncols=5 if n_panels > 1 else 3,
            )
        frame = pd.concat([f for f in frames if len(f)], ignore_index=True)
        name = f"{self.name}-{data.name}"
        return FigureBlock(name, title, drawing, frame, self.note, outcome.keys(*slots))


def _draw_sweep(axis: Any, frame: pd.DataFrame) -> None:
    places = range(len(frame))
    for index, (column, label) in enumerate(_WORDS.items()):
        axis.errorbar(
            places, frame[column].astype(float), frame[f"{column}_std"], capsize=2.5, label=label,
            **style.series(index),
        )  # fmt: skip
    scores = frame["validation"].astype(float)
    axis.plot(
        places, scores, label="validation score", color=style.MUTED, linestyle=":", marker="."
    )
    if frame["chosen"].any():
        best = int(frame["chosen"].to_numpy().argmax())
        axis.plot(
            best, scores.iloc[best], "*", color=style.INK, markersize=11,
            label="chosen by validation", linestyle="none",
        )  # fmt: skip
        axis.axvline(best, color=style.RULE, linewidth=5, zorder=0)
    axis.set_xticks(list(places), frame["value"].tolist())


@dataclass(frozen=True)
class Bars:
    """A bar chart of the H of a table's variants; the table plans their cells.

    Parameters
    ----------
    name, title, note : str
        Of the block.
    table : VariantTable
        At most three variants of one model; the last of their words names them.
    """

    name: str
    title: str
    table: VariantTable
    note: str

    def plan(self, context: Context) -> dict[Slot, list[Cell]]:
        """Return the cells of the table."""
        return self.table.plan(context)

    def render(self, outcome: Outcome) -> list[Block]:
        """Draw the bars."""
        sets, variants = outcome.context.data, self.table.variants
        slots = [variant.slot(data) for data in sets for variant in variants]
        lines = []
        for data in sets:
            for variant in variants:
                h = outcome.value(variant.slot(data), "H")
                if h.n:
                    lines.append(
                        {"data": data.name, "variant": variant.words[-1], "H": h.mean,
                         "H_std": h.deviation or 0.0, "n_seeds": h.n}
                    )  # fmt: skip
        if not lines:
            return [outcome.nothing(self.title, *slots)]
        frame = pd.DataFrame(lines)
        names = list(dict.fromkeys(frame["data"]))
        with style.styled():
            drawing, axis = style.figure(max(3.6, 1.6 + 1.3 * len(names)), 3.2)
            for index, variant in enumerate(variants):
                part = frame[frame["variant"] == variant.words[-1]]
                axis.bar(
                    [names.index(name) + 0.26 * (index - 1) for name in part["data"]], part["H"],
                    0.23, yerr=part["H_std"], label=variant.words[-1], color=style.colour(index),
                    hatch=_HATCHES[index], edgecolor=style.PAPER,
                    error_kw={"capsize": 3, "ecolor": style.INK, "elinewidth": 0.9},
                )  # fmt: skip
            axis.set_xticks(range(len(names)), names)
            axis.set_ylabel("H, %")
            axis.grid(axis="x", visible=False)
            axis.set_xlim(-0.6, len(names) - 0.4)
            drawing.legend(loc="outside lower center", ncols=2)
        return [FigureBlock(self.name, self.title, drawing, frame, self.note, outcome.keys(*slots))]
