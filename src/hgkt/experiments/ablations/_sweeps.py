"""Curves over one parameter: test accuracies, the validation score and what it would choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hgkt.experiments.ablations._common import STEPS, Variant, missing_words
from hgkt.experiments.base import Block, Context, DataSpec, FigureBlock, Results, TextBlock
from hgkt.experiments.tables._results import MethodRow, present, value

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Sweep:
    """One parameter over its values, the rest held or chosen on validation classes.

    Parameters
    ----------
    title : str
        Of the panel.
    label : str
        Of the axis.
    parameter : str
        The parameter.
    values : sequence
        Its values.
    row : MethodRow
        The model.
    params : mapping
        Other parameters set by hand.
    options : mapping
        Options of the task "evaluate".
    """

    title: str
    label: str
    parameter: str
    values: Sequence[Any]
    row: MethodRow
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def variants(self) -> list[Variant]:
        """Return a variant for each value."""
        return [
            Variant(
                f"{self.label} = {item}",
                self.row,
                {**self.params, self.parameter: item},
                options=self.options,
            )
            for item in self.values
        ]


STEPS_ONLY: Mapping[str, Any] = {"stages": [{"n_steps": list(STEPS)}]}
"""Options that leave the number of steps alone to validation."""


def sweep_frame(context: Context, results: Results, data: DataSpec, sweep: Sweep) -> pd.DataFrame:
    """Return one line a value: means and deviations of ts, tr, H and the validation score.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    data : DataSpec
        The data set.
    sweep : Sweep
        The parameter; values that did not run are left out.
    """
    import pandas as pd

    lines = []
    for item, variant in zip(sweep.values, sweep.variants(), strict=True):
        cells = variant.cells(context, data)
        line: dict[str, Any] = {"model": sweep.row.label, "parameter": sweep.parameter}
        line["value"] = str(item)
        for name, metric in _CURVES.items():
            found = value(results, cells, metric)
            line |= {name: found.number, f"{name}_std": found.std or 0.0}
        if line["H"] is not None:
            lines.append(line)
    frame = pd.DataFrame(lines, columns=_COLUMNS)
    if len(frame):
        scores = frame["validation"].astype(float)
        frame["chosen"] = scores == scores.max()
    return frame


_CURVES = {"ts": "ts", "tr": "tr", "H": "H", "validation": "validation.score"}
_COLUMNS = [
    "model", "parameter", "value",
    *[f"{name}{suffix}" for name in _CURVES for suffix in ("", "_std")], "chosen",
]  # fmt: skip


def sweep_block(
    name: str,
    title: str,
    context: Context,
    results: Results,
    data: DataSpec,
    sweeps: Sequence[Sweep],
    note: str,
) -> Block:
    """Draw one panel a sweep for one data set.

    Parameters
    ----------
    name, title : str
        Of the block.
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    data : DataSpec
        The data set.
    sweeps : sequence of Sweep
        The panels.
    note : str
        Below the figure.
    """
    import pandas as pd

    from hgkt.experiments import style

    frames = [sweep_frame(context, results, data, sweep) for sweep in sweeps]
    if not any(len(frame) for frame in frames):
        return TextBlock(f"{title}: {why_nothing(context, results, data, sweeps)}")
    with style.styled():
        drawing, axes = style.figure(
            max(5.0, 0.6 + 3.3 * len(sweeps)), 3.1, columns=len(sweeps), squeeze=False, sharey=True
        )
        for axis, sweep, frame in zip(axes[0], sweeps, frames, strict=True):
            _draw_sweep(axis, sweep, frame)
        axes[0][0].set_ylabel("%")
        axes[0][0].set_ylim(bottom=0)  # shared: set once all panels are drawn
        handles: dict[str, Any] = {}
        for axis in axes[0]:
            handles |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
        drawing.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=5 if len(sweeps) > 1 else 3,
        )
    keys = [
        result.cell.key
        for sweep in sweeps
        for variant in sweep.variants()
        for result in present(results, variant.cells(context, data))
    ]
    frame = pd.concat([f for f in frames if len(f)], ignore_index=True)
    return FigureBlock(name, title, drawing, frame, note, tuple(keys))


def _draw_sweep(axis: Any, sweep: Sweep, frame: pd.DataFrame) -> None:
    from hgkt.experiments import style

    places = range(len(frame))
    words = {"ts": "ts (unseen)", "tr": "tr (seen)", "H": "H"}
    for index, (column, label) in enumerate(words.items()):
        look = style.series(index)
        axis.errorbar(
            places, frame[column].astype(float), frame[f"{column}_std"], capsize=2.5, label=label,
            **look,
        )  # fmt: skip
    axis.plot(
        places, frame["validation"].astype(float), label="validation score",
        color=style.MUTED, linestyle=":", marker=".",
    )  # fmt: skip
    if len(frame) and frame["chosen"].any():
        best = int(frame["chosen"].to_numpy().argmax())
        axis.plot(
            best, frame["validation"].iloc[best], "*", color=style.INK, markersize=11,
            label="chosen by validation", linestyle="none",
        )  # fmt: skip
        axis.axvline(best, color=style.RULE, linewidth=5, zorder=0)
    axis.set_xticks(list(places), frame["value"].tolist())
    axis.set_xlabel(sweep.label)
    axis.set_title(sweep.title)


def why_nothing(context: Context, results: Results, data: DataSpec, sweeps: Sequence[Sweep]) -> str:
    """Return in words why there is nothing to draw: not run, or the first failure.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    data : DataSpec
        The data set.
    sweeps : sequence of Sweep
        What should have been drawn.
    """
    cells = [c for s in sweeps for v in s.variants() for c in v.cells(context, data)]
    return missing_words(results, cells)
