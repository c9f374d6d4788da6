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

from _timing import (
    Size,
    device_name,
    document,
    fastest,
    in_fresh_process,
    in_turns,
    make_problem,
    peak_mb,
    timed,
)
from hgkt._arrays import torch_device
from hgkt.estimators import HGKTClassifier
from hgkt.estimators.scoring import rank_classes

SEED = 7
GAMMA = 0.05
TOP = 5
_BLOCK_ROWS, _DEVICE_BLOCK_ROWS = 1024, 8192
_MANY_ROWS = 64
_DATA = (
    "Features and attributes are synthetic, in float32; rows are of seen classes, and a fixed "
    f"γ of {GAMMA} is taken off those."
)


@dataclass(frozen=True)
class Sizes:
    """How many rows, features and classes are predicted with, and how often."""

    n_rows: int
    n_features: int
    n_attributes: int
    n_seen: int
    n_classes: tuple[int, ...]
    n_repeats: tuple[int, ...]


@dataclass(frozen=True)
class _AllSizes(Sizes):
    """How large each part of the benchmark is."""

    n_row_classes: int
    n_calls: int
    many: tuple[int, int]  # classes and features where memory is looked at


FULL = _AllSizes(
    8192, 2048, 85, 40, (50, 1_000, 21_000), (5, 5, 2), 200, n_calls=500, many=(1_000_000, 256)
)
QUICK = _AllSizes(256, 64, 10, 20, (25, 60), (1, 1), 30, n_calls=20, many=(2_000, 16))
DEVICE_FULL = Sizes(65_536, 2048, 85, 40, (50, 1_000, 21_000), (7, 7, 7))
DEVICE_QUICK = Sizes(256, 64, 10, 20, (25, 60), (2, 2))


def run(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """Time predicting many rows for several numbers of classes, and a single row.

    Parameters
    ----------
    quick : bool, default=False
        Shrink everything so that it takes about a second; the figures then mean nothing.
    device : {"auto", "cpu", "cuda"}
        "cuda": rows are scored on a GPU, beside the products there; see
        `run_on`. Otherwise as models predict unless asked: on the
        CPU.

    Returns
    -------
    dict
        ``batches``: CPU seconds of `predict`, of ranking the five best with their scores, of the
        bound and of the peer, and ``share`` and ``share_ranking``, the bound over ours (above 1 we
        are faster than the two products); ``row``: milliseconds for one row; ``many_classes``:
        seconds and the peak of memory with as many classes.
    """
    if device == "cuda":
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
    }
    notes = [
        _DATA,
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


def _ways(model: HGKTClassifier, X: NDArray[Any]) -> dict[str, Callable[[], Any]]:
    """Return ways to find the best classes of the same rows, and the bound of all."""
    return {
        "bound": partial(_products, X, *random_matrices(model)),
        "predict": partial(model.predict, X),
        "ranking": partial(rank_classes, model, X, model.candidates(), TOP),
        "peer": partial(_peer(model).predict, X),
    }


def _batch(model: HGKTClassifier, X: NDArray[Any], n_repeats: int) -> dict[str, Any]:
    """Time all ways on the same rows."""
    model.predict(X[:1])  # what is computed once per class is not counted
    cpu = {name: took.cpu for name, took in fastest(_ways(model, X), n_repeats).items()}
    return {
        "n_rows": len(X),
        "n_classes": len(model.classes_),
        **{f"{name}_cpu_seconds": seconds for name, seconds in cpu.items()},
        "share": cpu["bound"] / max(cpu["predict"], 1e-9),
        "share_ranking": cpu["bound"] / max(cpu["ranking"], 1e-9),
    }


def _row(model: HGKTClassifier, x: NDArray[Any], n_calls: int) -> dict[str, Any]:
    """Milliseconds of single calls with one row: the ways in turn, then each again and again."""
    ways = _ways(model, x)
    found: dict[str, Any] = {"n_classes": len(model.classes_)}
    turns = in_turns(ways, n_calls)
    for name, call in ways.items():
        walls = [1000.0 * took.wall for took in turns[name]]
        again = [1000.0 * took.wall for took in in_turns({name: call}, n_calls)[name]]
        found |= {
            f"{name}_repeated_ms": float(np.median(again)),
            f"{name}_median_ms": float(np.median(walls)),
            f"{name}_fastest_ms": min(walls),
        }
    return found


def _products(X: Any, metric: Any, table: Any, n_block: int = _BLOCK_ROWS) -> None:
    for start in range(0, len(X), n_block):
        (X[start : start + n_block] @ metric) @ table.T


def _peer(model: HGKTClassifier) -> Any:
    """Discriminant analysis with random coefficients for as many classes."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    peer = LinearDiscriminantAnalysis()
    _, table = random_matrices(model)
    peer.classes_, peer.coef_ = model.classes_, table
    peer.intercept_ = np.zeros(len(table), dtype=np.float32)
    peer.n_features_in_, peer.xbar_ = table.shape[1], None
    return peer


def fitted_problem(sizes: Sizes, device: str) -> tuple[HGKTClassifier, NDArray[np.float32]]:
    """Return a model of the seen classes that is fitted on a device, and rows to predict."""
    size = Size("", 4 * sizes.n_features, sizes.n_features, sizes.n_seen, sizes.n_attributes)
    problem = make_problem(size, n_test=sizes.n_rows)
    model = problem.fit(HGKTClassifier(calibration=GAMMA, device=device))
    return model, problem.X_test


def add_up_to(model: HGKTClassifier, n_classes: int, n_attributes: int) -> None:
    """Let the model have so many classes, the seen ones among them."""
    if len(model.unseen_classes_):
        model.remove_classes(model.unseen_classes_.tolist())
    n_new = n_classes - len(model.classes_)
    rows = np.random.default_rng(SEED).random((n_new, n_attributes))
    model.add_classes({f"added {number:06d}": row for number, row in enumerate(rows)})


def random_matrices(model: HGKTClassifier) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Random matrices of the sizes of the metric (D, D) and the class table (C, D)."""
    rng, width = np.random.default_rng(SEED), model.n_features_in_
    metric = rng.standard_normal((width, width), dtype=np.float32)
    return metric, rng.standard_normal((len(model.classes_), width), dtype=np.float32)


# ---------------------------------------------------------------------- on a GPU
def run_on(device: str, quick: bool = False) -> dict[str, Any]:
    """Time predicting rows that are on a device, and rows that are not yet.

    Parameters
    ----------
    device : str
        A torch device.
    quick : bool, default=False
        Shrink everything; the figures then mean nothing.

    Returns
    -------
    dict
        ``batches``: seconds of the bound, of `predict` and of ranking the five best with their
        scores for rows on the device, of `predict` for rows in ordinary and in page-locked host
        memory and of copying those alone; ``share`` and ``share_ranking``, the bound over ours
        (above 1 we are faster than the two products).
    """
    sizes = DEVICE_QUICK if quick else DEVICE_FULL
    model, X = fitted_problem(sizes, device)
    batches = []
    for n_classes, n_repeats in zip(sizes.n_classes, sizes.n_repeats, strict=True):
        add_up_to(model, n_classes, sizes.n_attributes)
        batches.append(_device_batch(model, X, device, n_repeats))
    results = {
        "device": device,
        "device_name": device_name(device),
        "sizes": sizes,
        "batches": batches,
    }
    notes = [
        _DATA,
        "Ways take turns on the same rows and the fastest round counts, by the clock, from the "
        "call to the answer on the host.",
        f"The bound multiplies blocks of {_DEVICE_BLOCK_ROWS} rows on the device with a matrix of "
        "the metric's size and the result with one of the classes' size, by torch.matmul, and "
        "does nothing with the scores.",
    ]
    return document("predict", quick, results, notes, ["torch"], [HGKTClassifier])


def _device_batch(
    model: HGKTClassifier, X: NDArray[np.float32], device: str, n_repeats: int
) -> dict[str, Any]:
    """Time all ways on the same rows, round by round."""
    import torch

    columns, there = model.candidates(), torch.tensor(X, device=device)
    metric, table = (torch.tensor(part, device=device) for part in random_matrices(model))
    locked = torch.from_numpy(X).pin_memory() if device == "cuda" else torch.tensor(X)
    ways: dict[str, Callable[[], Any]] = {
        "bound": partial(_products, there, metric, table, _DEVICE_BLOCK_ROWS),
        "predict": partial(model.predict, there),
        "ranking": partial(rank_classes, model, there, columns, TOP),
        "copy": partial(locked.to, device, copy=True),
        "locked": partial(model.predict, locked.numpy()),
        "host": partial(model.predict, X),
    }
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    waited = {name: lambda call=call: (call(), wait()) for name, call in ways.items()}
    in_turns(waited, 1)  # in the first round tables and memory are made
    best = {name: took.wall for name, took in fastest(waited, n_repeats).items()}
    return {
        "n_rows": len(X),
        "n_classes": len(model.classes_),
        **{f"{name}_seconds": seconds for name, seconds in best.items()},
        "rows_per_second": len(X) / best["predict"],
        "host_rows_per_second": len(X) / best["host"],
        "locked_rows_per_second": len(X) / best["locked"],
        "share": best["bound"] / best["predict"],
        "share_ranking": best["bound"] / best["ranking"],
    }
