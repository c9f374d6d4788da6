"""The weight μ of the neighbours, and the ridge λ of the closed form."""

from __future__ import annotations

from hgkt.experiments.ablations._common import DEFAULT, NOTHING, PAPER, plan_variants, slug
from hgkt.experiments.ablations._sweeps import STEPS_ONLY, Sweep, sweep_block
from hgkt.experiments.base import Block, Cell, Context, Experiment, Results


def sweeps(context: Context) -> list[Sweep]:
    """Return the two curves: μ of the network and λ of the closed form.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [
        Sweep(
            "HGKT, paper: weight of neighbours",
            "μ",
            "mu",
            (0.01, 1.0) if context.quick else (0.01, 0.1, 0.5, 1.0),
            PAPER,
            options=STEPS_ONLY,
        ),
        Sweep(
            "HGKT: noise of class means",
            "ridge λ",
            "ridge",
            (0.003, 0.01, 0.03, 0.1, 0.3),
            DEFAULT,
            options={"select": False},
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
        "Network: k = 2, number of steps chosen on validation classes for each μ. Closed form: "
        "the rest at its default, γ from validation classes. The "
        "validation score is H for the network and AUSUC, which no γ changes, for the closed form; "
        "the star is its choice. Test accuracies are shown, not used."
    )
    return [
        sweep_block(
            slug("ablation-mu", data.name),
            f"Weight of the neighbours, {data.name}",
            context,
            results,
            data,
            sweeps(context),
            note,
        )
        for data in context.data
    ]


EXPERIMENT = Experiment(
    "Weight μ of the neighbours",
    "The paper chooses μ from 0.01, 0.1, 0.5 and 1 on validation classes and prints no curve. "
    "The counterpart in the closed form is λ: the larger, the more an embedding is made of other "
    "classes' means.",
    plan,
    render,
)
