"""What each open choice of the paper does: HGKT's network with one choice changed at a time.

    python benchmarks/choices.py --root DATA [--seeds 3] [--jobs 2] [--device auto] [--out FILE]

μ, k and the number of steps are selected on validation classes for every row.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from _cells import Cell, markdown, run_cells

SETS = [("CUB", "efflite2"), ("AWA1", "rgsift")]
CHOICES = [
    ("paper preset", {}, "att"),
    ("loss nodes: instance", {"loss_nodes": "instance"}, "att"),
    ("loss nodes: representative", {"loss_nodes": "representative"}, "att"),
    ("aggregation: per-type", {"aggregation": "per-type"}, "att"),
    ("aggregation: inter-only", {"aggregation": "inter-only"}, "att"),
    ("unseen kNN: visual space", {"unseen_space": "visual"}, "att"),
    ("attributes: original_att", {}, "original_att"),
    ("loss scale: mean over D", {"loss_reduction": "mean"}, "att"),
    ("test metric: cosine", {"metric": "cosine"}, "att"),
    ("graph space: attributes", {"graph_space": "attributes"}, "att"),
    ("representative: euclidean", {"representative": "euclidean"}, "att"),
    ("representative: random", {"representative": "random"}, "att"),
    ("output: relu", {"output_activation": "relu"}, "att"),
    ("no intra-class edges", {"intra": False}, "att"),
    ("no inter-class edges", {"inter": False}, "att"),
]


def main() -> None:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("docs/results/choices.jsonl"))
    args = parser.parse_args()
    cells = [
        Cell(label, "hgkt", data, features, attributes, seed, "paper", params)
        for data, features in SETS
        for seed in range(args.seeds)
        for label, params, attributes in CHOICES
    ]
    rows = run_cells(cells, args.root, args.out, args.jobs, args.device)
    rows.sort(key=lambda row: [data for data, _ in SETS].index(row["data_name"]))
    print(markdown(rows))


if __name__ == "__main__":
    main()
