"""Three ways to select the representative of a class."""

from __future__ import annotations

from typing import Any

from hgkt.experiments.ablations._common import (
    NOTE,
    NOTHING,
    PAPER,
    Variant,
    missing_words,
    numbers_of,
    plan_variants,
    variants_table,
)
from hgkt.experiments.base import (
    Block,
    Cell,
    Context,
    Experiment,
    FigureBlock,
    Results,
    TextBlock,
    mean_std,
)

_VARIANTS = (
    Variant("Wasserstein barycenter", PAPER),
    Variant("Euclidean barycenter", PAPER, {"representative": "euclidean"}),
    Variant("random", PAPER, {"representative": "random"}),
)


def plan(context: Context) -> list[Cell]:
    """Return the cells of the three ways.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return plan_variants(context, _VARIANTS)


def render(context: Context, results: Results) -> list[Block]:
    """Make the paper's bar chart of H and the table.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    table = variants_table(
        "ablation-selection",
        "Selection of representatives",
        "Representative",
        context,
        results,
        _VARIANTS,
        f"{NOTE} A seed draws initial weights, folds and random representatives.",
    )
    return [_bars(context, results), table]


def _bars(context: Context, results: Results) -> Block:
    import pandas as pd

    from hgkt.experiments import style

    lines: list[dict[str, Any]] = []
    keys: list[str] = []
    for data in context.data:
        for variant in _VARIANTS:
            cells = variant.cells(context, data)
            numbers = numbers_of(results, cells, "H")
            keys += [cell.key for cell in cells if cell.key in results]
            if numbers:
                mean, std = mean_std(numbers)
                lines.append(
                    {"data": data.name, "representative": variant.label, "H": mean,
                     "H_std": std or 0.0, "n_seeds": len(numbers)}
                )  # fmt: skip
    if not lines:
        return TextBlock(f"Figure of H: {missing_words(results, plan(context))}")
    frame = pd.DataFrame(lines)
    sets = [data.name for data in context.data if data.name in set(frame["data"])]
    with style.styled():
        drawing, axis = style.figure(max(3.6, 1.6 + 1.3 * len(sets)), 3.2)
        for index, variant in enumerate(_VARIANTS):
            part = frame[frame["representative"] == variant.label]
            places = [sets.index(name) + 0.26 * (index - 1) for name in part["data"]]
            axis.bar(
                places, part["H"], 0.23, yerr=part["H_std"], label=variant.label,
                color=style.colour(index), hatch=("", "//", "..")[index], edgecolor=style.PAPER,
                error_kw={"capsize": 3, "ecolor": style.INK, "elinewidth": 0.9},
            )  # fmt: skip
        axis.set_xticks(range(len(sets)), sets)
        axis.set_ylabel("H, %")
        axis.grid(axis="x", visible=False)
        axis.set_xlim(-0.6, len(sets) - 0.4)
        drawing.legend(loc="outside lower center", ncols=2)
    return FigureBlock(
        "ablation-selection-figure",
        "Harmonic mean of three ways to select representatives",
        drawing,
        frame,
        "Bars: mean over seeds; whiskers: standard deviation.",
        tuple(keys),
    )


EXPERIMENT = Experiment(
    "Selection of representatives",
    "The paper's figure of three ways to select the representative of a class: nearest to the "
    "Wasserstein barycenter, nearest to the mean, or at random; it reports a significant drop for "
    "random ones, without numbers. With the squared loss a representative enters the network only "
    "through the kNN graph between classes.",
    plan,
    render,
)
