"""ONNX graphs written as expressions: each method adds one node and returns its output's name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from hgkt._validation import import_extra

OPSET = 18  # the first whose reductions take axes as an input throughout
IR_VERSION = 9  # old enough for runtimes of the last years
Shape = list[int | str]


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
