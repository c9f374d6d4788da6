"""How fast the exact selection of representatives is, beside POT's Sinkhorn barycenter and a sort.

The exact barycenter comes from sorted cumulative values, so one sort of the same numbers is the
bound. POT is compared where its barycenter is as near to the exact one as a bin is wide: by the
objective, which is flat around the optimum, a single iteration would do.
"""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _timing import document, in_fresh_process, peak_mb, timed
from hgkt.transport import line_barycenter, line_distances, select_representatives, to_simplex

_GOAL = 0.5  # bins between a barycenter and the exact one: what rounding to bins may move it
_REGS = (1e-3, 1e-4, 1e-5)
_TIME_LIMIT = 60.0  # CPU seconds for the attempts of one way
_CHUNK_ROWS = 32  # small, so that making the data leaves no higher peak than holding it


@dataclass(frozen=True)
class Sizes:
    """How large each part of the benchmark is."""

    n_instances: int
    n_bins: int
    n_classes: int
    n_kernel: int
    n_log: int
    max_iter: int


FULL = Sizes(23_527, 2_048, 40, n_kernel=50, n_log=8, max_iter=1000)
QUICK = Sizes(1_000, 64, 5, n_kernel=20, n_log=4, max_iter=100)


@dataclass(frozen=True)
class Way:
    """One way to get a barycenter from POT: its solver, of what, and how many iterations."""

    solver: str
    histograms: NDArray[np.float64]
    budgets: tuple[int, ...]


@dataclass(frozen=True)
class Attempt:
    """One call of POT: what it was given, how long it took and how good it is."""

    reg: float
    iterations: int
    cpu_seconds: float
    bins: float  # how far its barycenter is from the exact one
    objective: float


def run(quick: bool = False) -> dict[str, Any]:
    """Measure ours on a set of AwA2's size and POT on a part of it, in one go.

    Parameters
    ----------
    quick : bool, default=False
        Shrink everything so that it takes about three seconds; the figures then mean nothing.

    Returns
    -------
    dict
        Plain data: sizes, seconds, ratios, objectives, peak memory and notes.
    """
    sizes = QUICK if quick else FULL
    ours = in_fresh_process(measure_ours, *astuple(sizes))
    rows = np.arange(sizes.n_kernel) * sizes.n_classes  # instances of the first class
    few = to_simplex(_instances(sizes, rows))
    ways = (
        Way("sinkhorn", few, _budgets(sizes.max_iter)),
        Way("sinkhorn_log", few[: sizes.n_log], _budgets(10)),
    )
    pot = [_measure_pot(way, sizes, ours["cpu_seconds"]) for way in ways]
    results = {
        "sizes": sizes,
        **ours,
        "times_sort": ours["cpu_seconds"] / ours["sort_cpu_seconds"],
        "peak_over_input": (ours["input_mb"] + ours["extra_mb"]) / ours["input_mb"],
        "pot": pot,
    }
    return document("representatives", quick, results, _notes(sizes), ["POT"])


def resnet_like(sizes: Sizes) -> NDArray[np.float32]:
    """Return non-negative features (N, D), two fifths of them zero; classes take turns."""
    features = np.empty((sizes.n_instances, sizes.n_bins), dtype=np.float32)
    for start in range(0, sizes.n_instances, _CHUNK_ROWS):
        rows = np.arange(start, min(start + _CHUNK_ROWS, sizes.n_instances))
        features[rows] = _instances(sizes, rows)
    return features


def _instances(sizes: Sizes, rows: NDArray[np.intp]) -> NDArray[np.float32]:
    """Rectified noise around the class profiles; a row is the same whichever others are made."""
    profiles = np.random.default_rng(0).normal(0.25, 1.0, size=(sizes.n_classes, sizes.n_bins))
    noise = [np.random.default_rng([1, row]).standard_normal(sizes.n_bins) for row in rows]
    own = profiles[rows % sizes.n_classes]
    return np.maximum(own + np.array(noise), 0.0).astype(np.float32)


def measure_ours(*size: int) -> dict[str, float]:
    """Time the selection and the growth of the peak of memory, in MB; `size` as in `Sizes`."""
    sizes = Sizes(*size)
    features = resnet_like(sizes)
    codes = np.arange(sizes.n_instances) % sizes.n_classes
    before = peak_mb()
    _, took = timed(partial(select_representatives, features, codes, sizes.n_classes))
    peak = peak_mb()
    sorting = 0.0
    for code in range(sizes.n_classes):
        values = np.cumsum(features[codes == code], axis=1, dtype=np.float64).ravel()
        sorting += timed(values.sort)[1].cpu
    return {
        "seconds": took.wall,
        "cpu_seconds": took.cpu,
        "sort_cpu_seconds": sorting,
        "input_mb": features.nbytes / 1e6,
        "extra_mb": peak - before,
    }


def _budgets(last: int) -> tuple[int, ...]:
    """1, 10, 100, … iterations up to `last`."""
    return tuple(10**e for e in range(6) if 10**e <= last)


def _measure_pot(way: Way, sizes: Sizes, seconds_ours: float) -> dict[str, Any]:
    """Let POT reach the goal with the fewest iterations, and extrapolate to all instances.

    Where no attempt reaches it, the time is that of the nearest one: less than it would take.
    """
    center = line_barycenter(way.histograms)
    best = float(line_distances(way.histograms, center).mean())
    nearest = _nearest_attempt(way, center)
    n_instances = len(way.histograms)
    extrapolated = nearest.cpu_seconds * sizes.n_instances / n_instances
    return {
        "solver": way.solver,
        "n_instances": n_instances,
        "reached": nearest.bins <= _GOAL,
        **asdict(nearest),
        "objective_exact": best,
        "excess": nearest.objective / best - 1.0,
        "cpu_seconds_extrapolated": extrapolated,
        "ratio": extrapolated / seconds_ours,
    }


def _nearest_attempt(way: Way, center: NDArray[np.float64]) -> Attempt:
    """Lower the regularisation, raise the iterations, until the goal or the limit is reached."""
    attempts: list[Attempt] = []
    for reg in _REGS:
        for budget in way.budgets:
            attempts.append(_attempt(way, reg, budget, center))
            if attempts[-1].bins <= _GOAL:
                return attempts[-1]
        if sum(attempt.cpu_seconds for attempt in attempts) > _TIME_LIMIT:
            break
    return min(attempts, key=lambda attempt: attempt.bins)


def _attempt(way: Way, reg: float, budget: int, exact: NDArray[np.float64]) -> Attempt:
    """Barycenter by POT, then how far it is from the instances by POT's exact distance."""
    import ot
    from threadpoolctl import threadpool_limits

    bins = np.arange(way.histograms.shape[1], dtype=np.float64)
    cost = np.subtract.outer(bins, bins) ** 2
    cost /= cost.max()
    columns = np.ascontiguousarray(way.histograms.T)

    def solve() -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        center = ot.bregman.barycenter(
            columns, cost, reg, method=way.solver, numItermax=budget, stopThr=0.0, warn=False
        )
        total = center.sum()
        if not np.isfinite(center).all() or total <= 0:
            return None
        center = center / total
        return center, np.array([ot.emd2_1d(bins, bins, row, center) for row in way.histograms])

    with np.errstate(all="ignore"), threadpool_limits(1):
        found, took = timed(solve)
    if found is None:
        return Attempt(reg, budget, took.cpu, np.inf, np.inf)
    center, distances = found
    off = float(np.sqrt(line_distances(center[None], exact)[0]))
    return Attempt(reg, budget, took.cpu, off, float(distances.mean()))


def _notes(sizes: Sizes) -> list[str]:
    return [
        "Features are synthetic: rectified Gaussian noise around class profiles, non-negative, "
        "about two fifths zero.",
        f"POT ran on {sizes.n_kernel} instances of one class ({sizes.n_log} in the log domain); "
        "its seconds are extrapolated linearly in the number of instances, its cost per histogram "
        "and iteration being constant.",
        "Ratios compare CPU seconds on one thread each, which a busy machine disturbs least; ours "
        "uses one thread anyway.",
        f"A run of POT counts when its barycenter is within {_GOAL} bins of the exact one, in the "
        "distance of optimal transport; reg goes down from 1e-3 (on the cost divided by its "
        "maximum), iterations go up tenfold, and the first run that counts is timed. Where none "
        "does (reached is false), the nearest run is timed and its ratio is a lower bound.",
        "The sort orders, class by class, the cumulative values of the same features once.",
        "extra_mb is the growth of ru_maxrss during the selection in a fresh process; "
        "peak_over_input is (input + extra)/input.",
    ]
