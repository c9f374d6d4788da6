"""HGKT as two ONNX graphs: attributes to class embedding, features and class table to scores."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partialmethod, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hgkt._arrays import FeatureMap, power_of
from hgkt._validation import import_extra
from hgkt.calibration import Calibration, Temperatures
from hgkt.closed_form.kernels import ClassKernel, KernelSettings
from hgkt.closed_form.member import Ensemble, Member
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.statistics import SpannedStatistics

OPSET = 18  # the first whose reductions take axes as an input throughout
IR_VERSION = 9  # old enough for runtimes of the last years
Shape = list[int | str]

_WIDE = np.float64  # attributes and kernels are float64 in the library too
_ROW = np.array([1])  # the axis along a row


class Value:
    """An array of a graph, before it has numbers: what is computed with it becomes nodes.

    Parameters
    ----------
    graph : GraphBuilder
        Where it belongs.
    name : str
        Its name there.
    dtype : dtype
        What is computed with: numbers and arrays beside it become constants of this type, but
        for arrays of whole numbers, which are axes, counts and widths.
    """

    def __init__(self, graph: GraphBuilder, name: str, dtype: DTypeLike) -> None:
        self.graph, self.name, self.dtype = graph, name, dtype

    @property
    def T(self) -> Value:  # noqa: N802 - as NumPy calls it
        """The transpose of a matrix."""
        return self.node("Transpose", perm=[1, 0])

    def node(self, kind: str, *others: Operand, **attributes: Any) -> Value:
        """Return the output of a node that takes this first."""
        return self.graph.nodes(kind, self, *others, **attributes)[0]

    __add__ = partialmethod(node, "Add")
    __sub__ = partialmethod(node, "Sub")
    __mul__ = partialmethod(node, "Mul")
    __truediv__ = partialmethod(node, "Div")
    __matmul__ = partialmethod(node, "MatMul")
    __neg__ = partialmethod(node, "Neg")

    def cast(self, dtype: DTypeLike) -> Value:
        """Return it as numbers of another type."""
        found = self.node("Cast", to=self.graph.type_of(dtype))
        return Value(self.graph, found.name, dtype)

    def row_squares(self) -> Value:
        """Return the squared length of each row: (n, 1)."""
        return self.node("ReduceSumSquare", _ROW, keepdims=1)

    def row_norms(self) -> Value:
        """Return the length of each row (n, 1), with one in place of zero so that it can divide."""
        lengths = self.node("ReduceL2", _ROW, keepdims=1)
        return lengths.node("Greater", 0.0).node("Where", lengths, 1.0)

    def unit_rows(self) -> Value:
        """Return the rows scaled to length one."""
        return self / self.row_norms()

    def split(self, widths: Sequence[int]) -> list[Value]:
        """Return blocks of columns."""
        if len(widths) < 2:
            return [self]
        return self.graph.nodes("Split", self, np.array(widths), n_outputs=len(widths), axis=1)


Operand = Value | ArrayLike


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
    >>> model = graph.finish({"y": x * [2.0, 2.0]}, ["n", 2])
    >>> [output.name for output in model.graph.output]
    ['y']
    """

    def __init__(self, name: str) -> None:
        self._onnx = import_extra("onnx", "onnx")
        self._name = name
        self._inputs: list[Any] = []
        self._constants: list[Any] = []
        self._nodes: list[Any] = []

    def input(self, name: str, dtype: DTypeLike, shape: Shape) -> Value:
        """Declare an input; a string in `shape` is a free dimension."""
        self._inputs.append(self._info(name, dtype, shape))
        return Value(self, name, dtype)

    def constant(self, values: ArrayLike, dtype: DTypeLike) -> Value:
        """Store numbers in the graph; an array of whole numbers stays one."""
        is_whole = isinstance(values, np.ndarray) and values.dtype.kind == "i"
        array = np.ascontiguousarray(values, np.int64 if is_whole else dtype)
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return Value(self, name, dtype)

    def nodes(
        self, kind: str, first: Value, *others: Operand, n_outputs: int = 1, **attributes: Any
    ) -> list[Value]:
        """Add a node and return its outputs."""
        inputs = [first.name]
        for other in others:
            value = other if isinstance(other, Value) else self.constant(other, first.dtype)
            inputs.append(value.name)
        outputs = [f"{kind.lower()}{len(self._nodes)}_{i}" for i in range(n_outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return [Value(self, name, first.dtype) for name in outputs]

    def finish(self, outputs: Mapping[str, Value], shape: Shape) -> Any:
        """Return the checked model whose outputs, of one shape, are called so."""
        helper = self._onnx.helper
        for title, value in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value.name], [title]))
        found = [self._info(title, value.dtype, shape) for title, value in outputs.items()]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, found, self._constants)
        versions = {"opset_imports": [helper.make_opsetid("", OPSET)], "ir_version": IR_VERSION}
        model = helper.make_model(graph, producer_name="hgkt", **versions)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def type_of(self, dtype: DTypeLike) -> int:
        """Return the number by which ONNX knows a type."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _info(self, name: str, dtype: DTypeLike, shape: Shape) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self.type_of(dtype), shape)


def joined(blocks: Sequence[Value]) -> Value:
    """Return values side by side."""
    first, *others = blocks
    return first.node("Concat", *others, axis=1) if others else first


def embedder_graph(transfer: ClosedFormTransfer, width: int) -> Any:
    """Return the model from ``attributes`` (U, d) float64 to ``embeddings`` (U, `width`)."""
    graph = GraphBuilder("hgkt embedder")
    n_attributes = transfer.seen_attributes.shape[1]
    attributes = graph.input("attributes", _WIDE, ["n_classes", n_attributes])
    embeddings = _class_rows(attributes, transfer).cast(transfer.dtype)
    return graph.finish({"embeddings": embeddings}, ["n_classes", width])


def scorer_graph(
    transfer: ClosedFormTransfer,
    n_features: int,
    width: int,
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
    dtype = transfer.dtype
    features = graph.input("features", dtype, ["n_rows", n_features])
    table = graph.input("embeddings", dtype, ["n_classes", width])
    paying = graph.input("penalised", np.bool_, ["n_classes"]).cast(dtype)
    scores = _scores(features, table, transfer)
    scores -= paying * _gamma(paying, calibration)
    if grown:
        scores -= graph.input("learned", dtype, ["n_classes"]) * calibration.offset
    outputs = {"scores": scores}
    if temperatures is not None:
        outputs["probabilities"] = _probabilities(scores, paying, temperatures)
    return graph.finish(outputs, ["n_rows", "n_classes"])


def _probabilities(scores: Value, paying: Value, temperatures: Temperatures) -> Value:
    """`Temperatures.probabilities`: a row takes the temperature of its best class."""
    own = paying * (temperatures.seen - temperatures.added) + temperatures.added
    best = scores.node("ArgMax", axis=1, keepdims=1)
    return (scores / own.node("Gather", best)).node("Softmax", axis=1)


def _gamma(paying: Value, calibration: Calibration) -> Operand:
    """`Calibration.gamma` of the classes that pay and of those that do not."""
    if calibration.slope == 0.0:
        return calibration.offset
    n_paying = paying.node("ReduceSum", keepdims=0).node("Max", 1.0)
    n_free = (-paying + 1.0).node("ReduceSum", keepdims=0).node("Max", 1.0)
    return (n_paying / n_free).node("Log") * calibration.slope + calibration.offset


def _class_rows(attributes: Value, transfer: ClosedFormTransfer) -> Value:
    """`ClosedFormTransfer.embed`: each member's embedding, joined block by block."""
    settings = transfer.settings
    kernels: dict[Any, Value] = {}
    texts = _descriptions(attributes, settings)
    blocks: list[Value] = []
    for metric in settings.metric_keys:
        own = [
            (member, _embedding(attributes, texts, member, transfer, kernels))
            for member in settings.members_of(metric)
        ]
        blocks += _class_block(own, settings)
    if settings.zero_shot:
        blocks.append(_mapped(texts, "l2") * settings.zero_shot)
    return joined(blocks)


def _embedding(
    attributes: Value,
    texts: Value,
    member: Member,
    transfer: ClosedFormTransfer,
    kernels: dict[Any, Value],
) -> Value:
    """One member's embedding of new classes: what its kernel carries, and the prior mean."""
    process = transfer.processes[member.process_key]
    if member.kernel_key not in kernels:
        kernels[member.kernel_key] = _kernel(attributes, process.kernel)
    found = kernels[member.kernel_key] @ process.dual
    if not member.prior:
        return found
    space = transfer.spaces[member.feature_map]
    rows = _mapped(texts, member.feature_map) - space.description_center
    scale = member.prior * space.scales[member.shrinkage].astype(_WIDE)
    return found + rows @ (space.projection.astype(_WIDE) * scale)


def _class_block(own: list[tuple[Member, Value]], settings: Ensemble) -> list[Value]:
    """`ClosedFormTransfer._block`: what members of one metric add to a row of the class table."""
    if settings.metric == "euclidean":
        total = sum(member.weight for member, _ in own)
        block = _sum(rows * (member.weight / total) for member, rows in own)
        squares = _sum(rows.row_squares() * (member.weight / total) for member, rows in own)
        return [block, squares, _ones_like(squares)]
    parts = []
    for member, rows in own:
        lengths = rows.row_norms()
        if member.norm_power != 1.0:
            lengths = lengths.node("Pow", member.norm_power)
        parts.append(rows / lengths * member.weight)
    return [_sum(parts)]


def _sum(values: Iterable[Value]) -> Value:
    return reduce(operator.add, values)


def _ones_like(values: Value) -> Value:
    return values * 0.0 + 1.0


def _descriptions(attributes: Value, settings: Ensemble) -> Value:
    """`hgkt.closed_form.transfer.descriptions`."""
    widths = settings.attribute_blocks or []
    if settings.shared_space is True or not settings.shares_space or len(widths) < 2:
        return attributes
    return attributes.split(widths)[int(settings.shared_space)]


def _scores(features: Value, table: Value, transfer: ClosedFormTransfer) -> Value:
    """`Scorer.features` and `Scorer.scores`: rows in every metric, times rows of the table."""
    settings = transfer.settings
    projected = {}
    for name, space in transfer.spaces.items():
        rows = _mapped(features, name)
        if isinstance(space.statistics, SpannedStatistics):
            rows = _coordinates(rows, space.statistics.span)
        projected[name] = (rows - space.center) @ space.projection
    blocks = [
        projected[name] * transfer.spaces[name].scales[shrinkage]
        for name, shrinkage in settings.metric_keys
    ]
    if settings.metric == "euclidean":
        (own,) = blocks
        squares = own.row_squares()
        blocks = [own + own, -_ones_like(squares), -squares]
    else:
        blocks = [block.unit_rows() for block in blocks]
    if settings.zero_shot:
        blocks.append(_mapped(features, "l2"))
    return joined(blocks) @ table.T


def _coordinates(rows: Value, span: NDArray[np.float64]) -> Value:
    """`SpannedStatistics.coordinates`."""
    inside = rows @ span.T
    rest = rows - inside @ span
    return joined([inside, rest.node("ReduceL2", _ROW, keepdims=1)])


def _mapped(rows: Value, kind: FeatureMap) -> Value:
    """`hgkt._arrays.map_rows`: signed power, then unit rows."""
    power = power_of(kind)
    if power is None:
        return rows
    if power != 1.0:
        size = rows.node("Abs")
        size = size.node("Sqrt") if power == 0.5 else size.node("Pow", power)
        rows = rows.node("Sign") * size
    return rows.unit_rows()


def _kernel(attributes: Value, kernel: ClassKernel) -> Value:
    """`ClassKernel.__call__`: a weighted sum over blocks."""
    parts = attributes.split([block.shape[1] for block in kernel.references])
    return _sum(
        _block_values(parts[index], kernel, index) * weight
        for index, weight in enumerate(kernel.weights)
        if weight > 0
    )


def _block_values(part: Value, kernel: ClassKernel, index: int) -> Value:
    """Values of the kernel between new classes and the seen ones, by one block of attributes."""
    settings: KernelSettings = kernel.settings
    rows = _mapped(part, settings.attribute_map)
    if settings.relevance:
        rows *= kernel.relevance[index]
    references = part.graph.constant(kernel.references[index], _WIDE)
    products = rows @ references.T
    if settings.kernel == "linear":
        return products
    if settings.kernel == "quadratic":
        shifted = products + 1.0
        return shifted * shifted * 0.25
    squares = rows.row_squares() + references.row_squares().T - (products + products)
    distances = squares.node("Max", 0.0) / kernel.medians[index]
    values = (distances * -settings.kernel_scale).node("Exp")
    if settings.kernel == "rbf" or kernel.n_neighbors >= len(kernel.seen):
        return values
    k = np.array([kernel.n_neighbors])
    largest, _ = part.graph.nodes("TopK", values, k, n_outputs=2, axis=1)
    smallest = largest.node("ReduceMin", _ROW, keepdims=1)
    return values * values.node("GreaterOrEqual", smallest).cast(_WIDE)
