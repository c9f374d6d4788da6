"""How close predicting comes to the products it cannot do without, beside discriminant analysis.

The bound is two plain NumPy products of the same sizes: rows times metric, and that times classes.
scikit-learn's LinearDiscriminantAnalysis, which needs the second product alone and cannot add a
class, is the peer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import torch_device
from hgkt.benchmarks._common import (
    Size,
    document,
    in_fresh_process,
    make_problem,
    peak_mb,
    timed,
)
from hgkt.benchmarks._matrices import (
    GAMMA,
    SEED,
    TOP,
    Sizes,
    add_up_to,
    fitted_problem,
    random_matrices,
)
from hgkt.estimators import HGKTClassifier
from hgkt.estimators.ranking import rank_classes

_BLOCK_ROWS = 1024
_MANY_ROWS = 64


@dataclass(frozen=True)
class _AllSizes(Sizes):
    """How large each part of the benchmark is."""

    n_row_classes: int
    n_repeats: tuple[int, ...]
    n_calls: int
    many: tuple[int, int]  # classes and features where memory is looked at


FULL = _AllSizes(
    8192, 2048, 85, 40, (50, 1_000, 21_000), 200, (5, 5, 2), n_calls=500, many=(1_000_000, 256)
)
QUICK = _AllSizes(256, 64, 10, 20, (25, 60), 30, (1, 1), n_calls=20, many=(2_000, 16))


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Time predicting many rows for several numbers of classes, and a single row.

    Parameters
    ----------
    quick : bool, default=False
        Shrink everything so that it takes about a second; the figures then mean nothing.
    device : {"auto", "cpu", "cuda"}
        "cuda": rows are scored on a GPU, beside the products there; see
        `hgkt.benchmarks.predict_device.run_on`. Otherwise as models predict unless asked: on the
        CPU.

    Returns
    -------
    dict
        ``batches``: CPU seconds of `predict`, of ranking the five best with their scores, of the
        bound and of the peer, and ``share`` and ``share_ranking``, the bound over ours (above 1 we
        are faster than the two products); ``row``: milliseconds for one row; ``many_classes``:
        seconds and the peak of memory with as many classes; ``worst_share``.
    """
    if device == "cuda":
        from hgkt.benchmarks.predict_device import run_on

        return run_on(torch_device(device), quick)
    sizes = QUICK if quick else FULL
    model, X = fitted_problem(sizes, "cpu")
    batches = []
    for n_classes, n_repeats in zip(sizes.n_classes, sizes.n_repeats, strict=True):
        add_up_to(model, n_classes, sizes.n_attributes)
        batches.append(_batch(model, X, n_repeats))
    add_up_to(model, sizes.n_row_classes, sizes.n_attributes)
    results = {
        "sizes": sizes,
        "batches": batches,
        "row": _row(model, X[:1], sizes.n_calls),
        "many_classes": in_fresh_process(measure_many, *sizes.many),
        "worst_share": min(record["share"] for record in batches),
        "worst_share_ranking": min(record["share_ranking"] for record in batches),
    }
    notes = [
        "Features and attributes are synthetic, in float32; rows are of seen classes, and a fixed "
        f"γ of {GAMMA} is taken off those.",
        "Ways take turns on the same rows and the fastest round counts. Shares compare CPU "
        "seconds, which a busy machine disturbs least.",
        "The bound multiplies blocks of rows with a matrix of the metric's size and the result "
        "with one of the classes' size, and does nothing with the scores.",
        "One row: in turn, a way finds what it reads in memory, from where the others drove it; "
        "again and again, in the processor's cache.",
        "Memory with many classes is measured in a fresh process; classes are added in ten parts.",
        "The peer is given random coefficients for as many classes: its time does not depend on "
        "their values, and a fit on 21,000 classes would take hours.",
    ]
    return document("predict", quick, results, notes, ["scikit-learn"], [HGKTClassifier])


def measure_many(n_classes: int, n_features: int) -> dict[str, float]:
    """Add classes to a small model and predict; the peak of resident memory after each, in GB."""
    n_seen, n_attributes = 20, 85
    problem = make_problem(Size("", 400, n_features, n_seen, n_attributes), n_test=_MANY_ROWS)
    model = problem.fit(HGKTClassifier(calibration=GAMMA, device="cpu"))
    rng, step = np.random.default_rng(SEED), max(1, n_classes // 10)

    def add() -> None:
        for start in range(0, n_classes, step):
            rows = rng.random((step, n_attributes))
            model.add_classes({f"n{start + i:07d}": row for i, row in enumerate(rows)})

    added = timed(add)[1]
    peak = peak_mb()
    predicted = timed(lambda: model.predict(problem.X_test))[1]
    return {
        "n_classes": len(model.classes_),
        "n_features": n_features,
        "table_gb": len(model.classes_) * n_features * 4 / 1e9,
        "add_cpu_seconds": added.cpu,
        "add_peak_gb": peak / 1e3,
        "n_rows": _MANY_ROWS,
        "predict_cpu_seconds": predicted.cpu,
        "predict_peak_gb": peak_mb() / 1e3,
    }


def _batch(model: HGKTClassifier, X: NDArray[Any], n_repeats: int) -> dict[str, Any]:
    """Time all ways on the same rows, round by round."""
    columns = model.candidates()
    ways: dict[str, Callable[[], Any]] = {
        "bound": partial(_products, X, *random_matrices(model)),
        "predict": partial(model.predict, X),
        "ranking": partial(rank_classes, model, X, columns, TOP),
        "peer": partial(_peer(model).predict, X),
    }
    times: dict[str, list[Any]] = {name: [] for name in ways}
    model.predict(X[:1])  # what is computed once per class is not counted
    for _ in range(n_repeats):
        for name, call in ways.items():
            times[name].append(timed(call)[1])
    cpu = {name: min(took.cpu for took in found) for name, found in times.items()}
    return {
        "n_rows": len(X),
        "n_classes": len(model.classes_),
        **{f"{name}_cpu_seconds": seconds for name, seconds in cpu.items()},
        "predict_seconds": min(took.wall for took in times["predict"]),
        "share": cpu["bound"] / max(cpu["predict"], 1e-9),
        "share_ranking": cpu["bound"] / max(cpu["ranking"], 1e-9),
        "times_peer": cpu["peer"] / max(cpu["predict"], 1e-9),
    }


def _row(model: HGKTClassifier, x: NDArray[Any], n_calls: int) -> dict[str, Any]:
    """Milliseconds of single calls with one row: the ways in turn, then each again and again."""
    columns = model.candidates()
    metric, table = random_matrices(model)
    ways: dict[str, Callable[[], Any]] = {
        "bound": lambda: (x @ metric) @ table.T,
        "predict": partial(model.predict, x),
        "ranking": partial(rank_classes, model, x, columns, TOP),
        "peer": partial(_peer(model).predict, x),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(n_calls):
        for name, call in ways.items():
            times[name].append(1000.0 * timed(call)[1].wall)
    repeated = {
        f"{name}_repeated_ms": float(
            np.median([1000.0 * timed(call)[1].wall for _ in range(n_calls)])
        )
        for name, call in ways.items()
    }
    return {
        "n_classes": len(model.classes_),
        **repeated,
        **{f"{name}_median_ms": float(np.median(found)) for name, found in times.items()},
        **{f"{name}_fastest_ms": min(found) for name, found in times.items()},
    }


def _products(
    X: NDArray[np.float32], metric: NDArray[np.float32], table: NDArray[np.float32]
) -> None:
    for start in range(0, len(X), _BLOCK_ROWS):
        (X[start : start + _BLOCK_ROWS] @ metric) @ table.T


def _peer(model: HGKTClassifier) -> Any:
    """Discriminant analysis with random coefficients for as many classes."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    peer = LinearDiscriminantAnalysis()
    _, table = random_matrices(model)
    peer.classes_, peer.coef_ = model.classes_, table
    peer.intercept_ = np.zeros(len(table), dtype=np.float32)
    peer.n_features_in_, peer.xbar_ = table.shape[1], None
    return peer
