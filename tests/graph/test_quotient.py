"""The quotient equals message passing over every instance: values and gradients."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.graph import AGGREGATIONS, ClassNeighbors, HeterogeneousGraph, Quotient, class_graph
from hgkt.network.layers import HGKTEmbedder

COUNTS = [[4, 1, 2, 6, 3], [1, 1, 1], [2, 2, 5, 2], [1, 7]]


def random_graph(seed: int, k: int, symmetric: bool, intra: bool = True) -> HeterogeneousGraph:
    rng = np.random.default_rng(seed)
    counts = COUNTS[seed % len(COUNTS)]
    codes = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    chosen = [rng.choice(np.flatnonzero(codes == c)) for c in range(len(counts))]
    neighbors = (
        class_graph(rng.random((len(counts), 3)), k, "euclidean", directed=not symmetric)
        if k
        else ClassNeighbors.empty(len(counts))
    )
    return HeterogeneousGraph(codes, chosen, neighbors, intra).validate()


def instance_mixing(graph: HeterogeneousGraph, aggregation: str) -> np.ndarray:
    """Write the definition out, instance by instance."""
    n = graph.n_instances
    mixing = np.zeros((n, n))
    for i in range(n):
        code = graph.codes[i]
        is_representative = graph.representatives[code] == i
        intra = [j for j in range(n) if j != i and graph.codes[j] == code and graph.intra]
        inter = [graph.representatives[c] for c in graph.neighbors.of(code)]
        kinds = [intra, inter] if is_representative else [intra]
        if aggregation == "union":
            kinds = [[j for kind in kinds for j in kind]]
        elif aggregation == "inter-only" and is_representative:
            kinds = [inter]
        kinds = [kind for kind in kinds if kind] or [[i]]
        for kind in kinds:
            for j in kind:
                mixing[i, j] += 1 / len(kind) / len(kinds)
    return mixing


def make_embedder(seed: int, activation: str = "leaky_relu") -> HGKTEmbedder:
    generator = torch.Generator().manual_seed(seed)
    embedder = HGKTEmbedder(3, 5, 4, 0.7, activation, torch.float64, generator)
    embedder.layer1.activation = activation
    with torch.no_grad():
        for parameter in (embedder.layer1.bias, embedder.layer2.bias):
            parameter.copy_(torch.rand(parameter.shape, generator=generator, dtype=torch.float64))
    return embedder


def full_forward(
    embedder: HGKTEmbedder, states: torch.Tensor, mixing: torch.Tensor
) -> torch.Tensor:
    for layer in (embedder.layer1, embedder.layer2):
        joined = torch.cat([states, 0.7 * (mixing @ states)], dim=1) @ layer.weight.T + layer.bias
        states = torch.where(joined > 0, joined, 0.2 * joined)
    return states


def quotient_rows(graph: HeterogeneousGraph, embeddings: tuple) -> torch.Tensor:
    ordinary, representative = embeddings
    roles = torch.from_numpy(graph.is_representative)[:, None]
    codes = graph.codes.copy()
    return torch.where(roles, representative[codes], ordinary[codes])


def assert_same(embedder: HGKTEmbedder, first: torch.Tensor, second: torch.Tensor) -> None:
    """Compare values, and gradients of a random function of all nodes."""
    torch.testing.assert_close(first, second, rtol=0, atol=1e-10)
    weights = torch.rand(first.shape, dtype=first.dtype)
    parameters = list(embedder.parameters())
    gradients = [
        torch.autograd.grad((weights * rows**2).sum(), parameters, retain_graph=True)
        for rows in (first, second)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
        assert one.abs().max() > 0


CASES = list(product(range(8), (0, 2, 50), (False, True), (True, False)))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_quotient_equals_dense_message_passing(aggregation: str) -> None:
    for seed, k, symmetric, intra in CASES:
        graph, embedder = random_graph(seed, k, symmetric, intra), make_embedder(seed)
        attributes = torch.rand(graph.n_classes, 3, dtype=torch.float64)
        mixing = torch.from_numpy(instance_mixing(graph, aggregation))
        full = full_forward(embedder, attributes[graph.codes.copy()], mixing)
        dense = torch.from_numpy(Quotient.from_graph(graph, aggregation).mixing().toarray())
        rows = quotient_rows(graph, embedder.forward_quotient(attributes, dense))
        assert_same(embedder, full, rows)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("symmetric", [False, True])
def test_quotient_equals_pytorch_geometric(seed: int, symmetric: bool) -> None:
    from torch_geometric.nn import SAGEConv  # seconds, which collecting should not take

    graph, embedder = random_graph(seed, 2, symmetric), make_embedder(seed)
    attributes = np.random.default_rng(seed).random((graph.n_classes, 3))
    data = graph.to_pyg(attributes)
    instances = torch.cat([store.instance for store in data.node_stores])
    plain = data.to_homogeneous()
    states = plain.x
    for layer in (embedder.layer1, embedder.layer2):
        own, other = layer.weight.chunk(2, dim=1)
        conv = SAGEConv(own.shape[1], len(own), aggr="mean").double()
        # SAGEConv adds two matrices; the same function with μ folded into the second.
        parts = {"lin_l.weight": layer.mu * other, "lin_l.bias": layer.bias, "lin_r.weight": own}
        states = torch.func.functional_call(conv, parts, (states, plain.edge_index))
        states = torch.nn.functional.leaky_relu(states, 0.2)
    full = torch.empty_like(states).index_copy(0, instances, states)
    dense = torch.from_numpy(Quotient.from_graph(graph).mixing().toarray())
    rows = quotient_rows(graph, embedder.forward_quotient(torch.from_numpy(attributes), dense))
    assert_same(embedder, full, rows)


def test_quotient_matches_the_formulas_of_the_paper() -> None:
    quotient = Quotient([5, 3, 4], ClassNeighbors.from_rows([[1, 2], [0], [1]]))
    p = np.random.default_rng(0).random((3, 2))
    means = quotient.mixing() @ np.concatenate([p, p])
    np.testing.assert_allclose(means[:3], p)
    np.testing.assert_allclose(means[3], (4 * p[0] + p[1] + p[2]) / 6)
    u, r = np.random.default_rng(1).random((2, 3, 2))
    means = quotient.mixing() @ np.concatenate([u, r])
    np.testing.assert_allclose(means[0], (3 * u[0] + r[0]) / 4)
    np.testing.assert_allclose(means[4], (2 * u[1] + r[0]) / 3)


def test_quotient_mixing_is_row_stochastic_and_small() -> None:
    for aggregation, (seed, k, symmetric, intra) in product(AGGREGATIONS, CASES):
        graph = random_graph(seed, k, symmetric, intra)
        mixing = Quotient.from_graph(graph, aggregation).mixing()
        np.testing.assert_allclose(mixing.sum(axis=1), 1.0, atol=1e-14)
        assert (mixing.data > 0).all()
        assert mixing.nnz <= 4 * graph.n_classes + graph.n_edges("inter")


def test_quotient_without_inter_class_edges_is_a_perceptron() -> None:
    embedder, attributes = make_embedder(0), torch.rand(3, 3, dtype=torch.float64)
    dense = torch.from_numpy(Quotient([5, 1, 2], ClassNeighbors.empty(3)).mixing().toarray())
    ordinary, representative = embedder.forward_quotient(attributes, dense)
    states = attributes
    for layer in (embedder.layer1, embedder.layer2):
        own, other = layer.weight.chunk(2, dim=1)
        states = torch.nn.functional.leaky_relu(states @ (own + 0.7 * other).T + layer.bias, 0.2)
    torch.testing.assert_close(representative, states)
    torch.testing.assert_close(ordinary, states)


def test_quotient_refuses_with_a_sentence() -> None:
    empty = ClassNeighbors.empty(2)
    with pytest.raises(DataError, match="class 1 has no instance"):
        Quotient([3, 0], empty)
    with pytest.raises(DataError, match="3 counts and 2 classes"):
        Quotient([3, 1, 1], empty)
    with pytest.raises(DataError, match="aggregation must be one of"):
        Quotient([3, 1], empty, aggregation="max")
