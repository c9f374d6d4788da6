"""Training on the quotient against training on drawn neighbours: time of an epoch, same minimum.

A full-batch step on the quotient uses every instance once, so it is an epoch. The sampled epoch
is N / batch steps; some are timed and the epoch is extrapolated from their median. Steps of both
kinds take turns, so that other work on the machine weighs on both alike.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from _timing import Size, document, timed
from hgkt.estimators import HGKTNetworkClassifier
from hgkt.graph import HeterogeneousGraph, Quotient, class_graph

if TYPE_CHECKING:
    from hgkt.network.loss import Targets
    from hgkt.network.train import TrainingConfig

AWA2 = Size("AwA2", 23527, 2048, 40, 85)
SMALL = Size("small", 60, 8, 6, 6)
_N_WARM_UP = 2


@dataclass(frozen=True)
class Task:
    """What the embedder is trained on."""

    graph: HeterogeneousGraph
    quotient: Quotient
    attributes: NDArray[np.float64]
    targets: Targets
    instances: tuple[NDArray[Any], NDArray[np.intp]]


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

    config = training_config(AWA2, n_sampled=50)
    n_timed = 10 if quick else 60
    sampled, exact = _seconds_per_step(make_task(AWA2), config, n_timed)
    steps = config.steps_per_epoch(AWA2.n_instances)
    data = {name: getattr(AWA2, name) for name in Size.__dataclass_fields__ if name != "name"}
    results = {
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "data": data,
        "batch_size": config.batch_size,
        "n_sampled": config.n_sampled,
        "steps_per_epoch": steps,
        "n_steps_timed": n_timed,
        "epoch_sampled_s": sampled * steps,
        "epoch_quotient_s": exact,
        "ratio": sampled * steps / exact,
        "minimum": same_minimum(2000 if quick else 6000),
    }
    notes = [
        f"The data are synthetic. The sampled epoch is extrapolated from the median of {n_timed} "
        "steps; steps of both kinds take turns.",
        "Under `minimum` both ways train a small problem for the same number of steps; losses are "
        "over the full graph.",
    ]
    return document("train", quick, results, notes, ["torch"], [HGKTNetworkClassifier])


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
    from hgkt.network.loss import SquaredObjective
    from hgkt.network.train import train_embedder

    task = make_task(SMALL)
    objective = SquaredObjective.build(task.targets)
    config = training_config(SMALL, n_steps=n_steps, n_hidden=32, learning_rate=2e-3, batch_size=30)
    losses = {}
    for mode, n_sampled in (("quotient", None), ("sampled", 50)):
        result = train_embedder(
            task.quotient,
            task.attributes,
            task.targets,
            replace(config, n_sampled=n_sampled),
            instances=task.instances,
        )
        seen = result.weights.embed_seen(task.attributes, task.quotient.mixing())
        losses[mode] = objective.numpy_loss(seen.representative) / SMALL.n_features
        if mode == "quotient":
            losses["start"] = float(result.losses[0]) / SMALL.n_features
    losses["difference_of_start"] = abs(losses["sampled"] - losses["quotient"]) / losses["start"]
    return losses


def training_config(size: Size, **settings: Any) -> TrainingConfig:
    """Return settings under which the loss per feature has the paper's weight decay of 0.001."""
    from hgkt.network.train import TrainingConfig

    decay = 1e-3 * size.n_features
    return TrainingConfig(optimizer="adam", device="cpu", mu=1.0, weight_decay=decay, **settings)


def make_task(size: Size) -> Task:
    """Make noisy instances around random class centres, and the graph between them."""
    from hgkt.network.loss import Targets

    rng = np.random.default_rng(0)
    codes = np.arange(size.n_instances) % size.n_classes
    attributes = rng.random((size.n_classes, size.n_attributes))
    centers = rng.random((size.n_classes, size.n_features), dtype=np.float32)
    noise = rng.random((size.n_instances, size.n_features), dtype=np.float32)
    X = centers[codes] + 0.3 * noise
    graph = HeterogeneousGraph(
        codes, np.arange(size.n_classes), class_graph(centers, 2, "euclidean")
    )
    targets = Targets.from_features(X, codes, size.n_classes)
    quotient = Quotient.from_graph(graph.validate())
    return Task(graph, quotient, attributes, targets, (X, codes))


def _seconds_per_step(task: Task, config: TrainingConfig, n_steps: int) -> tuple[float, float]:
    """Median time of optimiser steps, sampled and quotient in turn, after two that warm up."""
    import torch

    from hgkt.network.layers import HGKTEmbedder
    from hgkt.network.loss import QuotientLoss, SampledLoss, SquaredObjective
    from hgkt.network.train import Adam, TrainingRun

    data, where = (task.quotient, task.attributes), (torch.device("cpu"), torch.float32)
    losses = (
        SampledLoss(*data, task.targets, task.instances, None, config, *where),
        QuotientLoss(*data, SquaredObjective.build(task.targets), *where),
    )
    widths = task.attributes.shape[1], task.targets.n_features, config.n_hidden
    config = replace(config, n_steps=n_steps + _N_WARM_UP)
    solvers = []
    for loss in losses:
        embedder = HGKTEmbedder(*widths, 1.0, generator=torch.Generator().manual_seed(0))
        solvers.append(Adam(TrainingRun(config, embedder, loss)))
    walls = [[timed(s.step)[1].wall for s in solvers] for _ in range(n_steps + _N_WARM_UP)]
    sampled, exact = np.median(walls[_N_WARM_UP:], axis=0)
    return float(sampled), float(exact)
