"""HGKT as two ONNX graphs: attributes to class embedding, features and class table to scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hgkt._arrays import FeatureMap, power_of
from hgkt._validation import import_extra
from hgkt.calibration import Calibration, Temperatures
from hgkt.closed_form.kernels import ClassKernel, KernelSettings
from hgkt.closed_form.member import Ensemble, Member
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
        n_attributes = transfer.seen_attributes.shape[1]
        attributes = graph.input("attributes", _WIDE, ["n_classes", n_attributes])
        embedding = _class_rows(graph, attributes, transfer)
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
        scores = _compared(graph, rows, table, transfer.settings.metric, dtype)
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


def _class_rows(graph: GraphBuilder, attributes: str, transfer: ClosedFormTransfer) -> str:
    """`ClosedFormTransfer.embed`: each member's embedding, joined block by block."""
    settings = transfer.settings
    kernels: dict[Any, str] = {}
    blocks: list[str] = []
    texts = ""
    if settings.shares_space:
        texts = _descriptions(graph, attributes, settings)
    for metric in settings.metric_keys:
        own = [
            (member, _embedding(graph, attributes, texts, member, transfer, kernels))
            for member in settings.members_of(metric)
        ]
        blocks += _class_block(graph, own, settings)
    if settings.zero_shot:
        unit = _mapped(graph, texts, "l2", _WIDE)
        blocks.append(graph.mul(unit, graph.constant(settings.zero_shot, _WIDE)))
    return str(blocks[0] if len(blocks) == 1 else graph.node("Concat", *blocks, axis=1))


def _embedding(
    graph: GraphBuilder,
    attributes: str,
    texts: str,
    member: Member,
    transfer: ClosedFormTransfer,
    kernels: dict[Any, str],
) -> str:
    """One member's embedding of new classes: what its kernel carries, and the prior mean."""
    process = transfer.processes[member.process_key]
    if member.kernel_key not in kernels:
        kernels[member.kernel_key] = _kernel(graph, attributes, process.kernel)
    found = graph.matmul(kernels[member.kernel_key], graph.constant(process.dual, _WIDE))
    if not member.prior:
        return found
    space = transfer.spaces[member.feature_map]
    rows = _mapped(graph, texts, member.feature_map, _WIDE)
    rows = graph.sub(rows, graph.constant(space.description_center, _WIDE))
    scale = member.prior * space.scales[member.shrinkage].astype(_WIDE)
    projection = space.projection.astype(_WIDE) * scale
    return graph.add(found, graph.matmul(rows, graph.constant(projection, _WIDE)))


def _class_block(
    graph: GraphBuilder, own: list[tuple[Member, str]], settings: Ensemble
) -> list[str]:
    """`ClosedFormTransfer._block`: what members of one metric add to a row of the class table."""
    distances, total = settings.metric == "euclidean", 0.0
    if distances:
        total = sum(member.weight for member, _ in own)
    block = squares = ""
    for member, rows in own:
        if distances:
            weight = graph.constant(member.weight / total, _WIDE)
            added = graph.mul(rows, weight)
            square = graph.mul(graph.row_sums(graph.mul(rows, rows)), weight)
            squares = graph.add(squares, square) if squares else square
        else:
            lengths = graph.row_norms(rows, _WIDE)
            if member.norm_power != 1.0:
                lengths = graph.node("Pow", lengths, graph.constant(member.norm_power, _WIDE))
            added = graph.mul(graph.div(rows, lengths), graph.constant(member.weight, _WIDE))
        block = graph.add(block, added) if block else added
    if not distances:
        return [block]
    ones = graph.add(graph.mul(squares, graph.constant(0.0, _WIDE)), graph.constant(1.0, _WIDE))
    return [block, squares, ones]


def _descriptions(graph: GraphBuilder, attributes: str, settings: Ensemble) -> str:
    """`hgkt.closed_form.transfer.descriptions`."""
    if settings.shared_space is True:
        return attributes
    widths = settings.attribute_blocks or []
    if len(widths) < 2:
        return attributes
    sizes = graph.constant(widths, np.int64)
    parts = graph.node("Split", attributes, sizes, axis=1, n_outputs=len(widths))
    return str(parts[int(settings.shared_space)])


def _closed_form_scores(
    graph: GraphBuilder, features: str, table: str, transfer: ClosedFormTransfer
) -> str:
    """`Scorer.features` and `Scorer.scores`: rows in every metric, times rows of the table."""
    dtype, settings = transfer.dtype, transfer.settings
    projected = {}
    for name, space in transfer.spaces.items():
        rows = _mapped(graph, features, name, dtype)
        if isinstance(space.statistics, SpannedStatistics):
            rows = _coordinates(graph, rows, space.statistics.span, dtype)
        rows = graph.sub(rows, graph.constant(space.center, dtype))
        projected[name] = graph.matmul(rows, graph.constant(space.projection, dtype))
    blocks = [
        graph.mul(projected[name], graph.constant(transfer.spaces[name].scales[shrinkage], dtype))
        for name, shrinkage in settings.metric_keys
    ]
    if settings.metric == "euclidean":
        (own,) = blocks
        squares = graph.row_sums(graph.mul(own, own))
        ones = graph.add(graph.mul(squares, graph.constant(0.0, dtype)), graph.constant(1.0, dtype))
        blocks = [
            graph.add(own, own),
            str(graph.node("Neg", ones)),
            str(graph.node("Neg", squares)),
        ]
    else:
        blocks = [graph.div(block, graph.row_norms(block, dtype)) for block in blocks]
    if settings.zero_shot:
        blocks.append(_mapped(graph, features, "l2", dtype))
    joined = blocks[0] if len(blocks) == 1 else graph.node("Concat", *blocks, axis=1)
    return graph.matmul(joined, graph.transpose(table))


def _coordinates(
    graph: GraphBuilder, rows: str, span: NDArray[np.float64], dtype: DTypeLike
) -> str:
    """`SpannedStatistics.coordinates`."""
    inside = graph.matmul(rows, graph.constant(span.T, dtype))
    rest = graph.sub(rows, graph.matmul(inside, graph.constant(span, dtype)))
    outside = graph.node("Sqrt", graph.row_sums(graph.mul(rest, rest)))
    return str(graph.node("Concat", inside, outside, axis=1))


def _compared(graph: GraphBuilder, rows: str, table: str, metric: str, dtype: DTypeLike) -> str:
    if metric == "euclidean":
        return str(graph.node("Neg", graph.squared_distances(rows, table)))
    return _cosines(graph, rows, table, dtype)


def _score_dtype(transfer: ClosedFormTransfer | NetworkTransfer) -> DTypeLike:
    if isinstance(transfer, ClosedFormTransfer):
        return transfer.dtype
    return transfer.seen.representative.dtype


def _embedding_width(transfer: ClosedFormTransfer | NetworkTransfer) -> int:
    if isinstance(transfer, ClosedFormTransfer):
        settings = transfer.settings
        width = len(settings.metric_keys) * len(transfer.center)
        width += 2 if settings.metric == "euclidean" else 0
        return width + (len(transfer.center) if settings.zero_shot else 0)
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


def _cosines(graph: GraphBuilder, rows: str, table: str, dtype: DTypeLike) -> str:
    """`hgkt._arrays.normalised_scores`."""
    scaled = graph.div(table, graph.row_norms(table, dtype))
    products = graph.matmul(rows, graph.transpose(scaled))
    return graph.div(products, graph.row_norms(rows, dtype))


# ---------------------------------------------------------------------- the closed form's kernel
def _kernel(graph: GraphBuilder, attributes: str, kernel: ClassKernel) -> str:
    """`ClassKernel.__call__`: a weighted sum over blocks."""
    widths = [block.shape[1] for block in kernel.references]
    parts: list[str] = [attributes]
    if len(widths) > 1:
        sizes = graph.constant(widths, np.int64)
        parts = graph.node("Split", attributes, sizes, axis=1, n_outputs=len(widths))
    total = ""
    for index, weight in enumerate(kernel.weights):
        if weight > 0:
            values = _values(graph, *_pair(graph, parts[index], kernel, index), kernel)
            values = graph.mul(values, graph.constant(weight, _WIDE))
            total = graph.add(total, values) if total else values
    return total


def _pair(graph: GraphBuilder, part: str, kernel: ClassKernel, index: int) -> tuple[str, str]:
    """Products, and squared distances over their median, of one block with the references."""
    rows = _mapped(graph, part, kernel.settings.attribute_map, _WIDE)
    if kernel.settings.relevance:
        rows = graph.mul(rows, graph.constant(kernel.relevance[index], _WIDE))
    references = kernel.references[index]
    products = graph.matmul(rows, graph.constant(references.T, _WIDE))
    squared = graph.squared_distances(rows, graph.constant(references, _WIDE))
    squared = graph.node("Max", squared, graph.constant(0.0, _WIDE))
    return products, graph.div(squared, graph.constant(kernel.medians[index], _WIDE))


def _values(graph: GraphBuilder, products: str, distances: str, kernel: ClassKernel) -> str:
    settings: KernelSettings = kernel.settings
    if settings.kernel == "linear":
        return products
    if settings.kernel == "quadratic":
        shifted = graph.add(products, graph.constant(1.0, _WIDE))
        return graph.mul(graph.mul(shifted, shifted), graph.constant(0.25, _WIDE))
    rate = graph.constant(-settings.kernel_scale, _WIDE)
    values = str(graph.node("Exp", graph.mul(distances, rate)))
    if settings.kernel == "rbf" or kernel.n_neighbors >= len(kernel.seen):
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
