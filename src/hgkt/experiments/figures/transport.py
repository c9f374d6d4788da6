"""What the optimal transport gives: exact barycenters against Sinkhorn's, channels permuted."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from hgkt.experiments.base import Cell, CellResult, Context, DataSpec
from hgkt.experiments.blocks import Block, Experiment, FigureBlock, Outcome, Plan, TableBlock, Value
from hgkt.experiments.figures import style
from hgkt.experiments.tables.rows import PAPER
from hgkt.experiments.tasks.representatives import shared_edges

_REGS: tuple[float, ...] = (1e-2, 1e-3)


# ---------------------------------------------------------------------- barycenters
def _plan_barycenters(context: Context) -> Plan:
    sizes: dict[str, Any] = {"n_classes": 8, "n_instances": 25, "max_iter": 200, "work": 4e9}
    params, regs = {}, _REGS
    if context.quick:
        sizes = {"n_classes": 3, "n_instances": 12, "max_iter": 60, "work": 5e7}
        params, regs = {"n_steps": 50}, _REGS[:1]
    return {
        data.name: [
            Cell("barycenters", data, PAPER.method, "", params, 0,
                 {**sizes, "reg": reg})
            for reg in regs
        ]
        for data in context.data
    }  # fmt: skip


def _render_barycenters(outcome: Outcome) -> list[Block]:
    found = outcome.good(*outcome.plan)
    if not found:
        return [outcome.nothing("Barycenters", *outcome.plan)]
    rows: list[list[Value | str]] = []
    drawings: list[Block] = []
    for data in outcome.context.data:
        ran = {k: r for k in outcome.keys(data.name) if (r := outcome.results[k]).ok}
        if not ran:
            rows.append([data.name, outcome.why(data.name), *[Value()] * 5])
            continue
        rows.append(_solver_row(data, "exact", "exact", *next(iter(ran.items()))))
        rows += [_solver_row(data, _solver(r), "sinkhorn", key, r) for key, r in ran.items()]
        drawings.append(_draw_barycenters(data, list(ran.values()), tuple(ran)))
    columns = ["Data", "Solver", "W₂² objective", "Time per class, ms", "Same representative, %",
               "Same kNN edges, %", "H, %"]  # fmt: skip
    title = "Exact barycenter and Sinkhorn"
    return [TableBlock("ablation-barycenter", title, columns, rows, _note(found)), *drawings]


def _solver(result: CellResult) -> str:
    return f"Sinkhorn, ε = {result.values['reg']:g}"


def _solver_row(
    data: DataSpec, label: str, solver: str, key: str, result: CellResult
) -> list[Value | str]:
    part = result.values[solver]
    milliseconds = 1000.0 * part["seconds"]
    same = [
        (result.values[name] if solver == "sinkhorn" else None, ".0f")
        for name in ("same_representative", "same_edges")
    ]
    numbers = [
        (part["objective"], ".4g"),
        (milliseconds, ",.3g" if milliseconds < 100 else ",.0f"),
        *same,
        (part["H"], ".1f"),
    ]
    return [data.name, label, *(Value(x, n=1, keys=(key,), form=form) for x, form in numbers)]


def _note(found: list[CellResult]) -> str:
    sizes = {
        result.cell.data.name: (
            f"{result.cell.data.name}: {result.values['n_classes']} of "
            f"{result.values['n_seen']} classes, at most {result.values['n_instances']} instances "
            f"each, at most {result.values['max_iter']} iterations "
            f"({result.values['converged']:.0f} % of classes converged at "
            f"ε = {result.values['reg']:g})"
        )
        for result in found
    }
    return (
        "Objective: mean exact W₂² (in squared channels) of the histograms to the barycenter; the "
        "exact one is the lowest there is. ε is relative to the largest cost; the paper's 1e-5 on "
        "the raw cost makes Sinkhorn's kernel the identity. Representatives are the instances "
        "nearest by the exact distance; edges: the k = 2 neighbours of these classes among all. "
        "H: the network with each set of representatives, the rest of the classes the same, not "
        "calibrated. Times: wall clock, of a run that may have shared the machine. "
        + "; ".join(sizes.values())
        + "."
    )


def _draw_barycenters(data: DataSpec, ran: list[CellResult], keys: tuple[str, ...]) -> FigureBlock:
    curves = {"exact": ran[0].arrays["barycenters"][0]}
    curves |= {_solver(result): result.arrays["barycenters"][1] for result in ran}
    with style.styled():
        drawing, axis = style.figure(6.4, 2.6)
        # In a wide space single channels are not seen, and running masses lie on each other.
        exact = curves["exact"].cumsum()
        for index, (label, histogram) in enumerate(curves.items()):
            apart = 100 * (histogram.cumsum() - exact)
            axis.plot(apart, label=label, **style.series(index, marker=False))
        axis.set(xlabel="channel", ylabel="mass up to channel,\n% over the exact one")
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return FigureBlock(
        f"ablation-barycenter-{data.name}",
        f"Barycenters of one class, {data.name}",
        drawing,
        pd.DataFrame(curves),
        "How much more of its mass each solver's barycenter of the same instances has up to a "
        "channel than the exact one has.",
        keys,
    )


# ---------------------------------------------------------------------- permuted channels
def _plan_permutations(context: Context) -> Plan:
    n_runs = 2 if context.quick else 5
    params = {"n_steps": 50} if context.quick else {}

    def cell(data: DataSpec, seed: int, permutation: int) -> Cell:
        options = {"permutation": permutation}
        return Cell("permutation", data, PAPER.method, "", params, seed, options)

    plan: dict[Any, list[Cell]] = {}
    for data in context.data:
        plan[data.name, "given"] = [cell(data, seed, 0) for seed in range(n_runs)]
        plan[data.name, "permuted"] = [cell(data, 0, number + 1) for number in range(n_runs)]
    return plan


def _render_permutations(outcome: Outcome) -> list[Block]:
    rows = [row for data in outcome.context.data for row in _permutation_rows(outcome, data)]
    if not rows:
        return [outcome.nothing("Permutations", *outcome.plan)]
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


def _permutation_rows(outcome: Outcome, data: DataSpec) -> list[list[Value | str]]:
    given, permuted = (data.name, "given"), (data.name, "permuted")
    base, others = outcome.good(given), outcome.good(permuted)
    keys = outcome.keys(permuted)
    rows: list[list[Value | str]] = []
    if outcome.ran(given):
        same = [Value(100.0, form=".0f")] * 2
        label = "as given, other seeds"
        rows.append([data.name, label, str(len(base)), *same, outcome.value(given, "H")])
    if outcome.ran(permuted):
        same = _agreement([(base[0], other) for other in others] if base else [], keys)
        rows.append([data.name, "permuted", str(len(others)), *same, outcome.value(permuted, "H")])
    if len(others) > 1:
        same = _agreement(list(combinations(others, 2)), keys)
        rows.append([data.name, "permuted, among each other", str(len(others)), *same, Value()])
    return rows


def _agreement(pairs: list[tuple[CellResult, CellResult]], keys: tuple[str, ...]) -> list[Value]:
    """Return how many representatives and edges pairs of runs have in common, in percent."""
    arrays = [(a.arrays, b.arrays) for a, b in pairs]
    same = [100.0 * float(np.mean(a["representatives"] == b["representatives"])) for a, b in arrays]
    edges = [shared_edges(a["neighbors"], b["neighbors"]) for a, b in arrays]
    return [
        Value(float(np.mean(found)), n=len(found), keys=keys, form=".0f") if found else Value()
        for found in (same, edges)
    ]


BARYCENTERS = Experiment(
    "Exact barycenter and Sinkhorn",
    "Beyond the paper, which approximates the Wasserstein barycenter by Sinkhorn's iteration with "
    "ε = 1e-5. On its ground cost, squared distance between channels, the barycenter has a closed "
    "form. Does the approximation choose the same representatives, the same edges, the same H, "
    "and what does it cost?",
    _plan_barycenters,
    _render_barycenters,
)
PERMUTATIONS = Experiment(
    "Order of the channels",
    "Beyond the paper. Its ground cost is the distance between channel numbers, but the channels "
    "of a network's features come in no order. If the Wasserstein choice meant something, it "
    "should survive a permutation of the channels; the Euclidean choice does by definition.",
    _plan_permutations,
    _render_permutations,
)
