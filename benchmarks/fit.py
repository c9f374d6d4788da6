"""How long the closed-form fit takes, beside discriminant analysis and the network's training.

scikit-learn's LinearDiscriminantAnalysis with the same shrinkage is the nearest peer: it too
estimates and inverts a shrunk within-class covariance, but cannot add a class.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _timing import Problem, Size, Timed, document, fastest, make_problem, timed
from hgkt.estimators import HGKTClassifier, HGKTNetworkClassifier


@dataclass(frozen=True)
class Code:
    """A function to look for in a profile.

    Parameters
    ----------
    file : str
        End of its path, such as ``"hgkt/_arrays.py"``.
    name : str
        Of the function.
    inside : bool
        Whether what it calls counts.
    """

    file: str
    name: str
    inside: bool = True


_SHRINKAGE = 0.5
_NETWORK_STEPS = 500
REST = "the rest"

STAGES = {
    "mapping the rows": Code("hgkt/_arrays.py", "map_rows"),
    "sums per class": Code("hgkt/statistics/classes.py", "present_sums"),
    "the product XᵀX": Code("hgkt/statistics/classes.py", "update", inside=False),
    "decomposing the scatter": Code("scipy/linalg/_decomp.py", "eigh"),
}

FULL = (Size("CUB", 7_057, 2048, 150, 312), Size("AwA2", 23_527, 2048, 40, 85))
QUICK = (Size("small", 300, 16, 6, 5),)


def run(quick: bool = False) -> dict[str, Any]:
    """Time all fits in turn on the same arrays.

    Parameters
    ----------
    quick : bool, default=False
        A tiny data set; the figures then mean nothing.

    Returns
    -------
    dict
        ``fits``: wall and CPU seconds (the fastest of `n_repeats` rounds) and accuracy on new
        instances of the seen classes, a row per method and size; ``stages``: where one fit of the
        closed form spends its time.
    """
    sizes, n_repeats, n_timed_steps = (QUICK, 1, 2) if quick else (FULL, 2, 20)
    fits: list[dict[str, Any]] = []
    stages: list[dict[str, Any]] = []
    for size in sizes:
        problem = make_problem(size)
        records = [*_fit_all(problem, n_repeats), _network_record(problem, n_timed_steps)]
        fits += [{"data": size.name, **record} for record in records]
        fit = partial(problem.fit, _closed_form())
        rounds = [stage_seconds(fit, STAGES) for _ in range(n_repeats)]
        fastest = min(rounds, key=lambda rows: sum(row["seconds"] for row in rows))
        stages += [{"data": size.name, **row} for row in fastest]
    results = {"sizes": list(sizes), "n_repeats": n_repeats, "fits": fits, "stages": stages}
    notes = [
        "Features are synthetic: a smooth map of the attributes plus noise, non-negative.",
        "Stages are CPU seconds of the fastest of further fits, on one thread under Python's "
        "profiler.",
        "Methods take turns on the same float32 arrays; the fastest round counts, and CPU seconds "
        "are compared, which a busy machine disturbs least.",
        f"Discriminant analysis has the same shrinkage, {_SHRINKAGE}; it knows no attributes.",
        f"The network's time is that of representatives, graph and two steps, plus "
        f"{_NETWORK_STEPS - 2} times that of a step over {n_timed_steps} more: extrapolated "
        f"to {_NETWORK_STEPS} steps, and without an accuracy, as it is not trained to the end.",
    ]
    methods = [HGKTClassifier, HGKTNetworkClassifier]
    return document("fit", quick, results, notes, ["scikit-learn", "torch"], methods)


def _closed_form() -> HGKTClassifier:
    return HGKTClassifier(shrinkage=_SHRINKAGE, calibration=0, device="cpu")


def _fit_all(problem: Problem, n_repeats: int) -> list[dict[str, Any]]:
    """Time the closed form and its peers round by round."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    ours = _closed_form()
    ways: dict[str, Callable[[], Any]] = {"hgkt, closed form": partial(problem.fit, ours)}
    models: dict[str, Any] = {"hgkt, closed form": ours}
    for solver in ("lsqr", "eigen"):
        peer = LinearDiscriminantAnalysis(solver=solver, shrinkage=_SHRINKAGE)
        name = f"scikit-learn LDA, {solver}"
        ways[name], models[name] = partial(peer.fit, problem.X, problem.y), peer
    took = fastest(ways, n_repeats)
    right = {n: model.predict(problem.X_test) == problem.y_test for n, model in models.items()}
    return [
        {
            "method": name,
            "seconds": took[name].wall,
            "cpu_seconds": took[name].cpu,
            "accuracy": 100.0 * float(np.mean(right[name])),
            "extrapolated": False,
        }
        for name in ways
    ]


def _network_record(problem: Problem, n_timed_steps: int) -> dict[str, Any]:
    """Time a short fit, and what further steps cost; extrapolate to all steps."""

    def fit(n_steps: int, **parameters: Any) -> Timed:
        model = HGKTNetworkClassifier(n_steps=n_steps, device="cpu", random_state=0, **parameters)
        return timed(lambda: problem.fit(model))[1]

    make_problem(QUICK[0]).fit(HGKTNetworkClassifier(n_steps=1, device="cpu"))  # loads torch
    whole = fit(2)
    # A step costs the same whatever the graph; with one that is made at once, the difference of
    # two runs is that of their steps and not of the noise of making the graph.
    simple = {"representative": "random", "graph_space": "attributes"}
    short, long = fit(2, **simple), fit(2 + n_timed_steps, **simple)
    n_left = (_NETWORK_STEPS - 2) / n_timed_steps
    return {
        "method": f"hgkt, network, {_NETWORK_STEPS} steps",
        "seconds": whole.wall + n_left * max(long.wall - short.wall, 0.0),
        "cpu_seconds": whole.cpu + n_left * max(long.cpu - short.cpu, 0.0),
        "accuracy": None,
        "extrapolated": True,
    }


# ---------------------------------------------------------------------- stages of a fit
def stage_seconds(call: Callable[[], Any], stages: Mapping[str, Code]) -> list[dict[str, Any]]:
    """Call a function once under Python's profiler; return the CPU seconds of each stage.

    On one thread: that is what other work on the machine disturbs least.

    Parameters
    ----------
    call : callable
        What is profiled, in this thread.
    stages : mapping of str to Code
        The function that each stage is. Stages must not lie inside each other.

    Returns
    -------
    list of dict
        ``stage``, ``seconds`` and ``share`` of all seconds, the rest last.

    Examples
    --------
    >>> def inner():
    ...     return sum(range(100_000))
    >>> rows = stage_seconds(lambda: inner(), {"summing": Code("<stdin>", "inner")})
    >>> [row["stage"] for row in rows]
    ['summing', 'the rest']
    """
    profile = cProfile.Profile(time.process_time)
    with threadpool_limits(1):
        profile.runcall(call)
    found = pstats.Stats(profile)
    total: float = found.total_tt  # type: ignore[attr-defined]
    seconds = {stage: _seconds(found, code) for stage, code in stages.items()}
    seconds[REST] = max(total - sum(seconds.values()), 0.0)
    return [
        {"stage": stage, "seconds": took, "share": took / max(total, 1e-12)}
        for stage, took in seconds.items()
    ]


def _seconds(found: pstats.Stats, code: Code) -> float:
    rows: dict[tuple[str, int, str], Any] = found.stats  # type: ignore[attr-defined]
    return sum(
        (within if code.inside else own)
        for (file, _, name), (_, _, own, within, _) in rows.items()
        if name == code.name and PurePath(file).as_posix().endswith(code.file)
    )
