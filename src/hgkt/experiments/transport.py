"""What exact transport gives: barycenters of the closed form against Sinkhorn's."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hgkt.data import GZSLDataset
from hgkt.experiments import style
from hgkt.experiments.blocks import Block, FigureBlock, Outcome, Plan, TableBlock, Value, experiment
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs
from hgkt.experiments.rows import PAPER
from hgkt.experiments.training import (
    final_fold,
    instances_of,
    neighbor_table,
    network_of,
    shared_edges,
    train_network,
)

if TYPE_CHECKING:
    from hgkt.calibration.folds import Instances

_REGS: tuple[float, ...] = (1e-2, 1e-3)


def _plan_barycenters(context: Context) -> Plan:
    sizes: dict[str, Any] = {"n_classes": 8, "n_instances": 25, "max_iter": 200, "work": 4e9}
    params, regs = {}, _REGS
    if context.quick:
        sizes = {"n_classes": 3, "n_instances": 12, "max_iter": 60, "work": 5e7}
        params, regs = {"n_steps": 50}, _REGS[:1]
    return {
        data.name: [
            Cell("barycenters", data, PAPER.method, params=params, options={**sizes, "reg": reg})
            for reg in regs
        ]
        for data in context.data
    }


@experiment("Exact barycenter and Sinkhorn", _plan_barycenters)
def barycenters(outcome: Outcome) -> list[Block]:
    """Beyond the paper, which approximates the Wasserstein barycenter by Sinkhorn's iteration with
    ε = 1e-5. On its ground cost, squared distance between channels, the barycenter has a closed
    form. Does the approximation choose the same representatives, the same edges, the same H, and
    what does it cost?
    """
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
        rows.append(_solver_row("exact", *next(iter(ran.items()))))
        rows += [_solver_row("sinkhorn", key, r) for key, r in ran.items()]
        drawings.append(_draw_barycenters(data, list(ran.values()), tuple(ran)))
    columns = ["Data", "Solver", "W₂² objective", "Time per class, ms", "Same representative, %",
               "Same kNN edges, %", "H, %"]  # fmt: skip
    sizes = "; ".join({r.cell.data.name: _sizes_text(r) for r in found}.values())
    return [
        TableBlock.of("ablation-barycenter", None, columns, rows, fill={"sizes": sizes}),
        *drawings,
    ]


def _solver(result: CellResult) -> str:
    return f"Sinkhorn, ε = {result.values['reg']:g}"


def _solver_row(solver: str, key: str, result: CellResult) -> list[Value | str]:
    values, part = result.values, result.values[solver]
    exact, milliseconds = solver == "exact", 1000.0 * part["seconds"]
    same = [None if exact else values[name] for name in ("same_representative", "same_edges")]
    numbers = [part["objective"], milliseconds, *same, part["H"]]
    forms = [".4g", ",.3g" if milliseconds < 100 else ",.0f", ".0f", ".0f", ".1f"]
    shown = [
        Value(number, n=1, keys=(key,), form=form)
        for number, form in zip(numbers, forms, strict=True)
    ]
    return [result.cell.data.name, "exact" if exact else _solver(result), *shown]


def _sizes_text(result: CellResult) -> str:
    return (
        "{name}: {n_classes} of {n_seen} classes, at most {n_instances} instances each, at most "
        "{max_iter} iterations ({converged:.0f} % of classes converged at ε = {reg:g})"
    ).format(name=result.cell.data.name, **result.values)


def _draw_barycenters(data: DataSpec, ran: list[CellResult], keys: tuple[str, ...]) -> FigureBlock:
    curves = {"exact": ran[0].arrays["barycenters"][0]}
    curves |= {_solver(result): result.arrays["barycenters"][1] for result in ran}
    with style.drawn(6.4, 2.6) as (drawing, axis):
        # In a wide space single channels are not seen, and running masses lie on each other.
        exact = curves["exact"].cumsum()
        for index, (label, histogram) in enumerate(curves.items()):
            apart = 100 * (histogram.cumsum() - exact)
            axis.plot(apart, label=label, **style.series(index, marker=False))
        axis.set(xlabel="channel", ylabel="mass up to channel,\n% over the exact one")
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return FigureBlock.of("ablation-barycenter", data, drawing, pd.DataFrame(curves), keys=keys)


@dataclass(frozen=True)
class Sizes:
    """How much of a data set Sinkhorn is given; its cost grows with all four.

    Parameters
    ----------
    n_classes, n_instances, max_iter : int
        At most so many classes, instances of a class and iterations.
    work : float
        At most so many kernel entries: classes × instances × iterations × D².
    """

    n_classes: int = 8
    n_instances: int = 40
    max_iter: int = 300
    work: float = 1e10

    def within(self, n_classes: int, n_features: int) -> Sizes:
        """Return sizes that keep to `work`: fewer classes first, then fewer instances.

        Examples
        --------
        >>> Sizes(8, 40, 100, work=1e8).within(10, 100)
        Sizes(n_classes=2, n_instances=40, max_iter=100, work=100000000.0)
        """
        one = float(self.max_iter) * n_features**2
        n_instances = int(np.clip(self.work / one / 2, 5, self.n_instances))
        affordable = int(self.work / (one * n_instances))
        n_kept = min(max(2, affordable), self.n_classes, n_classes)
        return Sizes(n_kept, n_instances, self.max_iter, self.work)


def run_barycenters(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Compare barycenters, the representatives next to them, the graph and the network.

    A representative is the instance of the class nearest to the barycenter by the exact distance,
    so that the barycenter alone is exchanged. Classes that Sinkhorn is not given keep their exact
    representative.

    Parameters
    ----------
    cell : Cell
        ``options``: those of `Sizes`, and ``reg``, the regularisation.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``exact`` and ``sinkhorn``: ``objective`` (mean W₂² of the histograms to the barycenter),
        ``seconds`` per class, ``metrics`` of the network; ``same_representative`` and
        ``same_edges`` in percent; the sizes and how many iterations ``converged``.
    arrays : dict of ndarray
        ``objectives`` (n_classes, 2), exact first; ``barycenters`` (2, D) of the first class.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> small = {"n_classes": 2, "n_instances": 5, "max_iter": 20, "reg": 0.01}
    >>> cell = Cell("barycenters", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_steps": 1, "n_hidden": 8}, options=small)
    >>> values, arrays = run_barycenters(cell, load_dataset("digits"))
    >>> bool((arrays["objectives"][:, 0] <= arrays["objectives"][:, 1]).all())
    True
    """
    from hgkt.transport import select_representatives

    fold = final_fold(dataset)
    model = network_of(cell, dataset)
    rows, n_seen = instances_of(fold), len(fold.classes)
    options = dict(cell.options)
    reg = float(options.pop("reg", 1e-3))
    sizes = Sizes(**options).within(n_seen, rows.X.shape[1])
    picked = np.sort(np.random.default_rng(cell.seed).permutation(n_seen)[: sizes.n_classes])
    classes = [_compare(rows, code, sizes, reg, cell.seed) for code in picked.tolist()]
    found = {name: np.array([part[name] for part in classes]) for name in classes[0]}
    exact = select_representatives(*rows, n_seen).indices
    entropic = exact.copy()
    # Both from the same instances: the barycenter is all that differs.
    exact[picked], entropic[picked] = found["rows"].T
    runs = [train_network(model, fold, (), chosen) for chosen in (exact, entropic)]
    tables = [neighbor_table(run.transfer.graph)[picked] for run in runs]
    values: dict[str, Any] = {
        **asdict(sizes),
        "n_seen": n_seen,
        "reg": reg,
        "converged": 100.0 * float(found["converged"].mean()),
        "same_representative": 100.0 * float(np.mean(exact[picked] == entropic[picked])),
        "same_edges": shared_edges(*tables),
    }
    for position, name in enumerate(("exact", "sinkhorn")):
        (metrics,) = runs[position].metrics.values()
        means = {
            "objective": float(found["objectives"][:, position].mean()),
            "seconds": float(found["seconds"][:, position].mean()),
        }
        values[name] = means | metrics.to_dict()
    return values, {"objectives": found["objectives"], "barycenters": found["centers"][0]}


def _compare(
    instances: Instances, code: int, sizes: Sizes, reg: float, seed: int
) -> dict[str, Any]:
    """Return what the solvers give on one class, the exact one first."""
    from hgkt.transport import entropic_barycenter, line_barycenter, line_distances, to_simplex

    members = np.flatnonzero(instances.codes == code)
    rng = np.random.default_rng([seed, code])
    members = np.sort(rng.permutation(members)[: sizes.n_instances])
    histograms = to_simplex(instances.X[members].astype(np.float64))
    sinkhorn = partial(entropic_barycenter, cost="squared", reg=reg, max_iter=sizes.max_iter)
    centers, times = [], [time.perf_counter()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for solve in (line_barycenter, sinkhorn):
            centers.append(solve(histograms))
            times.append(time.perf_counter())
    distances = np.array([line_distances(histograms, center) for center in centers])
    return {
        "centers": centers,
        "objectives": distances.mean(axis=1),
        "seconds": np.diff(times),
        "rows": members[distances.argmin(axis=1)],
        "converged": not any("converge" in str(warning.message) for warning in caught),
    }
