"""Training: exact on the quotient, right in expectation when sampled, deterministic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.graph import HeterogeneousGraph, Quotient, class_graph
from hgkt.network.layers import HGKTEmbedder
from hgkt.network.loss import QuotientLoss, SampledLoss, SquaredObjective, Targets
from hgkt.network.train import TrainingConfig, train_embedder

COUNTS = [6, 1, 2, 9, 4]
RNG = np.random.default_rng(0)
CODES = RNG.permutation(np.repeat(np.arange(5), COUNTS))
X = np.abs(RNG.normal(size=(22, 4))) + CODES[:, None] * 0.3
P = RNG.random((5, 3))
CHOSEN = np.array([np.flatnonzero(c == CODES)[0] for c in range(5)])
GRAPH = HeterogeneousGraph(CODES, CHOSEN, class_graph(X[CHOSEN], 2, "euclidean")).validate()
QUOTIENT = Quotient.from_graph(GRAPH)
TARGETS = Targets.from_features(X, CODES, 5, CHOSEN)
CONFIG = TrainingConfig(
    n_steps=40,
    n_hidden=8,
    mu=0.7,
    learning_rate=0.01,
    dtype="float64",
    device="cpu",
    seed=3,
    optimizer="adam",
)
CPU = torch.device("cpu")


def train(config: TrainingConfig = CONFIG, **options: Any) -> Any:
    if config.n_sampled is not None:
        options = {"instances": (X, CODES), "representatives": CHOSEN, **options}
    return train_embedder(QUOTIENT, P, TARGETS, config, **options)


def make_embedder(activation: str = "leaky_relu") -> HGKTEmbedder:
    generator = torch.Generator().manual_seed(3)
    embedder = HGKTEmbedder(3, 4, 8, 0.7, activation, torch.float64, generator)
    embedder.layer1.activation = activation
    return embedder


def instance_mixing() -> torch.Tensor:
    mixing = np.zeros((22, 22))
    for i in range(22):
        mixing[i, GRAPH.neighbors_of(i)] = 1 / len(GRAPH.neighbors_of(i))
    return torch.from_numpy(mixing)


def full_graph_loss(embedder: HGKTEmbedder, loss_nodes: str) -> torch.Tensor:
    """Mean squared error over instances by message passing over all of them."""
    mixing, states = instance_mixing(), torch.from_numpy(P[CODES])
    for layer in (embedder.layer1, embedder.layer2):
        states = layer(states, mixing @ states)
    rows = {
        "class": states[CHOSEN[CODES]] - torch.from_numpy(X),
        "instance": states - torch.from_numpy(X),
        "representative": (states - torch.from_numpy(X))[CHOSEN],
    }[loss_nodes]
    return rows.square().sum(dim=1).mean()


@pytest.mark.parametrize("loss_nodes", ["class", "instance", "representative"])
def test_quotient_training_equals_training_on_all_instances(loss_nodes: str) -> None:
    result = train(replace(CONFIG, loss_nodes=loss_nodes))
    embedder = make_embedder()
    optimizer = torch.optim.Adam(embedder.parameters(), lr=0.01, weight_decay=1e-3, fused=False)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = full_graph_loss(embedder, loss_nodes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    np.testing.assert_allclose(result.losses, losses, rtol=1e-9)
    for name, parameter in embedder.named_weights().items():
        ours = result.weights.arrays()[name]
        np.testing.assert_allclose(ours, parameter.detach().numpy(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_sampled", [None, 3])
def test_training_is_deterministic_and_leaves_global_generators_alone(n_sampled: Any) -> None:
    config = replace(CONFIG, dtype="float32", batch_size=5, n_sampled=n_sampled)
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = train(config)
    assert torch.equal(torch_state, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])
    torch.manual_seed(99)
    second, other = train(config), train(replace(config, seed=4))
    assert first.weights.w2.dtype == np.float32
    for name, array in first.weights.arrays().items():
        np.testing.assert_array_equal(array, second.weights.arrays()[name])
        assert (array != other.weights.arrays()[name]).any()
    np.testing.assert_array_equal(first.losses, second.losses)


def test_training_in_float32_is_close_to_float64() -> None:
    double, single = train(), train(replace(CONFIG, dtype="float32"))
    # The initial weights differ with the type of the draws, the minimum does not.
    assert single.weights.w1.dtype == np.float32
    longer = [train(replace(CONFIG, n_steps=1500, dtype=t)) for t in ("float32", "float64")]
    assert longer[0].losses[-1] == pytest.approx(longer[1].losses[-1], rel=2e-2)
    assert double.losses.dtype == single.losses.dtype == np.float64


def test_training_without_decay_reaches_the_class_means() -> None:
    config = replace(
        CONFIG, n_steps=3000, weight_decay=0.0, n_hidden=32, output_activation="linear"
    )
    quotient = Quotient(COUNTS, QUOTIENT.neighbors, aggregation="per-type")
    result = train_embedder(quotient, P, TARGETS, config)
    floor = SquaredObjective.build(TARGETS).constant
    assert result.losses[-1] == pytest.approx(floor, rel=1e-3)
    z = result.weights.embed_seen(P, quotient.mixing()).representative
    np.testing.assert_allclose(z, TARGETS.means, atol=0.05)


@pytest.mark.parametrize("loss_nodes", ["class", "instance"])
def test_sampled_embedding_is_unbiased_in_a_linear_net(loss_nodes: str) -> None:
    """Values, and gradients of a function linear in the embedding, have the exact expectation."""
    config = replace(CONFIG, n_sampled=4, loss_nodes=loss_nodes)
    embedder, n_repeats = make_embedder("linear"), 4000
    sampled = SampledLoss(QUOTIENT, P, TARGETS, (X, CODES), CHOSEN, config, CPU, torch.float64)
    dense = torch.from_numpy(QUOTIENT.mixing().toarray())
    ordinary, representative = embedder.forward_quotient(torch.from_numpy(P), dense)
    assert ordinary is not None
    directions = torch.randn(4, dtype=torch.float64)
    for code, is_representative in ((0, True), (3, True), (3, False), (1, True)):
        exact = (representative if is_representative else ordinary)[code]
        nodes = np.full(n_repeats, code), np.full(n_repeats, is_representative)
        rows = sampled.embed(embedder, *nodes, np.random.default_rng(code))
        error = rows.std(dim=0) / n_repeats**0.5
        assert (abs(rows.mean(dim=0) - exact) <= 5 * error + 1e-12).all()
        parameters = list(embedder.parameters())
        gradients = [
            torch.autograd.grad(mean @ directions, parameters, retain_graph=True)
            for mean in (rows.mean(dim=0), exact)
        ]
        for ours, theirs in zip(*gradients, strict=True):
            assert (ours - theirs).norm() <= 0.03 * theirs.norm() + 1e-12


def sampled_gradient(n_sampled: int, n_repeats: int) -> list[torch.Tensor]:
    config = replace(CONFIG, n_sampled=n_sampled, batch_size=22)
    embedder = make_embedder("linear")
    sampled = SampledLoss(QUOTIENT, P, TARGETS, (X, CODES), CHOSEN, config, CPU, torch.float64)
    loss = torch.stack([sampled(embedder, step) for step in range(n_repeats)]).mean()
    return list(torch.autograd.grad(loss, list(embedder.parameters())))


def test_sampled_gradient_approaches_the_quotient_gradient() -> None:
    """The squared loss adds the variance of the draws, which falls as 1/S."""
    embedder = make_embedder("linear")
    exact_loss = QuotientLoss(QUOTIENT, P, SquaredObjective.build(TARGETS), CPU, torch.float64)
    exact = torch.autograd.grad(exact_loss(embedder), list(embedder.parameters()))

    def distance(gradient: list[torch.Tensor]) -> float:
        pairs = zip(gradient, exact, strict=True)
        return float(sum((g - e).square().sum() for g, e in pairs)) ** 0.5

    scale = float(sum(e.square().sum() for e in exact)) ** 0.5
    few, many = distance(sampled_gradient(2, 300)), distance(sampled_gradient(100, 60))
    assert many < 0.01 * scale
    assert many < 0.3 * few


@pytest.mark.endure
def test_sampled_training_reaches_the_minimum_of_the_quotient() -> None:
    config = replace(CONFIG, n_steps=1500, learning_rate=0.005)
    exact = train(config)
    sampled = train(replace(config, batch_size=11, n_sampled=50, n_steps=3000))
    objective = SquaredObjective.build(TARGETS)
    losses = [
        objective.numpy_loss(result.weights.embed_seen(P, QUOTIENT.mixing()).representative)
        for result in (exact, sampled)
    ]
    start = exact.losses[0]
    assert losses[0] < 0.5 * start
    assert losses[1] - losses[0] < 0.02 * (start - losses[0])


def test_sampled_epoch_sees_every_instance_once() -> None:
    config = replace(CONFIG, n_sampled=50, batch_size=5)
    loss = SampledLoss(QUOTIENT, P, TARGETS, (X, CODES), CHOSEN, config, CPU, torch.float64)
    assert loss.steps_per_epoch == config.steps_per_epoch(22) == 5
    epochs = [
        np.concatenate([loss._batch(step) for step in range(5 * e, 5 * e + 5)]) for e in (0, 1)
    ]
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(22))
    assert (epochs[0] != epochs[1]).any()


@pytest.mark.parametrize("loss_nodes", ["class", "instance", "representative"])
@pytest.mark.parametrize("weighting", ["count", "uniform"])
def test_sampled_loss_over_an_epoch_equals_the_quotient_loss(
    loss_nodes: str, weighting: str
) -> None:
    """With μ = 0 draws have no effect, so one batch of all instances is the exact loss."""
    config = replace(
        CONFIG, n_sampled=50, mu=0.0, loss_nodes=loss_nodes, weighting=weighting
    )  # fmt: skip
    generator = torch.Generator().manual_seed(3)
    embedder = HGKTEmbedder(3, 4, 8, 0.0, dtype=torch.float64, generator=generator)
    sampled = SampledLoss(QUOTIENT, P, TARGETS, (X, CODES), CHOSEN, config, CPU, torch.float64)
    objective = SquaredObjective.build(TARGETS, loss_nodes, weighting)
    exact = QuotientLoss(QUOTIENT, P, objective, CPU, torch.float64)
    assert sampled(embedder, 0).item() == pytest.approx(exact(embedder).item(), rel=1e-12)


def test_snapshots_equal_shorter_runs() -> None:
    snapshots: dict[int, Any] = {}
    config = replace(CONFIG, snapshot_steps=(0, 7, 40))
    result = train(config, on_snapshot=lambda step, weights: snapshots.update({step: weights}))
    assert list(snapshots) == [0, 7, 40]
    for step, weights in snapshots.items():
        shorter = train(replace(CONFIG, n_steps=step)).weights
        for name, array in weights.arrays().items():
            np.testing.assert_array_equal(array, shorter.arrays()[name])
    np.testing.assert_array_equal(snapshots[40].w1, result.weights.w1)


def test_progress_reports_stage_steps_and_loss() -> None:
    calls: list[Any] = []
    result = train(progress=lambda *values: calls.append(values))
    assert [call[:3] for call in calls] == [("train", 20, 40), ("train", 40, 40)]
    assert calls[-1][3] == {"loss": result.losses[-1]}


def test_training_that_diverges_names_the_step_and_what_to_lower() -> None:
    with pytest.raises(DataError, match=r"the loss is (inf|nan) at step \d+; lower learning_rate"):
        train(replace(CONFIG, learning_rate=1e200))
    with pytest.raises(DataError, match=r"(loss|weights).*lower learning_rate \(now 1e\+308\)"):
        train(replace(CONFIG, learning_rate=1e308, n_steps=1))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_training_without_cuda_says_so() -> None:
    with pytest.raises(DataError, match="torch finds no CUDA device"):
        train(replace(CONFIG, device="cuda"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("n_sampled", [None, 50])
def test_training_on_cuda_agrees_with_the_cpu(n_sampled: Any) -> None:
    config = replace(CONFIG, n_sampled=n_sampled)
    on_cpu, on_cuda = train(config), train(replace(config, device="cuda"))
    np.testing.assert_allclose(on_cpu.losses, on_cuda.losses, rtol=1e-8)
    again = train(replace(config, device="cuda"))
    np.testing.assert_array_equal(again.weights.w2, on_cuda.weights.w2)


def test_training_refuses_with_a_sentence() -> None:
    with pytest.raises(DataError, match="the graph has 5 classes, attributes 4 rows"):
        train_embedder(QUOTIENT, P[:4], TARGETS, CONFIG)
    with pytest.raises(DataError, match="n_sampled needs instances"):
        train_embedder(QUOTIENT, P, TARGETS, replace(CONFIG, n_sampled=50))
    with pytest.raises(DataError, match="21 rows of features, 21 codes and counts of 22"):
        train(replace(CONFIG, n_sampled=50), instances=(X[1:], CODES[1:]))
    with pytest.raises(DataError, match="attributes contain NaN in row 0"):
        train_embedder(QUOTIENT, np.full((5, 3), np.nan), TARGETS, CONFIG)
    with pytest.raises(DataError, match="n_sampled must be an integer"):
        TrainingConfig(n_sampled=0)
    with pytest.raises(DataError, match="learning_rate must be a number"):
        TrainingConfig(learning_rate=0.0)
    with pytest.raises(DataError, match="snapshot_steps must be an integer"):
        TrainingConfig(n_steps=10, snapshot_steps=(11,))
