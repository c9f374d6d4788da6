"""Evaluate what documentation shows and keep it in docs/results/cells.

    python benchmarks/cells.py --root DATA [--report hgkt-report] [--jobs 2] [--device auto]
                               [--data CUB,AWA1,digits] [--methods hgkt,dem] [--seeds 1]

Cells that the store of the report holds are taken from there, so that a run of `hgkt reproduce` is
not made twice; the others run now, by the same engine and into the same store. What is kept has
neither arrays nor the path of the data. Results of other mathematics than the installed method's
or another protocol are made anew. The longest cells start first; every result is kept as soon as
it is there, so that a run which is stopped goes on where it was. hgkt need not be installed: numpy,
scipy, scikit-learn, joblib and, for networks, torch are enough. Then `make tables` shows the new
numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from _script import FEATURES, RESULTS, arguments, without_installation

without_installation()

from page_tables.shown import CLOSED_FORM, Evaluation, everything  # noqa: E402

if TYPE_CHECKING:
    from hgkt.experiments.plan import Cell, CellResult, DataSpec
    from hgkt.experiments.run import RunState

KEPT = RESULTS / "cells"


def cells_of(asked: Evaluation, root: str) -> list[Cell]:
    """Return the cells of an evaluation, one per seed, as `hgkt reproduce` would plan them."""
    from hgkt.experiments.plan import Cell

    # What the report calls the closed form; it is part of a cell's key.
    preset = "default" if asked.method == CLOSED_FORM else asked.preset
    options = {"select": True, **asked.options}
    data = _spec(asked.data, asked.attributes, root)
    return [
        Cell("evaluate", data, asked.method, preset, dict(asked.params), seed, options)
        for seed in range(asked.n_seeds)
    ]


@cache
def _spec(name: str, attributes: str, root: str) -> DataSpec:
    from hgkt.experiments import discover

    return discover(root, [name], FEATURES.get(name, ""), attributes).data[0]


def kept(result: CellResult) -> CellResult:
    """Return a result as it is committed: no arrays, no path of this machine."""
    cell = replace(result.cell, data=replace(result.cell.data, location=result.cell.data.name))
    return replace(result, cell=cell, arrays={})


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing and keep it."""
    from hgkt.experiments.run import run_cells
    from hgkt.experiments.store import ResultStore

    parser = arguments(__doc__)
    parser.add_argument("--report", type=Path, default=Path("hgkt-report"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", default="CUB,AWA1,digits")
    parser.add_argument("--methods", default="", help="comma-separated; by default all")
    parser.add_argument("--seeds", type=int, help="only so many of each evaluation; by default all")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where results are kept")
    parser.add_argument("--list", action="store_true", help="only say what is missing")
    args = parser.parse_args(given)
    sets, methods = args.data.split(","), args.methods.split(",") if args.methods else []
    wanted = [e for e in everything() if e.data in sets and (not methods or e.method in methods)]
    cells = [cell for asked in wanted for cell in cells_of(asked, args.root)[: args.seeds]]
    store, committed = ResultStore(args.report / "cells"), ResultStore(args.kept)
    there = committed.load(cells)
    missing = [cell for cell in cells if cell.key not in there]
    print(f"{len(cells)} cells, {len(there)} there, {len(missing)} to make", file=sys.stderr)
    if args.list:
        print("\n".join(cell.label for cell in missing))
        return

    def tell(state: RunState) -> None:
        if state.last is not None:
            said = state.last.error or f"{state.last.seconds:.0f} s"
            line = f"{state.n_done}/{state.n_total} {state.last.cell.label}: {said}"
            print(line, file=sys.stderr, flush=True)
            if state.last.ok:
                committed.put(kept(state.last))

    for result in store.load(missing).values():  # what an earlier run made is not told again
        if result.ok:
            committed.put(kept(result))
    found = run_cells(missing, store, n_jobs=args.jobs, device=args.device, progress=tell)
    n_good = sum(result.ok for result in found.values())
    print(f"{n_good} results new, {len(there)} there, {len(found) - n_good} failed")


if __name__ == "__main__":
    main()
