"""How long the closed-form fit takes, beside discriminant analysis and the network's training.

scikit-learn's LinearDiscriminantAnalysis with the same shrinkage is the nearest peer: it too
estimates and inverts a shrunk within-class covariance, but cannot add a class.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.data.synthetic import class_means
from hgkt.estimators import HGKTClassifier

_SHRINKAGE = 0.5
_NETWORK_STEPS = 500


@dataclass(frozen=True)
class Size:
    """Size of one data set."""

    name: str
    n_instances: int
    n_features: int
    n_classes: int
    n_attributes: int


FULL = (Size("CUB", 7_057, 2048, 150, 312), Size("AwA2", 23_527, 2048, 40, 85))
QUICK = (Size("small", 300, 16, 6, 5),)


@dataclass(frozen=True)
class Problem:
    """Instances to fit, others to test, and class attributes."""

    X: NDArray[np.float32]
    y: NDArray[np.str_]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.str_]
    class_attributes: dict[str, NDArray[np.float32]]


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
        instances of the seen classes, a row a method and size; ``ratios``: CPU seconds of each
        method over those of the closed form.
    """
    sizes, n_repeats, n_timed_steps = (QUICK, 1, 2) if quick else (FULL, 3, 20)
    fits: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    for size in sizes:
        problem = make_problem(size)
        records = _fit_all(problem, n_repeats)
        records.append(_network_record(problem, n_timed_steps))
        ours = records[0]["cpu_seconds"]
        for record in records:
            fits.append({"data": size.name, **record})
            if record is not records[0]:
                ratio = record["cpu_seconds"] / max(ours, 1e-9)
                ratios.append({"data": size.name, "method": record["method"], "ratio": ratio})
    return {
        "name": "fit",
        "quick": quick,
        "sizes": [asdict(size) for size in sizes],
        "n_repeats": n_repeats,
        "fits": fits,
        "ratios": ratios,
        "environment": _environment(),
        "notes": [
            "Features are synthetic: a smooth map of the attributes plus noise, non-negative.",
            "Methods take turns on the same float32 arrays; the fastest round counts, and ratios "
            "compare CPU seconds, which a busy machine disturbs least.",
            f"Discriminant analysis has the same shrinkage, {_SHRINKAGE}; it knows no attributes.",
            f"The network's time is that of representatives, graph and two steps, plus "
            f"{_NETWORK_STEPS - 2} times that of a step over {n_timed_steps} more: extrapolated to "
            f"{_NETWORK_STEPS} steps, and without an accuracy, as it is not trained to the end.",
        ],
    }


def make_problem(size: Size, n_test: int = 2000) -> Problem:
    """Make instances whose class means are a smooth map of the class attributes.

    Parameters
    ----------
    size : Size
        How many of what.
    n_test : int
        How many further instances to test on.
    """
    rng = np.random.default_rng(0)
    attributes = rng.random((size.n_classes, size.n_attributes)).astype(np.float32)
    means = class_means(attributes, size.n_features, seed=0).astype(np.float32)
    names = np.array([f"class {code:03d}" for code in range(size.n_classes)])
    codes = np.arange(size.n_instances + n_test) % size.n_classes
    X = rng.standard_normal((len(codes), size.n_features), dtype=np.float32)
    X *= np.float32(0.5)
    X += means[codes]
    np.maximum(X, 0.0, out=X)
    n = size.n_instances
    table = dict(zip(names.tolist(), attributes, strict=True))
    return Problem(X[:n], names[codes[:n]], X[n:], names[codes[n:]], table)


def _fit_all(problem: Problem, n_repeats: int) -> list[dict[str, Any]]:
    """Time the closed form and its peers round by round."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def closed_form() -> Any:
        model = HGKTClassifier(shrinkage=_SHRINKAGE, device="cpu")
        return model.fit(problem.X, problem.y, class_attributes=problem.class_attributes)

    def peer(solver: str) -> Any:
        model = LinearDiscriminantAnalysis(solver=solver, shrinkage=_SHRINKAGE)
        return model.fit(problem.X, problem.y)

    methods = {
        "hgkt, closed form": closed_form,
        "scikit-learn LDA, lsqr": lambda: peer("lsqr"),
        "scikit-learn LDA, eigen": lambda: peer("eigen"),
    }
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    accuracies: dict[str, float] = {}
    for _ in range(n_repeats):
        for name, fit in methods.items():
            model, wall, cpu = _timed(fit)
            rounds[name].append((wall, cpu))
            if name not in accuracies:
                right = model.predict(problem.X_test) == problem.y_test
                accuracies[name] = 100.0 * float(np.mean(right))
    return [
        {
            "method": name,
            "seconds": min(wall for wall, _ in times),
            "cpu_seconds": min(cpu for _, cpu in times),
            "accuracy": accuracies[name],
            "extrapolated": False,
        }
        for name, times in rounds.items()
    ]


def _network_record(problem: Problem, n_timed_steps: int) -> dict[str, Any]:
    """Time a short fit, and what further steps cost; extrapolate to all steps."""

    _fit_network(make_problem(QUICK[0]), 1)  # the first run loads torch
    _, *whole = _timed(lambda: _fit_network(problem, 2))
    # A step costs the same whatever the graph; with one that is made at once, the difference of
    # two runs is that of their steps and not of the noise of making the graph.
    simple = {"representative": "random", "graph_space": "attributes"}
    _, *short = _timed(lambda: _fit_network(problem, 2, **simple))
    _, *long = _timed(lambda: _fit_network(problem, 2 + n_timed_steps, **simple))
    wall, cpu = (
        first + (_NETWORK_STEPS - 2) * max(b - a, 0.0) / n_timed_steps
        for first, a, b in zip(whole, short, long, strict=True)
    )
    return {
        "method": f"hgkt, network, {_NETWORK_STEPS} steps",
        "seconds": wall,
        "cpu_seconds": cpu,
        "accuracy": None,
        "extrapolated": True,
    }


def _fit_network(problem: Problem, n_steps: int, **parameters: Any) -> Any:
    model = HGKTClassifier.from_preset(
        "paper", n_steps=n_steps, device="cpu", random_state=0, **parameters
    )
    return model.fit(problem.X, problem.y, class_attributes=problem.class_attributes)


def _timed(function: Any) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def _environment() -> dict[str, Any]:
    import sklearn
    import torch

    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "n_cpus": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
    }
