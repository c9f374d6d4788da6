"""How fast the exact selection of representatives is, beside POT's Sinkhorn barycenter."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.benchmarks._common import document, timed
from hgkt.transport import line_barycenter, line_distances, select_representatives, to_simplex

_GOAL = 0.01  # a run counts when its objective is within 1 % of the exact one
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
QUICK = Sizes(1_000, 64, 5, n_kernel=20, n_log=4, max_iter=200)


@dataclass(frozen=True)
class Way:
    """One way to get a barycenter from POT: its solver, how it stops, on how many instances."""

    solver: str
    stop: str
    n_instances: int
    budgets: tuple[int, ...]
    tol: float = 0.0


@dataclass(frozen=True)
class Attempt:
    """One call of POT: what it was given, how long it took and how good it is."""

    reg: float
    iterations: int
    converged: bool
    seconds: float
    objective: float
    row: int  # the nearest instance, by POT's exact distance on a line


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
    ours = _measure_in_fresh_process(sizes)
    rows = np.arange(sizes.n_kernel) * sizes.n_classes  # instances of the first class
    few = to_simplex(_instances(sizes, rows))
    ways = (
        Way("sinkhorn", "fewest iterations", sizes.n_kernel, _budgets(sizes.max_iter)),
        Way("sinkhorn", "POT's own test", sizes.n_kernel, (sizes.max_iter,), tol=1e-4),
        Way("sinkhorn_log", "fewest iterations", sizes.n_log, _budgets(10)),
    )
    pot = [_measure_pot(few[: way.n_instances], way, sizes, ours["cpu_seconds"]) for way in ways]
    results = {
        "sizes": sizes,
        "seconds": ours["seconds"],
        "cpu_seconds": ours["cpu_seconds"],
        "ratio": pot[0]["ratio"],
        "ratio_own_test": pot[1]["ratio"],
        "ratio_log_domain": pot[2]["ratio"],
        "never_above_pot": all(r["objective_exact"] <= r["objective"] * (1 + 1e-12) for r in pot),
        "input_mb": ours["input_mb"],
        "extra_mb": ours["extra_mb"],
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


def _measure_in_fresh_process(sizes: Sizes) -> dict[str, float]:
    """A process of its own, because the peak of resident memory never goes down again."""
    code = (
        "import json, sys; from hgkt.benchmarks import representatives as r; "
        "json.dump(r.measure_ours(r.Sizes(**json.loads(sys.argv[1]))), sys.stdout)"
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(sizes))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure_ours(sizes: Sizes) -> dict[str, float]:
    """Time the selection and the growth of the peak of resident memory, in MB."""
    features = resnet_like(sizes)
    codes = np.arange(sizes.n_instances) % sizes.n_classes
    before = _peak_mb()
    _, took = timed(partial(select_representatives, features, codes, sizes.n_classes))
    return {
        "seconds": took.wall,
        "cpu_seconds": took.cpu,
        "input_mb": features.nbytes / 1e6,
        "extra_mb": _peak_mb() - before,
    }


def _peak_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def _budgets(last: int) -> tuple[int, ...]:
    """1, 2, 5, 10, 20, 50, … iterations up to `last`."""
    return tuple(m * 10**e for e in range(6) for m in (1, 2, 5) if m * 10**e <= last)


def _measure_pot(
    histograms: NDArray[np.float64], way: Way, sizes: Sizes, seconds_ours: float
) -> dict[str, Any]:
    """Let POT reach the goal, or try for a while, and extrapolate to all instances.

    The time is that of the successful attempt alone, or of all of them where none succeeded.
    """
    exact = line_distances(histograms, line_barycenter(histograms))
    best = float(exact.mean())
    closest, spent = _closest_attempt(histograms, way, best)
    excess = closest.objective / best - 1.0
    reached = excess <= _GOAL
    seconds = closest.seconds if reached else spent
    extrapolated = seconds * sizes.n_instances / way.n_instances
    return {
        "solver": way.solver,
        "stop": way.stop,
        "n_instances": way.n_instances,
        "reached": reached,
        "reg": closest.reg,
        "iterations": closest.iterations,
        "converged": closest.converged,
        "cpu_seconds": seconds,
        "objective": closest.objective,
        "objective_exact": best,
        "excess": excess,
        "same_representative": closest.row == int(np.argmin(exact)),
        "cpu_seconds_extrapolated": extrapolated,
        "ratio": extrapolated / seconds_ours,
    }


def _closest_attempt(
    histograms: NDArray[np.float64], way: Way, best: float
) -> tuple[Attempt, float]:
    """Lower the regularisation, raise the iterations; return the best and the seconds of all."""
    attempts: list[Attempt] = []
    for reg in _REGS:
        before = np.inf
        for budget in way.budgets:
            attempts.append(_attempt(histograms, way, reg, budget))
            excess = attempts[-1].objective / best - 1.0
            # Where iterations no longer help, only a smaller regularisation can.
            if excess <= _GOAL or excess > 0.9 * before:
                break
            before = excess
        spent = sum(attempt.seconds for attempt in attempts)
        if excess <= _GOAL or spent > _TIME_LIMIT:
            break
    return min(attempts, key=lambda attempt: attempt.objective), spent


def _attempt(histograms: NDArray[np.float64], way: Way, reg: float, budget: int) -> Attempt:
    """Barycenter by POT, then the nearest instance by POT's exact distance on a line."""
    import ot
    from threadpoolctl import threadpool_limits

    bins = np.arange(histograms.shape[1], dtype=np.float64)
    cost = np.subtract.outer(bins, bins) ** 2
    cost /= cost.max()
    columns = np.ascontiguousarray(histograms.T)

    def solve() -> tuple[dict[str, Any], NDArray[np.float64]]:
        center, log = ot.bregman.barycenter(
            columns,
            cost,
            reg,
            method=way.solver,
            numItermax=budget,
            stopThr=way.tol,
            warn=False,
            log=True,
        )
        total = center.sum()
        if not np.isfinite(center).all() or total <= 0:
            return log, np.full(len(histograms), np.inf)
        distances = [ot.emd2_1d(bins, bins, row, center / total) for row in histograms]
        return log, np.array(distances)

    with np.errstate(all="ignore"), threadpool_limits(1):
        (log, distances), took = timed(solve)
    converged = bool(log["err"]) and bool(log["err"][-1] < way.tol)
    objective, row = float(distances.mean()), int(np.argmin(distances))
    return Attempt(reg, int(log["niter"]) + 1, converged, took.cpu, objective, row)


def _notes(sizes: Sizes) -> list[str]:
    return [
        "Features are synthetic: rectified Gaussian noise around class profiles, non-negative, "
        "about two fifths zero.",
        f"POT ran on {sizes.n_kernel} instances of one class ({sizes.n_log} in the log domain); "
        "its seconds are extrapolated linearly in the number of instances, its cost per histogram "
        "and iteration being constant.",
        "Ratios compare CPU seconds on one thread each, which a busy machine disturbs least; ours "
        "uses one thread anyway.",
        "A run of POT counts when the exact objective of its barycenter is within 1 % of the "
        "optimum; reg goes down from 1e-3 (on the cost divided by its maximum) and only the first "
        "successful attempt is timed; where none succeeds, all attempts are, as a lower bound "
        "(reached is then false).",
        "'ratio' grants POT's default solver the fewest iterations that happen to suffice, which a "
        "user without the exact answer cannot know. 'ratio_own_test' lets it stop by its own test "
        f"(stopThr 1e-4, at most {sizes.max_iter} iterations). 'ratio_log_domain' "
        "grants the fewest iterations to the log-domain solver, the only one that is right for "
        "unequal weights.",
        "extra_mb is the growth of ru_maxrss during the selection in a fresh process; "
        "peak_over_input is (input + extra)/input.",
    ]
