"""How far POT's barycenter solvers end from the optimum where the weights are not equal.

python benchmarks/unequal_weights.py [--out FILE]
"""

from __future__ import annotations

import numpy as np
import ot

from _script import arguments, write_record
from hgkt.transport import line_barycenter, line_distances

N_BINS, WEIGHTS, N_ITERATIONS = 15, np.array([0.3, 0.7]), 20_000
SOLVERS, REGS = ("sinkhorn", "sinkhorn_stabilized", "sinkhorn_log"), (1e-2, 1e-3)


def main() -> None:
    """Solve for two bumps on a line and write the record."""
    args = arguments(__doc__, "unequal_weights", root=False).parse_args()
    bins = np.arange(N_BINS, dtype=float)
    bumps = np.exp(-((bins - np.array([[3.0], [11.0]])) ** 2) / 2)
    bumps /= bumps.sum(axis=1, keepdims=True)
    best = WEIGHTS @ line_distances(bumps, line_barycenter(bumps, weights=WEIGHTS))
    cost = np.subtract.outer(bins, bins) ** 2
    rows = []
    for solver in SOLVERS:
        for reg in REGS:
            with np.errstate(all="ignore"):
                center = ot.bregman.barycenter(
                    bumps.T, cost / cost.max(), reg, WEIGHTS, method=solver,
                    numItermax=N_ITERATIONS, stopThr=0.0, warn=False,
                )  # fmt: skip
            mass = center.sum()
            objective = WEIGHTS @ line_distances(bumps, center / mass)
            rows.append({"solver": solver, "reg": reg, "mass": mass, "ratio": objective / best})
    about = {"n_bins": N_BINS, "weights": WEIGHTS, "n_iterations": N_ITERATIONS}
    write_record(args.out, {**about, "POT": ot.__version__, "rows": rows})


if __name__ == "__main__":
    main()
