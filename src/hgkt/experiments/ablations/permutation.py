"""Does the order of the feature channels matter to the Wasserstein choice?"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from hgkt.experiments.ablations._common import NOTHING, good, missing_words, numbers_of
from hgkt.experiments.base import (
    Block,
    Cell,
    CellResult,
    Context,
    DataSpec,
    Experiment,
    Results,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.tables._results import value
from hgkt.experiments.task_representatives import shared_edges


def cells_of(context: Context, data: DataSpec) -> tuple[list[Cell], list[Cell]]:
    """Return the cells of the given order, one a seed, and those of permuted channels.

    Parameters
    ----------
    context : Context
        What the run is about.
    data : DataSpec
        The data set.
    """
    n_runs, steps = (2, 200) if context.quick else (5, 400)

    def cell(seed: int, permutation: int) -> Cell:
        options = {"permutation": permutation}
        return Cell("permutation", data, "hgkt", "paper", {"n_steps": steps}, seed, options)

    given = [cell(seed, 0) for seed in range(n_runs)]
    return given, [cell(0, number) for number in range(1, n_runs + 1)]


def plan(context: Context) -> list[Cell]:
    """Return the cells of all data sets.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [c for data in context.data for part in cells_of(context, data) for c in part]


def render(context: Context, results: Results) -> list[Block]:
    """Make the table.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    rows: list[list[Value | str]] = []
    for data in context.data:
        rows += _rows(context, results, data)
    if not rows:
        return [TextBlock(f"Permutations: {missing_words(results, plan(context))}")]
    columns = ["Data", "Channels", "Runs", "Same representative, %", "Same kNN edges, %", "H, %"]
    note = (
        "Same: as with the channels as given, mean over permutations; chance alone gives about one "
        "in N_c of the representatives (a class has N_c instances) and k/(L − 1) of the edges (L "
        "classes, k = 2). The given order has other seeds of the initial weights, so that the "
        "spread of H has a measure. The whole feature matrix is permuted: class means and the "
        "network do not care, but the output's initial weights are then another draw, as with "
        "another seed. Preset's μ and k, fixed number of steps, not calibrated."
    )
    return [TableBlock("ablation-permutation", "Order of the channels", columns, rows, note)]


def _rows(context: Context, results: Results, data: DataSpec) -> list[list[Value | str]]:
    given, permuted = cells_of(context, data)
    base, others = good(results, given), good(results, permuted)
    rows: list[list[Value | str]] = []
    if base or numbers_of(results, given, "H") or any(c.key in results for c in given):
        h = value(results, given, "H")
        rows.append([data.name, "as given, other seeds", str(len(base)), "100", "100", h])
    if any(cell.key in results for cell in permuted):
        agreement: list[Value | str] = ["–", "–"]
        if base and others:
            reference = base[0].arrays
            same = [
                100.0 * float(np.mean(o.arrays["representatives"] == reference["representatives"]))
                for o in others
            ]
            edges = [shared_edges(o.arrays["neighbors"], reference["neighbors"]) for o in others]
            keys = tuple(o.cell.key for o in others)
            agreement = [_percent(numbers, keys) for numbers in (same, edges)]
        h = value(results, permuted, "H")
        rows.append([data.name, "permuted", str(len(others)), *agreement, h])
    if len(others) > 1:
        rows.append([data.name, "permuted, among each other", str(len(others)), *_pairs(others)])
    return rows


def _pairs(others: list[CellResult]) -> list[Value | str]:
    pairs = list(combinations([o.arrays for o in others], 2))
    same = [100.0 * float(np.mean(a["representatives"] == b["representatives"])) for a, b in pairs]
    edges = [shared_edges(a["neighbors"], b["neighbors"]) for a, b in pairs]
    keys = tuple(o.cell.key for o in others)
    return [_percent(same, keys), _percent(edges, keys), "–"]


def _percent(numbers: list[float], keys: tuple[str, ...]) -> Value:
    mean = float(np.mean(numbers))
    return Value(f"{mean:.0f}", mean, float(np.std(numbers)), keys=keys)


EXPERIMENT = Experiment(
    "Order of the channels",
    "Beyond the paper. Its ground cost is the distance between channel numbers, but the channels "
    "of a network's features come in no order. If the Wasserstein choice meant something, it "
    "should survive a permutation of the channels; the Euclidean choice does by definition.",
    plan,
    render,
)
