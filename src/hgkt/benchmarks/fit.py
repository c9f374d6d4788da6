"""How long the closed-form fit takes, beside discriminant analysis and the network's training.

scikit-learn's LinearDiscriminantAnalysis with the same shrinkage is the nearest peer: it too
estimates and inverts a shrunk within-class covariance, but cannot add a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hgkt.benchmarks._common import Problem, Size, Timed, document, make_problem, timed
from hgkt.estimators import HGKTClassifier, HGKTNetworkClassifier

_SHRINKAGE = 0.5
_NETWORK_STEPS = 500

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
        instances of the seen classes, a row per method and size; ``ratios``: CPU seconds of each
        method over those of the closed form.
    """
    sizes, n_repeats, n_timed_steps = (QUICK, 1, 2) if quick else (FULL, 2, 20)
    fits: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    for size in sizes:
        problem = make_problem(size)
        ours, *peers = _fit_all(problem, n_repeats)
        peers.append(_network_record(problem, n_timed_steps))
        fits += [{"data": size.name, **record} for record in (ours, *peers)]
        ratios += [
            {
                "data": size.name,
                "method": peer["method"],
                "ratio": peer["cpu_seconds"] / max(ours["cpu_seconds"], 1e-9),
            }
            for peer in peers
        ]
    results = {"sizes": list(sizes), "n_repeats": n_repeats, "fits": fits, "ratios": ratios}
    notes = [
        "Features are synthetic: a smooth map of the attributes plus noise, non-negative.",
        "Methods take turns on the same float32 arrays; the fastest round counts, and ratios "
        "compare CPU seconds, which a busy machine disturbs least.",
        f"Discriminant analysis has the same shrinkage, {_SHRINKAGE}; it knows no attributes.",
        f"The network's time is that of representatives, graph and two steps, plus "
        f"{_NETWORK_STEPS - 2} times that of a step over {n_timed_steps} more: extrapolated to "
        f"{_NETWORK_STEPS} steps, and without an accuracy, as it is not trained to the end.",
    ]
    return document(
        "fit",
        quick,
        results,
        notes,
        packages=["scikit-learn", "torch"],
        methods=[HGKTClassifier, HGKTNetworkClassifier],
    )


def _fit_all(problem: Problem, n_repeats: int) -> list[dict[str, Any]]:
    """Time the closed form and its peers round by round."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def peer(solver: str) -> Any:
        model = LinearDiscriminantAnalysis(solver=solver, shrinkage=_SHRINKAGE)
        return model.fit(problem.X, problem.y)

    methods: dict[str, Callable[[], Any]] = {
        "hgkt, closed form": lambda: problem.fit(
            HGKTClassifier(shrinkage=_SHRINKAGE, calibration=0, device="cpu")
        ),
        "scikit-learn LDA, lsqr": lambda: peer("lsqr"),
        "scikit-learn LDA, eigen": lambda: peer("eigen"),
    }
    rounds: dict[str, list[Timed]] = {name: [] for name in methods}
    accuracies: dict[str, float] = {}
    for _ in range(n_repeats):
        for name, fit in methods.items():
            model, took = timed(fit)
            rounds[name].append(took)
            if name not in accuracies:
                right = model.predict(problem.X_test) == problem.y_test
                accuracies[name] = 100.0 * float(np.mean(right))
    return [
        {
            "method": name,
            "seconds": min(took.wall for took in times),
            "cpu_seconds": min(took.cpu for took in times),
            "accuracy": accuracies[name],
            "extrapolated": False,
        }
        for name, times in rounds.items()
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
