"""The embedder in torch and its twin in NumPy; classes that come later."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.graph import ClassNeighbors, HeterogeneousGraph, Quotient, class_graph
from hgkt.network.layers import HGKTEmbedder
from hgkt.network.weights import ACTIVATIONS, EmbedderWeights

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
NEIGHBORS = [[1, 2], [0], [3, 0], [0]]


def make_embedder(dtype: torch.dtype = torch.float64, output: str = "relu") -> HGKTEmbedder:
    generator = torch.Generator().manual_seed(1)
    embedder = HGKTEmbedder(6, 5, 7, 0.6, output, dtype, generator)
    with torch.no_grad():
        embedder.layer1.bias.uniform_(-0.5, 0.5, generator=generator)
        embedder.layer2.bias.uniform_(-0.5, 0.5, generator=generator)
    return embedder


def make_mixing() -> np.ndarray:
    return Quotient([4, 1, 2, 3], ClassNeighbors.from_rows(NEIGHBORS)).mixing().toarray()


ATTRIBUTES = np.random.default_rng(0).normal(size=(4, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("output", ACTIVATIONS)
def test_numpy_twin_equals_torch(dtype: torch.dtype, output: str) -> None:
    embedder = make_embedder(dtype, output)
    mixing = make_mixing()
    tensors = torch.tensor(ATTRIBUTES, dtype=dtype), torch.tensor(mixing, dtype=dtype)
    with torch.no_grad():
        ordinary, representative = embedder.forward_quotient(*tensors)
    weights = EmbedderWeights.from_module(embedder)
    for matrix in (mixing, Quotient([4, 1, 2, 3], ClassNeighbors.from_rows(NEIGHBORS)).mixing()):
        seen = weights.embed_seen(ATTRIBUTES, matrix, ordinary=True)
        assert seen.representative.dtype == representative.numpy().dtype
        for ours, theirs in ((seen.ordinary, ordinary), (seen.representative, representative)):
            assert theirs is not None
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=TOLERANCE[dtype])


def test_embedder_without_ordinary_rows_gives_the_same_representatives() -> None:
    embedder, attributes = make_embedder(), torch.from_numpy(ATTRIBUTES)
    mixing = torch.from_numpy(make_mixing())
    full = embedder.forward_quotient(attributes, mixing).representative
    ordinary, representative = embedder.forward_quotient(attributes, mixing, ordinary=False)
    assert ordinary is None
    torch.testing.assert_close(representative, full)
    seen = EmbedderWeights.from_module(embedder).embed_seen(ATTRIBUTES, make_mixing())
    assert seen.ordinary is None
    np.testing.assert_allclose(seen.representative, full.detach().numpy(), atol=1e-12)


def test_embed_new_equals_message_passing_on_the_extended_graph() -> None:
    """A new class is one node that reads its neighbours' representatives and is read by nobody."""
    codes = np.repeat(np.arange(4), [4, 1, 2, 3])
    graph = HeterogeneousGraph(codes, [0, 4, 5, 8], ClassNeighbors.from_rows(NEIGHBORS))
    new, new_neighbors = np.random.default_rng(1).normal(size=(2, 6)), [[0, 2], [3, 1]]
    n = graph.n_instances
    mixing = np.zeros((n + 2, n + 2))
    for i in range(n):
        mixing[i, graph.neighbors_of(i)] = 1 / len(graph.neighbors_of(i))
    for i, row in enumerate(new_neighbors):
        mixing[n + i, graph.representatives[row]] = 1 / len(row)
    weights = EmbedderWeights.from_module(make_embedder())
    states = np.concatenate([ATTRIBUTES[codes], new])
    for w, b, slope in ((weights.w1, weights.b1, 0.2), (weights.w2, weights.b2, 0.0)):
        states = np.concatenate([states, 0.6 * mixing @ states], axis=1) @ w.T + b
        states = np.where(states > 0, states, slope * states)
    seen = weights.embed_seen(ATTRIBUTES, Quotient.from_graph(graph).mixing())
    np.testing.assert_allclose(seen.representative, states[graph.representatives], atol=1e-12)
    embedded = weights.embed_new(new, new_neighbors, ATTRIBUTES, seen.hidden)
    np.testing.assert_allclose(embedded, states[n:], atol=1e-12)


def test_embed_new_without_neighbors_is_the_perceptron() -> None:
    weights = EmbedderWeights.from_module(make_embedder())
    new = np.random.default_rng(2).normal(size=(3, 6))
    hidden = np.ones((4, 7))
    embedded = weights.embed_new(new, np.empty((3, 0), dtype=int), ATTRIBUTES, hidden)
    values = new @ (weights.w1[:, :6] + 0.6 * weights.w1[:, 6:]).T + weights.b1
    values = np.maximum(values, 0.2 * values)
    values = values @ (weights.w2[:, :7] + 0.6 * weights.w2[:, 7:]).T + weights.b2
    np.testing.assert_allclose(embedded, np.maximum(values, 0), atol=1e-12)


def test_embed_new_takes_ragged_neighbors_row_by_row() -> None:
    weights = EmbedderWeights.from_module(make_embedder())
    new, hidden = np.random.default_rng(3).normal(size=(3, 6)), np.random.rand(4, 7)
    rows = [[0, 1, 2], [], [3]]
    together = weights.embed_new(new, ClassNeighbors.from_rows(rows), ATTRIBUTES, hidden)
    for index, row in enumerate(rows):
        alone = weights.embed_new(new[[index]], [row], ATTRIBUTES, hidden)
        np.testing.assert_allclose(together[[index]], alone, atol=1e-12)


def test_embed_new_refuses_with_a_sentence() -> None:
    weights = EmbedderWeights.from_module(make_embedder())
    hidden = np.ones((4, 7))
    with pytest.raises(DataError, match="attributes must have 6 columns"):
        weights.embed_new(np.ones((1, 5)), [[0]], ATTRIBUTES, hidden)
    with pytest.raises(DataError, match="2 new classes and neighbours of 1"):
        weights.embed_new(np.ones((2, 6)), [[0]], ATTRIBUTES, hidden)
    with pytest.raises(DataError, match="class 0 has neighbour 4; classes 0 to 3"):
        weights.embed_new(np.ones((1, 6)), [[4]], ATTRIBUTES, hidden)


def test_weights_survive_their_arrays() -> None:
    weights = EmbedderWeights.from_module(make_embedder())
    again = EmbedderWeights.from_arrays(weights.arrays(), 0.6, "relu")
    mixing = make_mixing()
    np.testing.assert_array_equal(
        again.embed_seen(ATTRIBUTES, mixing).representative,
        weights.embed_seen(ATTRIBUTES, mixing).representative,
    )


def test_weights_are_a_copy_of_the_module() -> None:
    embedder = make_embedder()
    weights = EmbedderWeights.from_module(embedder)
    before = weights.w1.copy()
    with torch.no_grad():
        embedder.layer1.weight.zero_()
    np.testing.assert_array_equal(weights.w1, before)


@pytest.mark.endure
def test_embedding_classes_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np; from hgkt.network.weights import EmbedderWeights; "
        "from hgkt.graph import nearest_classes; "
        "w = EmbedderWeights(np.ones((1, 2)), np.zeros(1), np.ones((1, 2)), np.zeros(1)); "
        "n = nearest_classes([[2.0]], [[1.0]], 2, 'attributes'); "
        "w.embed_new([[2.0]], n, [[1.0]], [[4.0]]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_embedder_is_indifferent_to_the_order_of_classes() -> None:
    rng = np.random.default_rng(4)
    order = rng.permutation(5)
    features, attributes, counts = rng.random((5, 3)), rng.random((5, 6)), np.array([3, 1, 4, 2, 6])
    weights = EmbedderWeights.from_module(make_embedder())
    first, second = (
        weights.embed_seen(
            attributes[rows],
            Quotient(counts[rows], class_graph(features[rows], 2, "euclidean")).mixing(),
        ).representative
        for rows in (np.arange(5), order)
    )
    np.testing.assert_allclose(first[order], second, atol=1e-12)
