"""Accuracy against the number of iterations."""

from __future__ import annotations

from typing import Any

from hgkt.experiments.ablations._common import NOTHING, good, missing_words, slug
from hgkt.experiments.base import (
    Block,
    Cell,
    CellResult,
    Context,
    DataSpec,
    Experiment,
    FigureBlock,
    Results,
    TextBlock,
)
from hgkt.experiments.task_iterations import COLUMNS

_STEPS = (1, 10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1200, 1600)
_QUICK_STEPS = (1, 25, 50, 100, 200, 400)
_WORDS = {"ts": "unseen (ts)", "tr": "seen (tr)", "H": "H"}


def cells_of(context: Context, data: DataSpec) -> list[Cell]:
    """Return the cell of one data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    data : DataSpec
        The data set.
    """
    steps = list(_QUICK_STEPS if context.quick else _STEPS)
    return [Cell("iterations", data, "hgkt", "paper", {}, 0, {"steps": steps})]


def plan(context: Context) -> list[Cell]:
    """Return one cell a data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [cell for data in context.data for cell in cells_of(context, data)]


def render(context: Context, results: Results) -> list[Block]:
    """Draw validation and test accuracies of each data set.

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
        cells = cells_of(context, data)
        found = good(results, cells)
        if found:
            blocks.append(draw(found[0]))
        else:
            words = missing_words(results, cells)
            blocks.append(TextBlock(f"Accuracy against iterations, {data.name}: {words}"))
    return blocks


def draw(result: CellResult) -> FigureBlock:
    """Draw the two panels of one cell.

    Parameters
    ----------
    result : CellResult
        Of the task "iterations".
    """
    import pandas as pd

    from hgkt.experiments import style

    steps, stop = result.arrays["steps"], int(result.values["stop"])
    frame = pd.DataFrame({"step": steps})
    with style.styled():
        drawing, axes = style.figure(6.8, 3.1, columns=2, sharey=True)
        titles = {"validation": "Validation classes", "test": "Test (looked at, not used)"}
        for axis, (part, title) in zip(axes, titles.items(), strict=True):
            table = result.arrays[part]
            for index, name in enumerate(COLUMNS):
                label = _WORDS[name] if part == "validation" else None
                axis.plot(steps, table[:, index], label=label, **style.series(index))
                frame[f"{part}_{name}"] = table[:, index]
            _mark_stop(axis, steps, table, stop, part == "validation")
            axis.set_title(title)
            axis.set_xlabel("iteration")
        axes[0].set_ylabel("accuracy, %")
        axes[0].set_ylim(0, 100)
        drawing.legend(loc="outside lower center", ncols=4)
    data = result.cell.data.name
    return FigureBlock(
        slug("figure-iterations", data),
        f"Accuracy against iterations, {data}",
        drawing,
        frame,
        f"The paper's network at the preset's μ and k. Training stops after {stop} iterations, "
        "where H is highest on the validation fold; the network of the right panel is trained on "
        "all seen classes, and its test accuracy is only looked at. The paper shows test accuracy "
        "and does not say how it stops.",
        (result.cell.key,),
    )


def _mark_stop(axis: Any, steps: Any, table: Any, stop: int, labelled: bool) -> None:
    from hgkt.experiments import style

    row = steps.tolist().index(stop)
    axis.axvline(stop, color=style.MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    axis.plot(
        [stop], [table[row, 2]], "*", color=style.INK, markersize=12, linestyle="none", zorder=5,
        label="stop, chosen on validation" if labelled else None,
    )  # fmt: skip
    late = stop > 0.7 * steps[-1]  # then the words go to the left, into the panel
    axis.annotate(
        f"H {table[row, 2]:.1f}", (stop, table[row, 2]), xytext=(-8 if late else 7, 5),
        ha="right" if late else "left", textcoords="offset points", color=style.INK, fontsize=8,
    )  # fmt: skip


EXPERIMENT = Experiment(
    "Accuracy against iterations",
    "The paper's figure of test accuracy against the number of iterations, from which it concludes "
    "that training converges quickly. Here the same curves for validation classes stand beside "
    "them, and they alone decide when to stop.",
    plan,
    render,
)
