"""HGKT as two ONNX graphs: attributes to class embedding, features and class table to scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hgkt._geometry import FeatureMap, power_of
from hgkt.closed_form.kernels import ClassKernel
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.export.builder import GraphBuilder
from hgkt.network.transfer import NetworkTransfer
from hgkt.network.weights import NEGATIVE_SLOPE, EmbedderWeights

_WIDE = np.float64  # attributes and kernels are float64 in the library too


def embedder_graph(transfer: ClosedFormTransfer | NetworkTransfer) -> Any:
    """Return the model from ``attributes`` (U, d) float64 to ``embeddings`` (U, D)."""
    graph = GraphBuilder("hgkt embedder")
    if isinstance(transfer, ClosedFormTransfer):
        n_attributes = sum(block.shape[1] for block in transfer.kernel.references)
        attributes = graph.input("attributes", _WIDE, ["n_classes", n_attributes])
        kernel = _kernel(graph, attributes, transfer.kernel)
        embedding = graph.matmul(kernel, graph.constant(transfer.dual, _WIDE))
        dtype: DTypeLike = transfer.dtype
    else:
        n_attributes = transfer.attributes.shape[1]
        attributes = graph.input("attributes", _WIDE, ["n_classes", n_attributes])
        embedding = _network_embedding(graph, attributes, transfer)
        dtype = transfer.seen.representative.dtype
    width = _embedding_width(transfer)
    return graph.finish(graph.cast(embedding, dtype), "embeddings", dtype, ["n_classes", width])


def scorer_graph(
    transfer: ClosedFormTransfer | NetworkTransfer, n_features: int, calibration: float
) -> Any:
    """Return the model from ``features``, ``embeddings`` and ``penalised`` to ``scores``.

    ``penalised`` (C,) says which classes pay the calibration γ: the seen ones. The class table is
    an input, so classes can be added to a model that was exported before they were known.
    """
    graph = GraphBuilder("hgkt scorer")
    dtype = _score_dtype(transfer)
    features = graph.input("features", dtype, ["n_rows", n_features])
    table = graph.input("embeddings", dtype, ["n_classes", _embedding_width(transfer)])
    penalised = graph.input("penalised", np.bool_, ["n_classes"])
    rows = _mapped(graph, features, transfer.settings.feature_map, dtype)
    power = 1.0
    if isinstance(transfer, ClosedFormTransfer):
        rows = graph.sub(rows, graph.constant(transfer.center, dtype))
        rows = graph.matmul(rows, graph.constant(transfer.projection, dtype))
        power = transfer.settings.norm_power
    if transfer.settings.metric == "euclidean":
        scores = graph.node("Neg", graph.squared_distances(rows, table))
    else:
        scores = _cosines(graph, rows, table, power, dtype)
    penalty = graph.mul(graph.cast(penalised, dtype), graph.constant(calibration, dtype))
    return graph.finish(graph.sub(scores, penalty), "scores", dtype, ["n_rows", "n_classes"])


def _score_dtype(transfer: ClosedFormTransfer | NetworkTransfer) -> DTypeLike:
    if isinstance(transfer, ClosedFormTransfer):
        return transfer.dtype
    return transfer.seen.representative.dtype


def _embedding_width(transfer: ClosedFormTransfer | NetworkTransfer) -> int:
    if isinstance(transfer, ClosedFormTransfer):
        return int(transfer.dual.shape[1])
    return int(transfer.weights.w2.shape[0])


def _mapped(graph: GraphBuilder, rows: str, kind: FeatureMap, dtype: DTypeLike) -> str:
    """`hgkt._geometry.map_rows`: signed power, then unit rows."""
    power = power_of(kind)
    if power is None:
        return rows
    if power != 1.0:
        size = graph.node("Abs", rows)
        if power == 0.5:
            size = graph.node("Sqrt", size)
        else:
            size = graph.node("Pow", size, graph.constant(power, dtype))
        rows = graph.mul(graph.node("Sign", rows), size)
    return graph.div(rows, graph.row_norms(rows, dtype))


def _cosines(graph: GraphBuilder, rows: str, table: str, power: float, dtype: DTypeLike) -> str:
    """`hgkt.closed_form.metric.normalised_scores`."""
    lengths = graph.row_norms(table, dtype)
    if power != 1.0:
        lengths = graph.node("Pow", lengths, graph.constant(power, dtype))
    scaled = graph.div(table, lengths)
    products = graph.matmul(rows, graph.transpose(scaled))
    return graph.div(products, graph.row_norms(rows, dtype))


# ---------------------------------------------------------------------- the closed form's kernel
def _kernel(graph: GraphBuilder, attributes: str, kernel: ClassKernel) -> str:
    """`ClassKernel.__call__`: a weighted sum of one kernel per block."""
    widths = [block.shape[1] for block in kernel.references]
    parts: list[str] = [attributes]
    if len(widths) > 1:
        sizes = graph.constant(widths, np.int64)
        parts = graph.node("Split", attributes, sizes, axis=1, n_outputs=len(widths))
    total = ""
    for index, (part, weight) in enumerate(zip(parts, kernel.weights, strict=True)):
        if weight > 0:
            rows = _mapped(graph, part, kernel.attribute_map, _WIDE)
            term = _block_kernel(graph, rows, kernel, index)
            if weight != 1.0:
                term = graph.mul(term, graph.constant(weight, _WIDE))
            total = graph.add(total, term) if total else term
    return total


def _block_kernel(graph: GraphBuilder, rows: str, kernel: ClassKernel, index: int) -> str:
    references = kernel.references[index]
    if kernel.kind in ("linear", "quadratic"):
        products = graph.matmul(rows, graph.constant(references.T, _WIDE))
        if kernel.kind == "linear":
            return products
        shifted = graph.add(products, graph.constant(1.0, _WIDE))
        return graph.mul(graph.mul(shifted, shifted), graph.constant(0.25, _WIDE))
    squared = graph.squared_distances(rows, graph.constant(references, _WIDE))
    squared = graph.node("Max", squared, graph.constant(0.0, _WIDE))
    rate = graph.constant(-kernel.scale / kernel.medians[index], _WIDE)
    values = str(graph.node("Exp", graph.mul(squared, rate)))
    if kernel.kind == "rbf" or kernel.n_neighbors >= len(references):
        return values
    largest, _ = graph.node(
        "TopK", values, graph.constant([kernel.n_neighbors], np.int64), axis=1, n_outputs=2
    )
    smallest = graph.node("ReduceMin", largest, graph.constant([1], np.int64), keepdims=1)
    kept = graph.cast(graph.node("GreaterOrEqual", values, smallest), _WIDE)
    return graph.mul(values, kept)


# ---------------------------------------------------------------------- the network
def _network_embedding(graph: GraphBuilder, attributes: str, transfer: NetworkTransfer) -> str:
    """Algorithm 3: the nearest seen classes of a new one, then the two layers."""
    settings, weights = transfer.settings, transfer.weights
    dtype = weights.w1.dtype
    mapped = _mapped(graph, attributes, settings.attribute_map, _WIDE)
    rows = graph.cast(mapped, dtype)
    if settings.n_neighbors == 0:
        return _two_layers(graph, rows, None, transfer)
    if settings.unseen_space == "attributes":
        queries = graph.div(mapped, graph.row_norms(mapped, _WIDE))
        lengths = np.linalg.norm(transfer.attributes, axis=1, keepdims=True)
        references = transfer.attributes / np.where(lengths > 0, lengths, 1.0)
    else:
        queries = graph.cast(_two_layers(graph, rows, None, transfer), _WIDE)
        references = transfer.seen.representative
    distances = graph.squared_distances(queries, graph.constant(references, _WIDE))
    k = min(settings.n_neighbors, len(references))
    _, nearest = graph.node(
        "TopK", distances, graph.constant([k], np.int64), axis=1, largest=0, n_outputs=2
    )
    return _two_layers(graph, rows, nearest, transfer)


def _two_layers(
    graph: GraphBuilder, rows: str, nearest: str | None, transfer: NetworkTransfer
) -> str:
    """`EmbedderWeights.embed_new`; without neighbours a class averages over itself."""
    weights = transfer.weights
    dtype = weights.w1.dtype

    def means(references: Any, own: str) -> str:
        if nearest is None:
            return own
        gathered = graph.node("Gather", graph.constant(references, dtype), nearest, axis=0)
        return str(graph.node("ReduceMean", gathered, graph.constant([1], np.int64), keepdims=0))

    hidden = _layer(graph, rows, means(transfer.attributes, rows), weights, 1)
    return _layer(graph, hidden, means(transfer.seen.hidden, hidden), weights, 2)


def _layer(
    graph: GraphBuilder, states: str, means: str, weights: EmbedderWeights, number: int
) -> str:
    w, b = (weights.w1, weights.b1) if number == 1 else (weights.w2, weights.b2)
    activation = weights.activation if number == 1 else weights.output_activation
    scaled = graph.mul(means, graph.constant(weights.mu, w.dtype))
    joined = graph.node("Concat", states, scaled, axis=1)
    values = graph.add(graph.matmul(joined, graph.constant(w.T)), graph.constant(b))
    if activation == "linear":
        return values
    slope = NEGATIVE_SLOPE if activation == "leaky_relu" else 0.0
    return str(graph.node("LeakyRelu", values, alpha=slope))
