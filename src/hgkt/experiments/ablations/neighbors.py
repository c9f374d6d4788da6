"""The number of neighbours k."""

from __future__ import annotations

from hgkt.experiments.ablations._common import (
    DEFAULT,
    NOTHING,
    PAPER,
    plan_variants,
    slug,
)
from hgkt.experiments.ablations._sweeps import STEPS_ONLY, Sweep, sweep_block
from hgkt.experiments.base import Block, Cell, Context, Experiment, Results


def sweeps(context: Context) -> list[Sweep]:
    """Return the two curves: k of the network and k of the closed form's kNN kernel.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    values = (1, 2, 5) if context.quick else (1, 2, 5, 10, 50)
    return [
        Sweep(
            "HGKT, paper: neighbours in the graph",
            "k",
            "n_neighbors",
            values,
            PAPER,
            options=STEPS_ONLY,
        ),
        Sweep(
            "HGKT: kernel cut to neighbours",
            "k",
            "n_neighbors",
            values,
            DEFAULT,
            {"kernel": "knn"},
            {"select": False},
        ),
    ]


def plan(context: Context) -> list[Cell]:
    """Return one cell a value, data set and seed.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return plan_variants(context, [v for sweep in sweeps(context) for v in sweep.variants()])


def render(context: Context, results: Results) -> list[Block]:
    """Draw the curves for each data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    note = (
        "k is cut to the number of other seen classes. Network: μ = 0.5, number of steps chosen "
        "on validation classes for each k. Closed form: a kernel that is zero beyond the k "
        "nearest classes, which the default kernel is not; γ from validation classes. The "
        "validation score is H for the network and AUSUC, which no γ changes, for the closed form; "
        "the star is its choice. Test accuracies are shown, not used."
    )
    return [
        sweep_block(
            slug("ablation-k", data.name),
            f"Number of neighbours, {data.name}",
            context,
            results,
            data,
            sweeps(context),
            note,
        )
        for data in context.data
    ]


EXPERIMENT = Experiment(
    "Number of neighbours k",
    "The paper takes the same k in the graph and for unseen classes, chooses it from 1, 2, 5, 10 "
    "and 50, and finds 2 the best; it prints no curve.",
    plan,
    render,
)
