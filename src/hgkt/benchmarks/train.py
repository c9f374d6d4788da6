"""Training on the quotient against training on drawn neighbours: time of an epoch, same minimum.

A full-batch step on the quotient uses every instance once, so it is an epoch. The sampled epoch
is N / batch steps; some are timed and the epoch is extrapolated from their median. Steps of both
kinds take turns, so that other work on the machine weighs on both alike.
"""

from __future__ import annotations

import platform
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.graph import HeterogeneousGraph, Quotient, class_graph
from hgkt.network.config import TrainingConfig
from hgkt.network.objectives import SquaredObjective, Targets

AWA2 = {"n_instances": 23527, "n_features": 2048, "n_classes": 40, "n_attributes": 85}
SMALL = {"n_instances": 60, "n_features": 8, "n_classes": 6, "n_attributes": 6}


def run(quick: bool = False) -> dict[str, Any]:
    """Measure both claims.

    Parameters
    ----------
    quick : bool
        Time fewer steps.

    Returns
    -------
    dict
        ``epoch_sampled_s`` (extrapolated from ``n_steps_timed`` of ``steps_per_epoch`` steps),
        ``epoch_quotient_s``, their ``ratio``, and under ``minimum`` the losses both ways of
        training end at, evaluated over the full graph.
    """
    import torch

    config = TrainingConfig(mode="sampled", device="cpu")
    X, codes, attributes, quotient, targets = _problem(**AWA2)
    problem = (quotient, attributes, targets, (X, codes))
    sampled, exact = _seconds_per_step(problem, config, 10 if quick else 200)
    steps = config.steps_per_epoch(len(X))
    return {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "data": dict(AWA2),
        "batch_size": config.batch_size,
        "n_sampled": config.n_sampled,
        "steps_per_epoch": steps,
        "n_steps_timed": len(sampled),
        "epoch_sampled_s": float(np.median(sampled)) * steps,
        "epoch_quotient_s": float(np.median(exact)),
        "ratio": float(np.median(sampled)) * steps / float(np.median(exact)),
        "minimum": same_minimum(2000 if quick else 6000),
    }


def same_minimum(n_steps: int) -> dict[str, float]:
    """Train a small problem both ways and compare the losses over the full graph.

    Parameters
    ----------
    n_steps : int
        Steps on the quotient; the sampled run takes the same number of mini-batches.

    Returns
    -------
    dict of str to float
        Loss at the start and at the end of each run.
    """
    from hgkt.network.training import train_embedder

    X, codes, attributes, quotient, targets = _problem(**SMALL)
    objective = SquaredObjective.build(targets)
    config = TrainingConfig(
        n_steps=n_steps, n_hidden=32, learning_rate=2e-3, batch_size=30, device="cpu"
    )
    losses = {}
    for mode in ("quotient", "sampled"):
        result = train_embedder(
            quotient, attributes, targets, replace(config, mode=mode), instances=(X, codes)
        )
        seen = result.weights.embed_seen(attributes, quotient.mixing())
        losses[mode] = objective.numpy_loss(seen.representative)
        if mode == "quotient":
            losses["start"] = float(result.losses[0])
    losses["difference_of_start"] = abs(losses["sampled"] - losses["quotient"]) / losses["start"]
    return losses


def _problem(
    n_instances: int, n_features: int, n_classes: int, n_attributes: int
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64], Quotient, Targets]:
    rng = np.random.default_rng(0)
    codes = np.arange(n_instances) % n_classes
    attributes = rng.random((n_classes, n_attributes))
    centers = rng.random((n_classes, n_features), dtype=np.float32)
    X = centers[codes] + 0.3 * rng.random((n_instances, n_features), dtype=np.float32)
    representatives = np.arange(n_classes)
    graph = HeterogeneousGraph(codes, representatives, class_graph(centers, 2, "euclidean"))
    targets = Targets.from_features(X, codes, n_classes)
    return X, codes, attributes, Quotient.from_graph(graph.validate()), targets


def _seconds_per_step(
    problem: tuple[Quotient, NDArray[Any], Targets, tuple[NDArray[Any], NDArray[np.intp]]],
    config: TrainingConfig,
    n_steps: int,
) -> tuple[list[float], list[float]]:
    """Time optimiser steps, sampled and quotient in turn, after two of each that warm up."""
    import torch

    from hgkt.network.batches import QuotientLoss, SampledLoss, StepLoss
    from hgkt.network.embedder import HGKTEmbedder
    from hgkt.network.loop import TrainingRun

    quotient, attributes, targets, instances = problem
    device, dtype = torch.device("cpu"), torch.float32
    losses: list[StepLoss] = [
        SampledLoss(quotient, attributes, targets, instances, None, config, device, dtype),
        QuotientLoss(quotient, attributes, SquaredObjective.build(targets), device, dtype),
    ]
    runs = []
    for loss in losses:
        embedder = HGKTEmbedder(
            attributes.shape[1],
            targets.n_features,
            config.n_hidden,
            generator=torch.Generator().manual_seed(0),
        )
        runs.append(TrainingRun(replace(config, n_steps=n_steps + 2), embedder, loss, None, None))
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(n_steps + 2):
        for run_, times in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run_.step()
            times.append(time.perf_counter() - start)
    return seconds[0][2:], seconds[1][2:]
