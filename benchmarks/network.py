"""The network to the same loss: on the quotient, on PyTorch Geometric's full graph, by draws.

The quotient is lossless: from the same weights a step on it is the step that message passing over
all instances would do. Both do the same steps here, so both reach the same loss, and the times
compare. The sampled way takes steps until its loss over the full graph is as low.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from _timing import Size, document, timed
from hgkt._validation import import_extra
from hgkt.estimators import HGKTNetworkClassifier
from hgkt.graph import HeterogeneousGraph, Quotient, class_graph

if TYPE_CHECKING:
    import torch

    from hgkt.network.layers import HGKTEmbedder
    from hgkt.network.loss import Targets
    from hgkt.network.train import TrainingConfig

_EVERY = 5  # sampled steps between two looks at the loss over the full graph
_NEAR = 1.02  # a loss that counts as equally low


@dataclass(frozen=True)
class Sizes:
    """How large each part of the benchmark is."""

    data: Size
    n_hidden: int
    n_steps: int
    n_full_steps: int
    seconds_sampled: float


FULL = Sizes(Size("a class of 30", 1_200, 2048, 40, 85), 1600, 100, 5, seconds_sampled=120.0)
QUICK = Sizes(Size("small", 60, 8, 6, 6), 16, 10, 2, seconds_sampled=2.0)


@dataclass(frozen=True)
class Task:
    """What the embedder is trained on."""

    graph: HeterogeneousGraph
    quotient: Quotient
    attributes: NDArray[np.float64]
    targets: Targets
    instances: tuple[NDArray[Any], NDArray[np.intp]]


def run(quick: bool = False) -> dict[str, Any]:
    """Train the same problem in all three ways.

    Parameters
    ----------
    quick : bool, default=False
        A tiny problem; the figures then mean nothing.

    Returns
    -------
    dict
        ``ways``: CPU seconds per step, steps, CPU seconds and loss of each;
        ``ratio_full_graph``, ``ratio_sampled``: CPU seconds to the same loss over the quotient's;
        ``largest_difference``: between the losses of quotient and full graph, relative.
    """
    import_extra("torch_geometric", "graph")
    sizes = QUICK if quick else FULL
    task = make_task(sizes.data)
    quotient, losses = _train_quotient(task, sizes)
    full, full_losses = _train_full_graph(task, sizes)
    sampled = _train_sampled(task, sizes, goal=_NEAR * quotient["loss"])
    gaps = np.abs(np.array(full_losses) / np.array(losses[: len(full_losses)]) - 1.0)
    results = {
        "sizes": sizes,
        "n_edges": task.graph.n_edges(),
        "ways": [quotient, full, sampled],
        "ratio_full_graph": full["cpu_seconds_per_step"] / quotient["cpu_seconds_per_step"],
        "ratio_sampled": sampled["cpu_seconds"] / quotient["cpu_seconds"],
        "sampled_reached": sampled["loss"] <= _NEAR * quotient["loss"],
        "largest_difference": float(gaps.max()),
    }
    notes = [
        "The data are synthetic. All ways start from the same weights and use Adam with the same "
        "settings; losses are over all instances.",
        f"The full graph does {sizes.n_full_steps} steps, whose losses are those of the quotient; "
        "its time to the same loss is that per step times the quotient's steps.",
        f"The sampled way takes steps until its loss is within {_NEAR - 1:.0%} of the quotient's, "
        f"or for {sizes.seconds_sampled:g} s; looking at its loss is not timed.",
        "PyTorch Geometric keeps a message for every edge: at AwA2's size the second layer alone "
        "would need over 80 GB, so the graph is smaller here. The quotient does not depend on the "
        "number of instances.",
    ]
    packages = ["torch", "torch-geometric"]
    return document("network", quick, results, notes, packages, [HGKTNetworkClassifier])


def _embedder(task: Task, sizes: Sizes) -> HGKTEmbedder:
    import torch

    from hgkt.network.layers import HGKTEmbedder

    widths = task.attributes.shape[1], task.targets.n_features, sizes.n_hidden
    return HGKTEmbedder(*widths, 1.0, generator=torch.Generator().manual_seed(0))


def _config(sizes: Sizes, n_steps: int) -> TrainingConfig:
    """Return settings under which the loss per feature has the paper's weight decay of 0.001."""
    from hgkt.network.train import TrainingConfig

    return TrainingConfig(
        optimizer="adam", device="cpu", mu=1.0, weight_decay=1e-3 * sizes.data.n_features,
        n_sampled=50, n_hidden=sizes.n_hidden, n_steps=n_steps,
    )  # fmt: skip


def _quotient_loss(task: Task) -> Any:
    import torch

    from hgkt.network.loss import QuotientLoss, SquaredObjective

    objective = SquaredObjective.build(task.targets)
    return QuotientLoss(
        task.quotient, task.attributes, objective, torch.device("cpu"), torch.float32
    )


def _train_quotient(task: Task, sizes: Sizes) -> tuple[dict[str, Any], list[float]]:
    from hgkt.network.train import Adam, TrainingRun

    loss, embedder = _quotient_loss(task), _embedder(task, sizes)
    run = TrainingRun(_config(sizes, sizes.n_steps), embedder, loss)
    solver, times, losses = Adam(run), [], []
    for _ in range(sizes.n_steps):
        times.append(timed(solver.step)[1].cpu)
        losses.append(float(run.losses[0, run.done - 1]) / sizes.data.n_features)
    return _way("quotient", times, float(loss(embedder).detach()) / sizes.data.n_features), losses


def _train_sampled(task: Task, sizes: Sizes, goal: float) -> dict[str, Any]:
    import torch

    from hgkt.network.loss import SampledLoss
    from hgkt.network.train import Adam, TrainingRun

    exact, embedder = _quotient_loss(task), _embedder(task, sizes)
    config = _config(sizes, 100 * sizes.n_steps)
    loss = SampledLoss(
        task.quotient, task.attributes, task.targets, task.instances, None, config,
        torch.device("cpu"), torch.float32,
    )  # fmt: skip
    run = TrainingRun(config, embedder, loss)
    solver = Adam(run)
    times: list[float] = []
    end = time.perf_counter() + sizes.seconds_sampled
    while run.done < run.limit and time.perf_counter() < end:
        times += [timed(solver.step)[1].cpu for _ in range(_EVERY)]
        with torch.no_grad():
            value = float(exact(embedder)) / sizes.data.n_features
        if value <= goal:
            break
    return _way("drawn batches", times, value)


def _train_full_graph(task: Task, sizes: Sizes) -> tuple[dict[str, Any], list[float]]:
    """Train two SAGEConv layers over all instances, from the same weights."""
    import torch
    from torch_geometric.nn import SAGEConv

    config, embedder = _config(sizes, sizes.n_full_steps), _embedder(task, sizes)
    data = task.graph.to_pyg(task.attributes, max_edges=None)
    nodes = torch.cat([store.instance for store in data.node_stores])
    plain = data.to_homogeneous()
    layers = torch.nn.ModuleList()
    for layer in (embedder.layer1, embedder.layer2):
        own, other = layer.weight.detach().chunk(2, dim=1)
        conv = SAGEConv(own.shape[1], len(own), aggr="mean")
        parts = {"lin_l.weight": layer.mu * other, "lin_l.bias": layer.bias, "lin_r.weight": own}
        conv.load_state_dict({name: part.detach().clone() for name, part in parts.items()})
        layers.append(conv)
    X, codes = task.instances
    features, states = torch.as_tensor(X), plain.x.float()
    place = torch.empty(len(nodes), dtype=torch.long)
    place[nodes] = torch.arange(len(nodes))
    representatives = place[torch.as_tensor(task.graph.representatives.copy())]
    own_class = representatives[torch.as_tensor(codes)]
    optimizer = torch.optim.Adam(
        layers.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        hidden = states
        for conv in layers:
            hidden = torch.nn.functional.leaky_relu(conv(hidden, plain.edge_index), 0.2)
        loss = (hidden[own_class] - features).square().sum(dim=1).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    times, losses = [], []
    for _ in range(sizes.n_full_steps):
        loss, took = timed(step)
        times.append(took.cpu)
        losses.append(float(loss) / sizes.data.n_features)
    return _way("full graph, PyTorch Geometric", times, losses[-1]), losses


def _way(name: str, times: list[float], loss: float) -> dict[str, Any]:
    return {
        "way": name,
        "n_steps": len(times),
        "cpu_seconds_per_step": float(np.median(times)),
        "cpu_seconds": float(np.sum(times)),
        "loss": loss,
    }


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
