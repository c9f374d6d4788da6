"""Every method on the real data sets, selected on validation classes.

python benchmarks/methods.py --root DATA [--seeds 3] [--jobs 2] [--methods a,b] [--data CUB]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _cells import Cell, markdown, run_cells

SETS = [("CUB", "efflite2", "att"), ("AWA1", "rgsift", "att"), ("CUB", "efflite2", "sent"),
        ("CUB", "efflite2", "att+sent")]  # fmt: skip
ABLATIONS = [("no intra-class relation", {"intra": False}),
             ("no inter-class relation", {"inter": False})]  # fmt: skip


def cells_of(args: argparse.Namespace) -> list[Cell]:
    """Return the evaluations asked for."""
    from hgkt.estimators import METHODS

    wanted = args.methods.split(",") if args.methods else list(METHODS)
    cells = []
    for data, features, attributes in SETS:
        if args.data and args.data != data:
            continue
        for method in wanted:
            if method != "hgkt" and attributes != "att":
                continue
            random = "random_state" in METHODS.load(method)().get_params()
            seeds = args.seeds if random or method == "hgkt" else 1
            label = method if attributes == "att" else f"{method}, {attributes}"
            for seed in range(seeds):
                cells.append(Cell(label, method, data, features, attributes, seed))
                if method == "hgkt":
                    for name, params in ABLATIONS:
                        cells.append(
                            Cell(f"{label}, {name}", method, data, features, attributes, seed,
                                 params=params)
                        )  # fmt: skip
    return cells


def main() -> None:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--out", type=Path, default=Path("docs/results/methods.jsonl"))
    args = parser.parse_args()
    rows = run_cells(cells_of(args), args.root, args.out, args.jobs, args.device)
    print(markdown(rows))


if __name__ == "__main__":
    main()
