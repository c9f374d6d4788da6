"""HGKT as two ONNX graphs: attributes to class embedding, features and class table to scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hgkt._arrays import FeatureMap, power_of
from hgkt._validation import import_extra
from hgkt.calibration import Calibration, Temperatures
from hgkt.closed_form.kernels import ClassKernel, KernelTerm
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.network.transfer import NetworkTransfer
from hgkt.network.weights import NEGATIVE_SLOPE, EmbedderWeights
from hgkt.statistics import SpannedStatistics

OPSET = 18  # the first whose reductions take axes as an input throughout
IR_VERSION = 9  # old enough for runtimes of the last years
Shape = list[int | str]

_WIDE = np.float64  # attributes and kernels are float64 in the library too


class GraphBuilder:
    """Collects inputs, constants and nodes of one ONNX graph.

    Parameters
    ----------
    name : str
        Name of the graph.

    Examples
    --------
    >>> graph = GraphBuilder("double")
    >>> x = graph.input("x", np.float32, ["n", 2])
    >>> model = graph.finish(graph.mul(x, graph.constant([[2.0, 2.0]], np.float32)), "y",
    ...                      np.float32, ["n", 2])
    >>> [output.name for output in model.graph.output]
    ['y']
    """

    def __init__(self, name: str) -> None:
        self._onnx = import_extra("onnx", "onnx")
        self._name = name
        self._inputs: list[Any] = []
        self._constants: list[Any] = []
        self._nodes: list[Any] = []

    def input(self, name: str, dtype: DTypeLike, shape: Shape) -> str:
        """Declare an input; a string in `shape` is a free dimension."""
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def constant(self, values: ArrayLike, dtype: DTypeLike | None = None) -> str:
        """Store an array in the graph."""
        name = f"c{len(self._constants)}"
        array = np.ascontiguousarray(np.asarray(values, dtype=dtype))
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; returns the name of its output, or a list of names."""
        outputs = [f"{kind.lower()}{len(self._nodes)}_{i}" for i in range(n_outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0] if n_outputs == 1 else outputs

    # ------------------------------------------------------------------ arithmetic
    def add(self, a: str, b: str) -> str:
        """a + b."""
        return str(self.node("Add", a, b))

    def sub(self, a: str, b: str) -> str:
        """a − b."""
        return str(self.node("Sub", a, b))

    def mul(self, a: str, b: str) -> str:
        """a · b, elementwise."""
        return str(self.node("Mul", a, b))

    def div(self, a: str, b: str) -> str:
        """a / b."""
        return str(self.node("Div", a, b))

    def matmul(self, a: str, b: str) -> str:
        """a @ b."""
        return str(self.node("MatMul", a, b))

    def transpose(self, a: str) -> str:
        """aᵀ."""
        return str(self.node("Transpose", a, perm=[1, 0]))

    def cast(self, a: str, dtype: DTypeLike) -> str:
        """Change the number type."""
        return str(self.node("Cast", a, to=self._type(dtype)))

    def row_sums(self, a: str) -> str:
        """Sum of each row: (n, 1)."""
        return str(self.node("ReduceSum", a, self.constant([1], np.int64), keepdims=1))

    def row_norms(self, a: str, dtype: DTypeLike) -> str:
        """Length of each row (n, 1), with one in place of zero so that it can divide."""
        return self.nonzero(self.node("Sqrt", self.row_sums(self.mul(a, a))), dtype)

    def nonzero(self, a: str, dtype: DTypeLike) -> str:
        """The values, with one where they are not positive."""
        positive = self.node("Greater", a, self.constant(0.0, dtype))
        return str(self.node("Where", positive, a, self.constant(1.0, dtype)))

    def squared_distances(self, a: str, b: str) -> str:
        """‖a_i − b_j‖² of the rows of two matrices: (n, m)."""
        squares = self.add(
            self.row_sums(self.mul(a, a)), self.transpose(self.row_sums(self.mul(b, b)))
        )
        product = self.matmul(a, self.transpose(b))
        return self.sub(squares, self.add(product, product))

    # ------------------------------------------------------------------ the end
    def finish(self, output: str, name: str, dtype: DTypeLike, shape: Shape, **others: str) -> Any:
        """Return the checked model with an output called `name`; `others` are of its kind."""
        helper = self._onnx.helper
        outputs = {name: output, **others}
        for title, node in outputs.items():
            self._nodes.append(helper.make_node("Identity", [node], [title]))
        graph = helper.make_graph(
            self._nodes,
            self._name,
            self._inputs,
            [self._value(title, dtype, shape) for title in outputs],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="hgkt",
        )
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _value(self, name: str, dtype: DTypeLike, shape: Shape) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(dtype), shape)

    def _type(self, dtype: DTypeLike) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def embedder_graph(transfer: ClosedFormTransfer | NetworkTransfer) -> Any:
    """Return the model from ``attributes`` (U, d) float64 to ``embeddings`` (U, G·D)."""
    graph = GraphBuilder("hgkt embedder")
    if isinstance(transfer, ClosedFormTransfer):
        first = next(iter(transfer.kernel.references.values()))
        n_attributes = sum(block.shape[1] for block in first)
        attributes = graph.input("attributes", _WIDE, ["n_classes", n_attributes])
        kernel = _kernel(graph, attributes, transfer.kernel)
        duals = {
            name: graph.matmul(kernel, graph.constant(space.dual, _WIDE))
            for name, space in transfer.spaces.items()
        }
        embedding = _side_by_side(graph, duals, transfer, _WIDE)
    else:
        n_attributes = transfer.attributes.shape[1]
        attributes = graph.input("attributes", _WIDE, ["n_classes", n_attributes])
        embedding = _network_embedding(graph, attributes, transfer)
    dtype, width = _score_dtype(transfer), _embedding_width(transfer)
    return graph.finish(graph.cast(embedding, dtype), "embeddings", dtype, ["n_classes", width])


def scorer_graph(
    transfer: ClosedFormTransfer | NetworkTransfer,
    n_features: int,
    calibration: Calibration,
    temperatures: Temperatures | None = None,
    grown: bool = False,
) -> Any:
    """Return the model from ``features``, ``embeddings`` and ``penalised`` to ``scores``.

    With temperatures there is a second output, ``probabilities``. Where classes have `grown` there
    is a fourth input, ``learned`` (C,): the share of the offset of γ that each of them pays.

    ``penalised`` (C,) says which classes pay the calibration γ: the seen ones. The class table is
    an input, so classes can be added to a model that was exported before they were known; γ
    follows their number as it does in the model.
    """
    graph = GraphBuilder("hgkt scorer")
    dtype = _score_dtype(transfer)
    features = graph.input("features", dtype, ["n_rows", n_features])
    table = graph.input("embeddings", dtype, ["n_classes", _embedding_width(transfer)])
    penalised = graph.input("penalised", np.bool_, ["n_classes"])
    if isinstance(transfer, ClosedFormTransfer):
        scores = _closed_form_scores(graph, features, table, transfer)
    else:
        rows = _mapped(graph, features, transfer.settings.feature_map, dtype)
        scores = _compared(graph, rows, table, transfer.settings.metric, 1.0, dtype)
    paying = graph.cast(penalised, dtype)
    penalty = graph.mul(paying, _gamma(graph, paying, calibration, dtype))
    scores = graph.sub(scores, penalty)
    if grown:
        learned = graph.input("learned", dtype, ["n_classes"])
        offset = graph.constant(calibration.offset, dtype)
        scores = graph.sub(scores, graph.mul(learned, offset))
    others = {}
    if temperatures is not None:
        others["probabilities"] = _probabilities(graph, scores, paying, temperatures, dtype)
    return graph.finish(scores, "scores", dtype, ["n_rows", "n_classes"], **others)


def _probabilities(
    graph: GraphBuilder, scores: str, paying: str, temperatures: Temperatures, dtype: Any
) -> str:
    """`Temperatures.probabilities`: a row takes the temperature of its best class."""
    added = graph.constant(temperatures.added, dtype)
    more = graph.constant(temperatures.seen - temperatures.added, dtype)
    own = graph.add(added, graph.mul(paying, more))
    best = graph.node("ArgMax", scores, axis=1, keepdims=1)
    return str(graph.node("Softmax", graph.div(scores, graph.node("Gather", own, best)), axis=1))


def _gamma(graph: GraphBuilder, paying: str, calibration: Calibration, dtype: Any) -> str:
    """`Calibration.gamma` of the classes that pay and of those that do not."""
    offset, one = graph.constant(calibration.offset, dtype), graph.constant(1.0, dtype)
    if calibration.slope == 0.0:
        return offset
    n_paying = graph.node("ReduceSum", paying, keepdims=0)
    n_free = graph.node("ReduceSum", graph.sub(one, paying), keepdims=0)
    ratio = graph.node("Div", graph.node("Max", n_paying, one), graph.node("Max", n_free, one))
    slope = graph.constant(calibration.slope, dtype)
    return graph.add(offset, graph.mul(slope, graph.node("Log", ratio)))


def _closed_form_scores(
    graph: GraphBuilder, features: str, table: str, transfer: ClosedFormTransfer
) -> str:
    """`ClosedFormTransfer.features` and `score_mapped`: the weighted scores of every metric."""
    dtype, settings = transfer.dtype, transfer.settings
    projected = {}
    for name, space in transfer.spaces.items():
        rows = _mapped(graph, features, name, dtype)
        if isinstance(space.statistics, SpannedStatistics):
            rows = _coordinates(graph, rows, space.statistics.span, dtype)
        rows = graph.sub(rows, graph.constant(space.center, dtype))
        projected[name] = graph.matmul(rows, graph.constant(space.projection, dtype))
    terms = transfer.metric_scales()
    tables: list[str] = [table]
    if len(terms) > 1:
        widths = graph.constant([len(scale) for _, scale, _ in terms], np.int64)
        tables = graph.node("Split", table, widths, axis=1, n_outputs=len(terms))
    total = ""
    for part, (name, scale, weight) in zip(tables, terms, strict=True):
        rows = graph.mul(projected[name], graph.constant(scale, dtype))
        scores = _compared(graph, rows, part, settings.metric, settings.norm_power, dtype)
        if weight != 1.0:
            scores = graph.mul(scores, graph.constant(weight, dtype))
        total = graph.add(total, scores) if total else scores
    return total


def _coordinates(
    graph: GraphBuilder, rows: str, span: NDArray[np.float64], dtype: DTypeLike
) -> str:
    """`SpannedStatistics.coordinates`."""
    inside = graph.matmul(rows, graph.constant(span.T, dtype))
    rest = graph.sub(rows, graph.matmul(inside, graph.constant(span, dtype)))
    outside = graph.node("Sqrt", graph.row_sums(graph.mul(rest, rest)))
    return str(graph.node("Concat", inside, outside, axis=1))


def _side_by_side(
    graph: GraphBuilder, rows: dict[FeatureMap, str], transfer: ClosedFormTransfer, dtype: DTypeLike
) -> str:
    """Scale rows of each feature map to each of its metrics and join them."""
    blocks = [
        graph.mul(rows[name], graph.constant(scale, dtype))
        for name, scale, _ in transfer.metric_scales()
    ]
    return str(blocks[0] if len(blocks) == 1 else graph.node("Concat", *blocks, axis=1))


def _compared(
    graph: GraphBuilder, rows: str, table: str, metric: str, power: float, dtype: DTypeLike
) -> str:
    if metric == "euclidean":
        return str(graph.node("Neg", graph.squared_distances(rows, table)))
    return _cosines(graph, rows, table, power, dtype)


def _score_dtype(transfer: ClosedFormTransfer | NetworkTransfer) -> DTypeLike:
    if isinstance(transfer, ClosedFormTransfer):
        return transfer.dtype
    return transfer.seen.representative.dtype


def _embedding_width(transfer: ClosedFormTransfer | NetworkTransfer) -> int:
    if isinstance(transfer, ClosedFormTransfer):
        return sum(len(scale) for _, scale, _ in transfer.metric_scales())
    return int(transfer.weights.w2.shape[0])


def _mapped(graph: GraphBuilder, rows: str, kind: FeatureMap, dtype: DTypeLike) -> str:
    """`hgkt._arrays.map_rows`: signed power, then unit rows."""
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
    """`hgkt._arrays.normalised_scores`."""
    lengths = graph.row_norms(table, dtype)
    if power != 1.0:
        lengths = graph.node("Pow", lengths, graph.constant(power, dtype))
    scaled = graph.div(table, lengths)
    products = graph.matmul(rows, graph.transpose(scaled))
    return graph.div(products, graph.row_norms(rows, dtype))


# ---------------------------------------------------------------------- the closed form's kernel
def _kernel(graph: GraphBuilder, attributes: str, kernel: ClassKernel) -> str:
    """`ClassKernel.__call__`: a weighted sum of terms, each of one kernel per block."""
    widths = [block.shape[1] for block in next(iter(kernel.references.values()))]
    parts: list[str] = [attributes]
    if len(widths) > 1:
        sizes = graph.constant(widths, np.int64)
        parts = graph.node("Split", attributes, sizes, axis=1, n_outputs=len(widths))
    pairs = {view: _pairs(graph, parts, kernel, view) for view in kernel.references}
    total = ""
    for share, term in zip(kernel.shares, kernel.terms, strict=True):
        for index, weight in enumerate(share * kernel.block_weights(term)):
            if weight > 0:
                values = _values(graph, term, *pairs[term.view][index], kernel)
                values = graph.mul(values, graph.constant(weight, _WIDE))
                total = graph.add(total, values) if total else values
    return total


def _pairs(
    graph: GraphBuilder, parts: list[str], kernel: ClassKernel, view: tuple[FeatureMap, bool]
) -> list[tuple[str, str]]:
    """Products, and squared distances over their median, of each block with the references."""
    pairs = []
    for index, part in enumerate(parts):
        rows = _mapped(graph, part, view[0], _WIDE)
        if view[1]:
            rows = graph.mul(rows, graph.constant(kernel.relevance[view[0], index], _WIDE))
        references = kernel.references[view][index]
        products = graph.matmul(rows, graph.constant(references.T, _WIDE))
        squared = graph.squared_distances(rows, graph.constant(references, _WIDE))
        squared = graph.node("Max", squared, graph.constant(0.0, _WIDE))
        median = graph.constant(kernel.medians[view][index], _WIDE)
        pairs.append((products, graph.div(squared, median)))
    return pairs


def _values(
    graph: GraphBuilder, term: KernelTerm, products: str, distances: str, kernel: ClassKernel
) -> str:
    if term.kernel == "linear":
        return products
    if term.kernel == "quadratic":
        shifted = graph.add(products, graph.constant(1.0, _WIDE))
        return graph.mul(graph.mul(shifted, shifted), graph.constant(0.25, _WIDE))
    rate = graph.constant(-term.kernel_scale, _WIDE)
    values = str(graph.node("Exp", graph.mul(distances, rate)))
    if term.kernel == "rbf" or kernel.n_neighbors >= len(kernel.seen):
        return values
    largest, _ = graph.node(
        "TopK", values, graph.constant([kernel.n_neighbors], np.int64), axis=1, n_outputs=2
    )
    smallest = graph.node("ReduceMin", largest, graph.constant([1], np.int64), keepdims=1)
    near = graph.cast(graph.node("GreaterOrEqual", values, smallest), _WIDE)
    return graph.mul(values, near)


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
    activation = "leaky_relu" if number == 1 else weights.output_activation
    scaled = graph.mul(means, graph.constant(weights.mu, w.dtype))
    joined = graph.node("Concat", states, scaled, axis=1)
    values = graph.add(graph.matmul(joined, graph.constant(w.T)), graph.constant(b))
    if activation == "linear":
        return values
    slope = NEGATIVE_SLOPE if activation == "leaky_relu" else 0.0
    return str(graph.node("LeakyRelu", values, alpha=slope))
