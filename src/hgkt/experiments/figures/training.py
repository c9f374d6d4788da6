"""The paper's network along its training steps, and trained exactly or by sampling."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hgkt.experiments.base import Cell, Context, DataSpec
from hgkt.experiments.blocks import Block, Experiment, FigureBlock, Outcome, Plan, TableBlock, Value
from hgkt.experiments.figures import style
from hgkt.experiments.tables.rows import PAPER
from hgkt.experiments.tasks.training import COLUMNS

_STEPS = (1, 10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3600, 6000)
_QUICK_STEPS = (1, 25, 50, 100, 200, 400)
_ADAM = {"optimizer": "adam"}  # the paper's, of whose steps these figures are
_WORDS = {"ts": "unseen (ts)", "tr": "seen (tr)", "H": "H"}
_PANELS = {"validation": "Validation classes", "test": "Test (looked at, not used)"}
_MODES = {"quotient": "quotient (exact)", "sampled": "sampled neighbours"}


# ---------------------------------------------------------------------- iterations
def _plan_iterations(context: Context) -> Plan:
    options = {"steps": list(_QUICK_STEPS if context.quick else _STEPS)}
    return {
        data.name: [Cell("iterations", data, PAPER.method, "", _ADAM, options=options)]
        for data in context.data
    }


def _render_iterations(outcome: Outcome) -> list[Block]:
    return [_draw_iterations(outcome, data) for data in outcome.context.data]


def _draw_iterations(outcome: Outcome, data: DataSpec) -> Block:
    title, result = f"Accuracy against iterations, {data.name}", outcome.first(data.name)
    if result is None:
        return outcome.nothing(title, data.name)
    steps, stop = result.arrays["steps"], int(result.values["stop"])
    frame = pd.DataFrame({"step": steps})
    with style.styled():
        drawing, axes = style.figure(6.8, 3.1, columns=2, sharey=True)
        for axis, (part, words) in zip(axes, _PANELS.items(), strict=True):
            table = result.arrays[part]
            for index, name in enumerate(COLUMNS):
                label = _WORDS[name] if part == "validation" else None
                axis.plot(steps, table[:, index], label=label, **style.series(index))
                frame[f"{part}_{name}"] = table[:, index]
            _mark_stop(axis, steps, table, stop, part == "validation")
            axis.set(title=words, xlabel="iteration")
        axes[0].set_ylabel("accuracy, %")
        axes[0].set_ylim(0, 100)
        drawing.legend(loc="outside lower center", ncols=4)
    return FigureBlock(
        f"figure-iterations-{data.name}",
        title,
        drawing,
        frame,
        "The paper's network at the preset's μ and k, by the paper's Adam. Training stops "
        f"after {stop} iterations, where H is highest on the validation fold; the network of the "
        "right panel is trained on all seen classes, and its test accuracy is only looked at. The "
        "paper shows test accuracy and does not say how it stops.",
        outcome.keys(data.name),
    )


def _mark_stop(axis: Any, steps: Any, table: Any, stop: int, labelled: bool) -> None:
    height = table[steps.tolist().index(stop), 2]
    axis.axvline(stop, color=style.MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    axis.plot(
        [stop], [height], "*", color=style.INK, markersize=12, linestyle="none", zorder=5,
        label="stop, chosen on validation" if labelled else None,
    )  # fmt: skip
    late = stop > 0.7 * steps[-1]  # then the words go to the left, into the panel
    axis.annotate(
        f"H {height:.1f}", (stop, height), xytext=(-8 if late else 7, 5),
        ha="right" if late else "left", textcoords="offset points", color=style.INK, fontsize=8,
    )  # fmt: skip


# ---------------------------------------------------------------------- exact and sampled
def _plan_training(context: Context) -> Plan:
    steps = [1, 25, 50, 100] if context.quick else [1, 50, 100, 200, 300]
    n_sampled = {"quotient": None, "sampled": 10 if context.quick else 50}
    return {
        (data.name, mode): [
            Cell("training", data, PAPER.method, "", {**_ADAM, "n_sampled": n}, 0, {"steps": steps})
        ]
        for data in context.data
        for mode, n in n_sampled.items()
    }


def _render_training(outcome: Outcome) -> list[Block]:
    sets = outcome.context.data
    note = (
        "Both start from the same weights and do the same number of Adam steps at the preset's "
        "parameters. Loss: exact, over all instances, in both cases; its floor is the scatter "
        "within classes, which no weight can change. A quotient step sees every instance, so a "
        "step is an epoch; a sampled one sees a batch of 64 with S = 50 drawn "
        "neighbours each. ts, tr, H in percent after the last "
        "step, not calibrated. Times: wall clock, of a run that may have shared the machine."
    )
    if outcome.context.quick:
        note += " Quick run: S = 10."
    columns = ["Data", "Training", "Steps", "Loss above its floor", "ms per step", "s per epoch",
               "ts", "tr", "H"]  # fmt: skip
    rows = [_training_row(outcome, data, mode) for data in sets for mode in _MODES]
    table = TableBlock("ablation-training", "Exact and sampled training", columns, rows, note)
    return [table, *(_draw_training(outcome, data) for data in sets)]


def _training_row(outcome: Outcome, data: DataSpec, mode: str) -> list[Value | str]:
    slot = (data.name, mode)
    accuracies = [outcome.value(slot, name) for name in ("ts", "tr", "H")]
    result = outcome.first(slot)
    if result is None:
        return [data.name, _MODES[mode], *[Value()] * 4, *accuracies]
    values = result.values
    step = values["seconds_per_step"]
    numbers = [
        (float(result.arrays["steps"][-1]), ".0f"),
        (values["loss"] - values["constant"], ".4g"),
        (1000 * step, ".3g"),
        (step * values["steps_per_epoch"], ".3g"),
    ]
    told = [Value(number, n=1, keys=outcome.keys(slot), form=form) for number, form in numbers]
    return [data.name, _MODES[mode], *told, *accuracies]


def _draw_training(outcome: Outcome, data: DataSpec) -> Block:
    slots = {mode: (data.name, mode) for mode in _MODES}
    title = f"Exact and sampled training, {data.name}"
    if not outcome.good(*slots.values()):
        return outcome.nothing(title, *slots.values())
    frames = []
    with style.styled():
        drawing, (left, right) = style.figure(6.8, 3.0, columns=2)
        for index, (mode, slot) in enumerate(slots.items()):
            for result in outcome.good(slot):
                steps, h = result.arrays["steps"], result.arrays["H"]
                excess = result.arrays["losses"] - result.values["constant"]
                look = style.series(index)
                left.plot(steps, excess, label=_MODES[mode], **look)
                right.plot(steps, h, **look)
                frames.append(
                    pd.DataFrame({"training": mode, "step": steps, "loss": excess, "H": h})
                )
        left.set(title="Exact loss", xlabel="step", ylabel="loss above its floor", yscale="log")
        right.set(title="Harmonic mean", xlabel="step", ylabel="H on test, %")
        right.set_ylim(0, max(5.0, 1.1 * right.get_ylim()[1]))
        drawing.legend(loc="outside lower center", ncols=2)
    return FigureBlock(
        f"ablation-training-{data.name}",
        title,
        drawing,
        pd.concat(frames, ignore_index=True),
        "The sampled mean is a noisy estimate of the exact one; test accuracy is only looked at.",
        outcome.keys(*slots.values()),
    )


ITERATIONS = Experiment(
    "Accuracy against iterations",
    "The paper's figure of test accuracy against the number of iterations, from which it concludes "
    "that training converges quickly. Here the same curves for validation classes stand beside "
    "them, and they alone decide when to stop.",
    _plan_iterations,
    _render_iterations,
)
TRAINING = Experiment(
    "Exact and sampled training",
    "Beyond the paper, which trains by mini-batches with S = 50 drawn neighbours. All instances "
    "of a class share one attribute vector, so the graph collapses, without loss, to two rows per "
    "class and the loss to class means: a step over all instances costs less than a mini-batch.",
    _plan_training,
    _render_training,
)
