"""Ablations that change one thing of a model at a time: variants as tables, sweeps as curves."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from hgkt.exceptions import HGKTError
from hgkt.experiments import style
from hgkt.experiments.blocks import (
    Block,
    Experiment,
    FigureBlock,
    Metric,
    Outcome,
    Slot,
    TableBlock,
    Value,
    mark_columns,
)
from hgkt.experiments.discovery import with_fingerprint
from hgkt.experiments.plan import Cell, Context, DataSpec
from hgkt.experiments.rows import DEFAULT, METRICS, PAPER, RELATIONS, MethodRow, evaluate_cells

_HATCHES = ("", "//", "..")


@dataclass(frozen=True)
class Variant:
    """One row of an ablation's table.

    Parameters
    ----------
    words : sequence of str
        What the row says of itself, one word per head of the table.
    row : MethodRow
        The model.
    params : mapping
        Parameters set by hand.
    published : str
        Row of the paper's table: a name of `RELATIONS`, or empty.
    attributes : str
        Attributes of an xlsa17 folder to take instead; data sets without them have no such row.
    quick : bool
        Whether a quick run has it.
    select : bool
        Whether validation chooses what is not set by hand; else it chooses γ alone.
    """

    words: Sequence[str]
    row: MethodRow
    params: Mapping[str, Any] = field(default_factory=dict)
    published: str = ""
    attributes: str = ""
    quick: bool = True
    select: bool = True

    def slot(self, data: DataSpec) -> Slot:
        """Return where its cells are in a plan."""
        return (data.name, self.row.name, *self.words)

    def cells(self, context: Context, data: DataSpec) -> list[Cell]:
        """Return its cells on one data set, one per seed; none where it does not apply."""
        if context.quick and not self.quick:
            return []
        if self.attributes:
            if data.attributes != "att":
                return []
            try:
                data = with_fingerprint(replace(data, attributes=self.attributes))
            except HGKTError:
                return []
        return evaluate_cells(context, self.row, data, dict(self.params), select=self.select)


def plan_variants(context: Context, variants: Iterable[Variant]) -> dict[Slot, list[Cell]]:
    """Return the cells of the variants that apply."""
    found = {v.slot(data): v.cells(context, data) for v in variants for data in context.data}
    return {slot: cells for slot, cells in found.items() if cells}


@dataclass(frozen=True)
class VariantTable:
    """A table of variants; of each model the best H is marked.

    Parameters
    ----------
    name, title, note : str
        Of the block.
    heads : sequence of str
        Heads of what variants say of themselves.
    variants : sequence of Variant
        The rows; those of one model stand together.
    bars : mapping of str to str, optional
        Name, title and note of a bar chart of the same.
    """

    name: str
    title: str
    heads: Sequence[str]
    variants: Sequence[Variant]
    note: str = ""
    bars: Mapping[str, str] | None = None

    def render(self, outcome: Outcome) -> list[Block]:
        """Return the table."""
        position = 1 + len(self.heads) + list(METRICS).index("H")
        rows: list[list[Value | str]] = []
        for data in outcome.context.data:
            planned = [v for v in self.variants if v.slot(data) in outcome.plan]
            for _, group in groupby(planned, key=lambda variant: variant.row):
                lines = [_line(outcome, data, variant) for variant in group]
                rows += mark_columns(lines, [position])
        columns = ["Data", *self.heads, *METRICS]
        table = TableBlock(self.name, self.title, columns, rows, self.note)
        return [table] if self.bars is None else [self._draw_bars(outcome, **self.bars), table]

    def _draw_bars(self, outcome: Outcome, name: str, title: str, note: str) -> Block:
        """Draw the H of at most three variants of one model, named by the last of their words."""
        sets, variants = outcome.context.data, self.variants
        slots = {(d.name, v.words[-1]): v.slot(d) for d in sets for v in variants}
        frame = outcome.frame("slot", slots, {"H": "H"})
        if frame.empty:
            return outcome.nothing(title, *slots.values())
        frame[["data", "variant"]] = frame.pop("slot").tolist()
        names = list(dict.fromkeys(frame["data"]))
        with style.drawn(max(3.6, 1.6 + 1.3 * len(names)), 3.2) as (drawing, axis):
            for index, (variant, part) in enumerate(frame.groupby("variant", sort=False)):
                places = part["data"].map(names.index) + 0.26 * (index - 1)
                axis.bar(
                    places, part["H"], 0.23, yerr=part["H_std"], label=variant,
                    color=style.colour(index), hatch=_HATCHES[index], edgecolor=style.PAPER,
                    error_kw={"capsize": 3, "ecolor": style.INK, "elinewidth": 0.9},
                )  # fmt: skip
            axis.set_xticks(range(len(names)), names)
            axis.set(ylabel="H, %", xlim=(-0.6, len(names) - 0.4))
            axis.grid(axis="x", visible=False)
            drawing.legend(loc="outside lower center", ncols=2)
        return FigureBlock(name, title, drawing, frame, note, outcome.keys(*slots.values()))


def _line(outcome: Outcome, data: DataSpec, variant: Variant) -> list[Value | str]:
    printed = RELATIONS.get(variant.published, {}).get(data.name.upper())
    # The paper calibrates nothing: its H belongs beside ours at γ = 0.
    beside: dict[Metric, float] = {("uncalibrated", "H"): printed[2]} if printed else {}
    slot = variant.slot(data)
    values = [outcome.value(slot, metric, beside.get(metric)) for metric in METRICS.values()]
    return [data.name, *variant.words, *values]


_WORDS = {"ts": "ts (unseen)", "tr": "tr (seen)", "H": "H"}
_CURVES: dict[str, Metric] = {**{n: n for n in _WORDS}, "validation": ("validation", "score")}


@dataclass(frozen=True)
class Sweep:
    """One parameter over its values, the rest held; nothing but γ is left to validation.

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
    quick: Sequence[Any] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def variants(self) -> dict[str, Variant]:
        """The settings, by the text of their value."""
        params = {str(value): {**self.params, self.parameter: value} for value in self.values}
        quick = [str(value) for value in self.quick or self.values]
        return {
            text: Variant(
                (self.parameter, text), self.row, given, quick=text in quick, select=False
            )
            for text, given in params.items()
        }

    def frame(self, outcome: Outcome, data: DataSpec) -> pd.DataFrame:
        """Return one line per value: means and deviations of ts, tr, H and the validation score.

        Values that did not run are left out; ``chosen`` says which one validation would take.
        """
        slots = {text: variant.slot(data) for text, variant in self.variants.items()}
        frame = outcome.frame("value", slots, _CURVES)
        frame.insert(0, "model", self.row.label)
        frame.insert(1, "parameter", self.parameter)
        frame["chosen"] = frame["validation"] == frame["validation"].max()
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

    @property
    def variants(self) -> list[Variant]:
        """The settings of all panels."""
        return [variant for sweep in self.sweeps for variant in sweep.variants.values()]

    def render(self, outcome: Outcome) -> list[Block]:
        """Draw the figures."""
        return [self._draw(outcome, data) for data in outcome.context.data]

    def _draw(self, outcome: Outcome, data: DataSpec) -> Block:
        sweeps = [sweep for sweep in self.sweeps if outcome.context.asks(sweep.row.method)]
        slots = [variant.slot(data) for s in sweeps for variant in s.variants.values()]
        frames = [sweep.frame(outcome, data) for sweep in sweeps]
        title = f"{self.title}, {data.name}"
        if not any(len(frame) for frame in frames):
            return outcome.nothing(title, *slots)
        n_panels = len(sweeps)
        width, grid = max(5.0, 0.6 + 3.3 * n_panels), {"columns": n_panels, "squeeze": False}
        with style.drawn(width, 3.1, **grid, sharey=True) as (drawing, axes):
            for axis, sweep, frame in zip(axes[0], sweeps, frames, strict=True):
                if len(frame):
                    _draw_sweep(axis, frame)
                axis.set(xlabel=sweep.label, title=f"{sweep.row.label}: {sweep.title}")
            axes[0][0].set(ylabel="%", ylim=(0, None))  # shared: set once all panels are drawn
            handles: dict[str, Any] = {}
            for axis in axes[0]:
                handles |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
            place: Any = {"loc": "outside lower center", "ncols": 5 if n_panels > 1 else 3}
            drawing.legend(list(handles.values()), list(handles), **place)
        frame = pd.concat([f for f in frames if len(f)], ignore_index=True)
        name = f"{self.name}-{data.name}"
        return FigureBlock(name, title, drawing, frame, self.note, outcome.keys(*slots))


def _draw_sweep(axis: Any, frame: pd.DataFrame) -> None:
    places = range(len(frame))
    for index, (column, label) in enumerate(_WORDS.items()):
        axis.errorbar(
            places, frame[column], frame[f"{column}_std"], capsize=2.5, label=label,
            **style.series(index),
        )  # fmt: skip
    scores = frame["validation"]
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


# ---------------------------------------------------------------------- the experiments
_MODELS = {"network": PAPER, "closed form": DEFAULT}


def _experiment(
    title: str,
    about: str,
    table: dict[str, Any] | None = None,
    curves: dict[str, Any] | None = None,
) -> Experiment:
    """Return the experiment that an entry of ``ablations.toml`` describes."""
    parts: list[VariantTable | SweepFigure] = []
    if table is not None:
        variants = [Variant(row=_MODELS[v.pop("model")], **v) for v in table.pop("variants")]
        parts.append(VariantTable(variants=variants, **table))
    if curves is not None:
        sweeps = [Sweep(row=_MODELS[s.pop("model")], **s) for s in curves.pop("panels")]
        parts.append(SweepFigure(sweeps=sweeps, **curves))
    return Experiment(
        title,
        about,
        lambda context: plan_variants(context, [v for part in parts for v in part.variants]),
        lambda outcome: [block for part in parts for block in part.render(outcome)],
    )


INTRA, INTER, SELECTION, MU, NEIGHBORS, CHOICES = (
    _experiment(**entry)
    for entry in tomllib.loads(
        Path(__file__).with_name("ablations.toml").read_text(encoding="utf-8")
    ).values()
)
