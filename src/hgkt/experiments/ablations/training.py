"""Training on the quotient of the graph against training with sampled neighbours."""

from __future__ import annotations

from typing import Any

from hgkt.experiments.ablations._common import NOTHING, good, missing_words, slug
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
from hgkt.experiments.tables._results import value

_MODES = {"quotient": "quotient (exact)", "sampled": "sampled neighbours"}
_COLUMNS = (
    "Data", "Training", "Steps", "Loss above its floor", "ms a step", "s an epoch", "ts", "tr", "H",
)  # fmt: skip


def cells_of(context: Context, data: DataSpec, mode: str) -> list[Cell]:
    """Return the cell of one way to train.

    Parameters
    ----------
    context : Context
        What the run is about.
    data : DataSpec
        The data set.
    mode : {"quotient", "sampled"}
        How.
    """
    steps = [1, 25, 50, 100] if context.quick else [1, 50, 100, 200, 300]
    drawn = 10 if context.quick else 50
    params: dict[str, Any] = {"n_sampled": None if mode == "quotient" else drawn}
    return [Cell("training", data, "hgkt", "paper", params, 0, {"steps": steps})]


def plan(context: Context) -> list[Cell]:
    """Return the cells of all data sets.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [c for data in context.data for mode in _MODES for c in cells_of(context, data, mode)]


def render(context: Context, results: Results) -> list[Block]:
    """Make the table and, for each data set, the curves of loss and H.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    rows = [_row(context, results, data, mode) for data in context.data for mode in _MODES]
    note = (
        "Both start from the same weights and do the same number of Adam steps at the preset's "
        "parameters. Loss: exact, over all instances, in both cases; its floor is the scatter "
        "within classes, which no weight can change. A quotient step sees every instance, so a "
        "step is an epoch; a sampled one sees a batch of 64 with S = 50 drawn "
        "neighbours each. ts, tr, H in percent after the last "
        "step, not calibrated. Times: wall clock, of a run that may have shared the machine."
    )
    if context.quick:
        note += " Quick run: batches of 16, S = 10."
    table = TableBlock("ablation-training", "Exact and sampled training", _COLUMNS, rows, note)
    return [table, *(_drawing(context, results, data) for data in context.data)]


def _row(context: Context, results: Results, data: DataSpec, mode: str) -> list[Value | str]:
    cells = cells_of(context, data, mode)
    accuracies = [value(results, cells, name) for name in ("ts", "tr", "H")]
    found = good(results, cells)
    if not found:
        return [data.name, _MODES[mode], *["–"] * 4, *accuracies]
    values, keys = found[0].values, (cells[0].key,)
    excess = values["loss"] - values["constant"]
    step, epoch = values["seconds_per_step"], values["steps_per_epoch"]
    return [
        data.name,
        _MODES[mode],
        str(int(found[0].arrays["steps"][-1])),
        Value(f"{excess:.4g}", excess, keys=keys),
        Value(f"{1000 * step:.3g}", 1000 * step, keys=keys),
        Value(f"{step * epoch:.3g}", step * epoch, keys=keys),
        *accuracies,
    ]


def _drawing(context: Context, results: Results, data: DataSpec) -> Block:
    import pandas as pd

    from hgkt.experiments import style

    runs = {mode: good(results, cells_of(context, data, mode)) for mode in _MODES}
    title = f"Exact and sampled training, {data.name}"
    if not any(runs.values()):
        cells = [cell for mode in _MODES for cell in cells_of(context, data, mode)]
        return TextBlock(f"{title}: {missing_words(results, cells)}")
    frames = []
    with style.styled():
        drawing, (left, right) = style.figure(6.8, 3.0, columns=2)
        for index, (mode, found) in enumerate(runs.items()):
            for result in found:
                steps = result.arrays["steps"]
                excess = result.arrays["losses"] - result.values["constant"]
                look = style.series(index)
                left.plot(steps, excess, label=_MODES[mode], **look)
                right.plot(steps, result.arrays["H"], **look)
                frames.append(
                    pd.DataFrame({"training": mode, "step": steps, "loss": excess,
                                  "H": result.arrays["H"]})
                )  # fmt: skip
        left.set(xlabel="step", ylabel="loss above its floor", yscale="log")
        left.set_title("Exact loss")
        right.set(xlabel="step", ylabel="H on test, %")
        right.set_ylim(0, max(5.0, 1.1 * right.get_ylim()[1]))
        right.set_title("Harmonic mean")
        drawing.legend(loc="outside lower center", ncols=2)
    return FigureBlock(
        slug("ablation-training", data.name),
        title,
        drawing,
        pd.concat(frames, ignore_index=True),
        "The sampled mean is a noisy estimate of the exact one; test accuracy is only looked at.",
        tuple(result.cell.key for found in runs.values() for result in found),
    )


EXPERIMENT = Experiment(
    "Exact and sampled training",
    "Beyond the paper, which trains by mini-batches with S = 50 drawn neighbours. All instances "
    "of a class share one attribute vector, so the graph collapses, without loss, to two rows a "
    "class and the loss to class means: a step over all instances costs less than a mini-batch.",
    plan,
    render,
)
