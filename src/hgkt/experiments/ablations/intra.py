"""With and without the relation within classes."""

from __future__ import annotations

from hgkt.experiments.ablations._common import (
    DEFAULT,
    NOTE,
    NOTHING,
    PAPER,
    Variant,
    plan_variants,
    slug,
    variants_table,
)
from hgkt.experiments.ablations._sweeps import Sweep, sweep_block
from hgkt.experiments.base import Block, Cell, Context, Experiment, Results

_VARIANTS = (
    Variant("none", PAPER, {"intra": False}, "no intra"),
    Variant("complete graph", PAPER, {}, "with"),
    Variant("none (Euclidean metric)", DEFAULT, {"intra": False}),
    Variant("its metric", DEFAULT),
)
_SHRINKAGES = Sweep(
    "HGKT: how much of the in-class metric",
    "shrinkage s (1: none)",
    "shrinkage",
    (0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
    DEFAULT,
    options={"select": False},
)


def plan(context: Context) -> list[Cell]:
    """Return the cells with and without the relation, and those of the shrinkage's curve.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return plan_variants(context, [*_VARIANTS, *_SHRINKAGES.variants()])


def render(context: Context, results: Results) -> list[Block]:
    """Make the table and, for each data set, the curve over the shrinkage.

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
        "ablation-intra",
        "The relation within classes",
        "Intra-class",
        context,
        results,
        _VARIANTS,
        f"{NOTE} The second number is the paper's, with ResNet-101 features. The closed form "
        "is calibrated on validation classes, the network is not.",
    )
    curves = [
        sweep_block(
            slug("ablation-intra", data.name),
            f"Shrinkage of the in-class metric, {data.name}",
            context,
            results,
            data,
            [_SHRINKAGES],
            "Everything else at its default, γ from validation classes. At s = 1 nothing of the "
            "relation is left. The validation score is AUSUC; the star is its choice.",
        )
        for data in context.data
    ]
    return [table, *curves]


EXPERIMENT = Experiment(
    "Relation within classes",
    "Left half of the paper's ablation table. The paper joins all instances of a class to a "
    "complete graph and reports that accuracy falls without it. In the network the graph enters "
    "through a mean over neighbours; in the closed form the same graph is the within-class "
    "scatter, whose shrunk inverse is the metric of the visual space.",
    plan,
    render,
)
