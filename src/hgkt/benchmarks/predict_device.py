"""Predicting on a GPU beside the two products it cannot do without, in the same library."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import import_extra
from hgkt.benchmarks._common import document
from hgkt.benchmarks._matrices import (
    GAMMA,
    TOP,
    Sizes,
    add_up_to,
    fitted_problem,
    random_matrices,
)
from hgkt.estimators import HGKTClassifier
from hgkt.estimators.ranking import rank_classes

_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class _DeviceSizes(Sizes):
    """How large the benchmark is."""

    n_repeats: int


FULL = _DeviceSizes(65_536, 2048, 85, 40, (50, 1_000, 21_000), 7)
QUICK = _DeviceSizes(256, 64, 10, 20, (25, 60), 2)


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
        (above 1 we are faster than the two products); ``worst_share``, ``worst_share_ranking``.
    """
    torch = import_extra("torch", "network")
    sizes = QUICK if quick else FULL
    model, X = fitted_problem(sizes, device)
    batches = []
    for n_classes in sizes.n_classes:
        add_up_to(model, n_classes, sizes.n_attributes)
        batches.append(_batch(model, X, device, sizes.n_repeats))
    results = {
        "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else "the CPU",
        "allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "sizes": sizes,
        "batches": batches,
        "worst_share": min(batch["share"] for batch in batches),
        "worst_share_ranking": min(batch["share_ranking"] for batch in batches),
    }
    notes = [
        "Features and attributes are synthetic, in float32; rows are of seen classes, and a fixed "
        f"γ of {GAMMA} is taken off those.",
        "Ways take turns on the same rows and the fastest round counts, by the clock, from the "
        "call to the answer on the host.",
        f"The bound multiplies blocks of {_BLOCK_ROWS} rows on the device with a matrix of the "
        "metric's size and the result with one of the classes' size, by torch.matmul, and does "
        "nothing with the scores.",
    ]
    return document("predict", quick, results, notes, ["torch"], [HGKTClassifier])


def _batch(
    model: HGKTClassifier, X: NDArray[np.float32], device: str, n_repeats: int
) -> dict[str, Any]:
    """Time all ways on the same rows, round by round."""
    import torch

    columns, there = model.candidates(), torch.tensor(X, device=device)
    metric, table = (torch.tensor(part, device=device) for part in random_matrices(model))
    locked = torch.from_numpy(X).pin_memory() if device == "cuda" else torch.tensor(X)
    ways: dict[str, Callable[[], Any]] = {
        "bound": partial(_products, there, metric, table),
        "predict": partial(model.predict, there),
        "ranking": partial(rank_classes, model, there, columns, TOP),
        "copy": partial(locked.to, device, copy=True),
        "locked": partial(model.predict, locked.numpy()),
        "host": partial(model.predict, X),
        "host_ranking": partial(rank_classes, model, X, columns, TOP),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(n_repeats + 1):  # in the first round tables and memory are made
        for name, call in ways.items():
            times[name].append(_seconds(call, device))
    best = {name: min(found[1:]) for name, found in times.items()}
    return {
        "n_rows": len(X),
        "n_classes": len(model.classes_),
        **{f"{name}_seconds": seconds for name, seconds in best.items()},
        "rows_per_second": len(X) / best["predict"],
        "host_rows_per_second": len(X) / best["host"],
        "locked_rows_per_second": len(X) / best["locked"],
        "first_call_seconds": times["predict"][0],
        "share": best["bound"] / best["predict"],
        "share_ranking": best["bound"] / best["ranking"],
        "share_locked": max(best["bound"], best["copy"]) / best["locked"],
        "share_host": max(best["bound"], best["copy"]) / best["host"],
    }


def _seconds(call: Callable[[], Any], device: str) -> float:
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def _products(X: Any, metric: Any, table: Any) -> None:
    for start in range(0, len(X), _BLOCK_ROWS):
        (X[start : start + _BLOCK_ROWS] @ metric) @ table.T
