"""Tensors of the Open Inference Protocol: feature rows out of a request, ranked classes into one.

Rows go through the readers of ``/v1/predict``, so that the same limits and sentences hold here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from hgkt.serving.editions import Edition
from hgkt.serving.problems import Problem
from hgkt.serving.ranking import Ranking
from hgkt.serving.routes import bodies

INPUT = "features"
LENGTH_HEADER = "Inference-Header-Content-Length"
NUMBERS = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
OUTPUTS = {
    "label": ("BYTES", 1),
    "seen": ("BOOL", 1),
    "score": ("FP64", 1),
    "top_labels": ("BYTES", 2),
    "top_scores": ("FP64", 2),
}
"""Data type and number of dimensions of what can be asked for; the names are those of Arrow."""

Parameters = dict[str, Any]
T = TypeVar("T")
_COMMA = ord(",")
_MAX_SHORT = 2**20  # bytes of parameters, shapes and outputs; names of classes are among them


@dataclass(frozen=True)
class TensorIn:
    """The tensor that came; `data` is its JSON where it is not octets."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters
    data: memoryview | None


class TensorWanted(msgspec.Struct):
    """A tensor that is asked for."""

    name: str
    parameters: Parameters = {}


@dataclass(frozen=True)
class InferRequest:
    """What was asked."""

    tensor: TensorIn
    id: str
    parameters: Parameters
    outputs: list[TensorWanted]


# What may be long stays JSON until its length is known: a short text can make millions of objects.
class _TensorText(msgspec.Struct):
    name: str
    datatype: str
    shape: msgspec.Raw
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RequestText(msgspec.Struct):
    inputs: tuple[_TensorText]
    id: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    outputs: msgspec.Raw = msgspec.Raw(b"[]")


@dataclass(frozen=True)
class TensorOut:
    """A tensor of an answer.

    Parameters
    ----------
    name : str
        One of `OUTPUTS`.
    shape : tuple of int
        Its shape.
    values : list
        Its elements in row-major order: text, booleans or numbers.
    """

    name: str
    shape: tuple[int, ...]
    values: list[Any]

    @property
    def datatype(self) -> str:
        """The protocol's word for what the elements are."""
        return OUTPUTS[self.name][0]

    def octets(self) -> bytes:
        """Return the elements as the binary extension wants them.

        Examples
        --------
        >>> TensorOut("label", (2,), ["one", "é"]).octets()
        b'\\x03\\x00\\x00\\x00one\\x02\\x00\\x00\\x00\\xc3\\xa9'
        """
        if self.datatype == "BYTES":
            pieces: dict[str, bytes] = {}
            for text in dict.fromkeys(self.values):
                data = text.encode()
                pieces[text] = struct.pack("<I", len(data)) + data
            return b"".join(pieces[text] for text in self.values)
        return np.array(self.values, "?" if self.datatype == "BOOL" else "<f8").tobytes()


# ---------------------------------------------------------------------- requests
def split_body(body: bytes, header_length: str | None) -> tuple[InferRequest, memoryview]:
    """Return the JSON part of a body, decoded, and the octets behind it."""
    n_json = len(body)
    if header_length is not None:
        # More digits than any length has are not worth a conversion.
        if not (header_length.isascii() and header_length.isdigit() and len(header_length) < 19):
            raise Problem(422, f"{LENGTH_HEADER} must be a number of bytes")
        n_json = int(header_length)
        if n_json > len(body):
            raise Problem(422, f"{LENGTH_HEADER} is {n_json}, but the body has {len(body)} bytes")
    view = memoryview(body)
    try:
        return _decoded(msgspec.json.decode(view[:n_json], type=_RequestText)), view[n_json:]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Problem(422, f"the body is not an inference request: {error}") from None
    except RecursionError:
        raise Problem(422, "the body is nested too deeply") from None


def _decoded(text: _RequestText) -> InferRequest:
    (given,) = text.inputs
    tensor = TensorIn(
        name=given.name,
        shape=_short(given.shape, list[int], "shape"),
        datatype=given.datatype,
        parameters=_short(given.parameters, Parameters, "parameters"),
        data=None if isinstance(given.data, msgspec.UnsetType) else memoryview(given.data),
    )
    parameters = _short(text.parameters, Parameters, "parameters")
    return InferRequest(
        tensor, text.id, parameters, _short(text.outputs, list[TensorWanted], "outputs")
    )


def _short(text: msgspec.Raw, kind: type[T], what: str) -> T:
    n_bytes = memoryview(text).nbytes
    if n_bytes > _MAX_SHORT:
        raise Problem(413, f"{what} has {n_bytes:,} bytes; at most {_MAX_SHORT:,} are accepted")
    return msgspec.json.decode(text, type=kind)


def read_rows(
    request: InferRequest, octets: memoryview, n_features: int, max_rows: int
) -> NDArray[Any]:
    """Return the feature rows (n, n_features) of a request.

    Parameters
    ----------
    request : InferRequest
        What was asked.
    octets : memoryview
        What came behind the JSON.
    n_features, max_rows : int
        What the model reads, and the service takes at once.
    """
    tensor = request.tensor
    if tensor.name != INPUT:
        raise Problem(422, f"one input called {INPUT!r} is expected; got {tensor.name[:80]!r}")
    if tensor.datatype not in NUMBERS:
        known = ", ".join(NUMBERS)
        raise Problem(422, f"{INPUT} is {tensor.datatype[:80]!r}; one of {known} is expected")
    if len(tensor.shape) != 2 or tensor.shape[0] < 1 or tensor.shape[1] != n_features:
        raise Problem(
            422, f"{INPUT} has shape {str(tensor.shape)[:80]}; [n, {n_features}] is expected"
        )
    if tensor.shape[0] > max_rows:
        raise Problem(
            413, f"{INPUT} has {tensor.shape[0]} rows; at most {max_rows} are accepted at once"
        )
    if tensor.data is None:
        return _binary_rows(tensor, octets, n_features, max_rows)
    if len(octets):
        raise Problem(422, f"{INPUT} has its data in JSON, but {len(octets)} bytes come behind it")
    document = b'{"features":' + nested(bytes(tensor.data), tensor.shape) + b"}"
    X, _ = bodies.read_json(document, n_features, max_rows, bodies.FeatureRows)
    if len(X) != tensor.shape[0]:
        raise Problem(422, f"{INPUT} has shape {tensor.shape}, but data of {len(X)} rows")
    return X


def _binary_rows(
    tensor: TensorIn, octets: memoryview, n_features: int, max_rows: int
) -> NDArray[Any]:
    size = tensor.parameters.get("binary_data_size")
    if size is None:
        raise Problem(422, f"{INPUT} has neither data nor the parameter binary_data_size")
    kind = np.dtype(NUMBERS[tensor.datatype])
    expected = tensor.shape[0] * n_features * kind.itemsize
    if size != expected or len(octets) != expected:
        raise Problem(
            422,
            f"{INPUT} of shape {tensor.shape} in {tensor.datatype} takes {expected} bytes; "
            f"binary_data_size is {str(size)[:80]}, and {len(octets)} bytes came",
        )
    if tensor.datatype != "FP32":
        # What becomes infinite is refused, with its row, where scores are made.
        with np.errstate(over="ignore"):
            octets = np.frombuffer(octets, kind).astype("<f4").data.cast("B")
    return bodies.read_octets(octets, n_features, max_rows)  # type: ignore[arg-type]


def nested(data: bytes, shape: Sequence[int]) -> bytes:
    """Return a JSON array of numbers as one of rows; one that is nested stays as it is.

    Examples
    --------
    >>> nested(b"[1,2, 3,4]", (2, 2))
    b'[[1,2],[ 3,4]]'
    """
    text = data.strip()
    if text[:1] != b"[" or text.find(b"[", 1) != -1:
        return data
    n_numbers = text.count(b",") + 1
    if n_numbers != shape[0] * shape[1]:
        raise Problem(422, f"{INPUT} has shape {list(shape)}, but data of {n_numbers} numbers")
    commas = np.flatnonzero(np.frombuffer(text, np.uint8) == _COMMA)
    ends = [*commas[shape[1] - 1 :: shape[1]].tolist(), len(text) - 1]
    starts = [1, *(end + 1 for end in ends[:-1])]
    rows = (text[start:end] for start, end in zip(starts, ends, strict=True))
    return b"[[" + b"],[".join(rows) + b"]]"


# ---------------------------------------------------------------------- answers
def tensors(edition: Edition, ranking: Ranking, names: list[str]) -> list[TensorOut]:
    """Return a ranking as tensors, those of `names`."""
    n_rows, k = ranking.columns.shape
    labels = [edition.names[column] for column in ranking.columns.ravel().tolist()]
    scores = ranking.scores.ravel().tolist()
    values: Mapping[str, list[Any]] = {
        "label": labels[::k],
        "seen": edition.seen[ranking.columns[:, 0]].tolist(),
        "score": scores[::k],
        "top_labels": labels,
        "top_scores": scores,
    }
    shapes = {1: (n_rows,), 2: (n_rows, k)}
    return [TensorOut(name, shapes[OUTPUTS[name][1]], values[name]) for name in names]


def write_answer(
    head: dict[str, Any], found: list[TensorOut], binary: list[bool]
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the length of its JSON part where octets follow.

    Parameters
    ----------
    head : dict
        What the answer says besides tensors.
    found : list of TensorOut
        The tensors.
    binary : list of bool
        Which of them are octets.
    """
    outputs, tail = [], []
    for tensor, as_octets in zip(found, binary, strict=True):
        output: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
        }
        if as_octets:
            tail.append(tensor.octets())
            output["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            output["data"] = tensor.values
        outputs.append(output)
    start = json.dumps({**head, "outputs": outputs}).encode("ascii")
    return b"".join([start, *tail]), len(start) if tail else None
