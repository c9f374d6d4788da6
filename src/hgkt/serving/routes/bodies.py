"""Feature rows out of requests.

Numbers of a large batch are never touched one by one: octets and Arrow columns are read where they
lie, and JSON is decoded row by row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import unpack_from
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import Request
from msgspec import Meta, Struct
from numpy.typing import NDArray

from hgkt.serving.json_bodies import JSON, decode, media_type, schema_of
from hgkt.serving.problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

OCTETS = "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"
_MAX_BATCHES = 10_000
_RECORD_BATCH, _COMPRESSION = 3, 3  # Arrow's Message.fbs: header type, field of RecordBatch

_MAX_REST = 2**20  # bytes of a JSON body beside its rows
_MAX_NUMBER = 400  # bytes of a number, with the blanks around it
_FEATURES = re.compile(rb'"features"[ \t\r\n]*:[ \t\r\n]*\[')
_GAP = re.compile(rb"[ \t\r\n]{0,10000}")
_SHORT = 2**16  # bytes that are decoded only to say what is wrong with them

_ClassName = Annotated[str, Meta(min_length=1)]
_Number = Annotated[float, Meta(description="A number; NaN and infinity are none.")]


class FeatureRows(Struct, forbid_unknown_fields=True):
    """A request with feature vectors."""

    features: Annotated[
        list[list[_Number]],
        Meta(
            min_length=1, description="One row per instance, of as many numbers as the model reads."
        ),
    ]


Rows = TypeVar("Rows", bound=FeatureRows)


class PredictRequest(FeatureRows):
    """Feature vectors to classify."""

    top_k: Annotated[
        int, Meta(ge=1, le=1000, description="How many classes per row, best first.")
    ] = 1
    among: Annotated[
        Literal["all", "seen", "unseen"] | Annotated[list[_ClassName], Meta(min_length=1)],
        Meta(description="The candidates: a group, or a list of class names."),
    ] = "all"
    explain: Annotated[bool, Meta(description="Whether to say why, for each row.")] = False
    confidence: Annotated[
        bool, Meta(description="Whether to say how sure each answer is: probability and novelty.")
    ] = False
    reject: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(
            description="Share of rows of known classes that may be rejected by mistake; the "
            "label of a row that looks like no known class is then null."
        ),
    ] = None
    coverage: Annotated[
        Annotated[float, Meta(gt=0, lt=1)] | None,
        Meta(description="How often `set` is to hold the true class."),
    ] = None
    revision: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(description="Answer with the classes of this revision, as they were then."),
    ] = None


# ---------------------------------------------------------------------- requests
def read_json(
    body: bytes, n_features: int, max_rows: int, kind: type[Rows]
) -> tuple[NDArray[Any], Rows]:
    """Return the rows of a JSON body and the rest of the request.

    Rows are decoded one by one. So the first mistake ends it, a row becomes an array before the
    next is read, and no other thread waits until all are done.
    """
    found = _FEATURES.search(body, 0, _MAX_REST)
    if found is None:
        if len(body) < _SHORT:
            decode(body, kind)  # says what is wrong
        raise Problem(422, "features: rows of numbers are expected")
    rows, end = _json_rows(body, found.end(), n_features, max_rows)
    if len(body) - (end - found.end()) > _MAX_REST:
        raise Problem(413, f"the body has more than {_MAX_REST:,} bytes beside its rows")
    # What is left must be the whole request but its rows. A second "features", or one that is
    # nested or in a string, does not pass for it.
    rest = decode(body[: found.end()] + b"[0]]" + body[end:], kind)
    if rest.features != [[0.0]]:
        raise Problem(422, "features: they were given twice")
    return rows, rest


def _json_rows(
    body: bytes, start: int, n_features: int, max_rows: int
) -> tuple[NDArray[np.float32], int]:
    """Decode rows that begin at `start`, behind the first bracket; return where they end, too."""
    rows: list[NDArray[np.float32]] = []
    place = _skip(body, start)
    if body[place : place + 1] == b"]":
        raise Problem(422, "features: at least one row is expected")
    while True:
        name = f"features[{len(rows)}]"
        if len(rows) == max_rows:
            raise Problem(
                413, f"the request has more than {max_rows} rows, the most that are accepted"
            )
        if body[place : place + 1] != b"[":
            raise Problem(422, f"{name}: a row of numbers is expected")
        end = _row_end(body, place, n_features, len(rows))
        numbers = decode(body[place:end], list[_Number], name)
        rows.append(_float32(np.array(numbers, dtype=np.float64)))
        place = _skip(body, end)
        if body[place : place + 1] == b"]":
            return np.stack(rows), place + 1
        if body[place : place + 1] != b",":
            raise Problem(422, f"the body is not valid JSON behind {name}")
        place = _skip(body, place + 1)


def _row_end(body: bytes, start: int, n_features: int, number: int) -> int:
    """Return where a row ends that has the right number of values; no endless row is looked at."""
    most = start + _MAX_NUMBER * (n_features + 1)
    end = body.find(b"]", start, most) + 1
    empty = _GAP.fullmatch(body, start + 1, end - 1) is not None
    n_numbers = 0 if empty else body.count(b",", start, end or most) + 1
    if n_numbers != n_features:
        found = f"{n_numbers}" if end else f"{n_numbers} or more"
        raise Problem(
            422, f"row {number} of features has {found} numbers; {n_features} are expected"
        )
    if not end:
        raise Problem(422, f"row {number} of features has no end or endless numbers")
    return end


def rows_type(request: Request, *others: str) -> str:
    """Return the media type of a body of feature rows; refuse one that is none of those."""
    kind, known = media_type(request), (JSON, OCTETS, ARROW, *others)
    if kind not in known:
        listed = f"{', '.join(known[:-1])} or {known[-1]}"
        raise Problem(415, f"the content type must be {listed}; got {kind[:80]!r}")
    return kind


def rows_content(kind: type[FeatureRows]) -> dict[str, Any]:
    """Return what the API's description says of a body of feature rows."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        JSON: {"schema": schema_of(kind)},
        OCTETS: binary | {"description": "Rows of little-endian float32 numbers."},
        ARROW: binary,
    }


def read_binary(kind: str, body: bytes, n_features: int, max_rows: int) -> NDArray[Any]:
    """Return the rows of a body of octets or Arrow."""
    read = read_octets if kind == OCTETS else read_arrow
    return read(body, n_features, max_rows)


def read_octets(body: bytes, n_features: int, max_rows: int) -> NDArray[np.float32]:
    """Return the rows of a body of little-endian float32 numbers, without a copy.

    Examples
    --------
    >>> read_octets(np.array([1, 2, 3, 4], "<f4").tobytes(), n_features=2, max_rows=8)
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    width = 4 * n_features
    n_rows, rest = divmod(len(body), width)
    if rest or not n_rows:
        raise Problem(
            422,
            f"the body has {len(body)} bytes; rows of {n_features} float32 numbers, "
            f"{width} bytes each, are expected",
        )
    _check_count(n_rows, max_rows)
    return np.frombuffer(body, dtype="<f4").reshape(n_rows, n_features)


def read_arrow(body: bytes, n_features: int, max_rows: int) -> NDArray[Any]:
    """Return the rows of an Arrow stream: a list column ``features``, or a column per feature."""
    import pyarrow as pa

    try:
        for number, compressed in enumerate(_compressed_batches(body)):
            if compressed:
                raise Problem(
                    422, "compressed Arrow streams are not accepted; send it uncompressed"
                )
            if number == _MAX_BATCHES:
                raise Problem(422, f"the Arrow stream has more than {_MAX_BATCHES:,} batches")
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            _check_schema(reader.schema, n_features)
            parts, n_rows = [], 0
            for batch in reader:
                n_rows += batch.num_rows
                _check_count(n_rows, max_rows)
                batch.validate(full=True)  # offsets of a foreign stream may point anywhere
                if batch.num_rows:
                    parts.append(_batch_rows(batch, n_features))
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = (str(error).splitlines() or ["it ends too early"])[0]
        raise Problem(422, f"the body is not a readable Arrow stream: {reason}") from None
    if not parts:
        raise Problem(422, "the Arrow stream holds no rows; at least one is expected")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _check_count(n_rows: int, max_rows: int) -> None:
    if n_rows > max_rows:
        raise Problem(
            413, f"the request has {n_rows} rows; at most {max_rows} are accepted at once"
        )


def _skip(body: bytes, start: int) -> int:
    gap = _GAP.match(body, start)
    return start if gap is None else gap.end()


def _float32(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    # What becomes infinite is refused, with its row, where scores are made.
    with np.errstate(over="ignore", invalid="ignore"):
        return rows.astype(np.float32)


def _check_schema(schema: pa.Schema, n_features: int) -> None:
    import pyarrow as pa

    types = pa.types
    places = schema.get_all_field_indices("features")
    if places:
        kind = schema.field(places[0]).type
        if len(places) > 1 or not (
            (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
            and _is_number(kind.value_type)
        ):
            raise Problem(
                422, f"the Arrow column 'features' must hold lists of numbers, not {kind}"
            )
        return
    if len(schema) != n_features:
        raise Problem(
            422,
            f"the Arrow stream has {len(schema)} columns and none is called 'features'; "
            f"{n_features} columns, one a feature, are expected",
        )
    for field in schema:
        if not _is_number(field.type):
            raise Problem(422, f"the Arrow column {field.name!r} holds {field.type}, not numbers")


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _batch_rows(batch: pa.RecordBatch, n_features: int) -> NDArray[Any]:
    from pyarrow import compute

    if "features" not in batch.schema.names:
        return np.column_stack([_numbers(column) for column in batch.columns])
    lists = batch.column("features")
    if lists.null_count:
        raise Problem(422, "the Arrow column 'features' has empty cells; a list a row is expected")
    widths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    if (widths != n_features).any():
        row = int(np.flatnonzero(widths != n_features)[0])
        raise Problem(
            422,
            f"row {row} of the Arrow column 'features' has {widths[row]} numbers; "
            f"{n_features} are expected",
        )
    return _numbers(lists.flatten()).reshape(-1, n_features)


def _numbers(values: pa.Array) -> NDArray[Any]:
    if values.null_count:
        raise Problem(422, "the Arrow stream has empty cells; every feature needs a number")
    array = values.to_numpy(zero_copy_only=False)
    return array if array.dtype == np.float32 else _float32(array.astype(np.float64))


def _compressed_batches(body: bytes) -> Iterator[bool]:
    """Tell for each record batch whether it is compressed: a small body may unfold to anything.

    pyarrow does not say, so the flag is read from the message's flatbuffer.
    """
    import pyarrow as pa

    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        data = message.metadata.to_pybytes()
        try:
            table = unpack_from("<I", data, 0)[0]
            kind = _field(data, table, 1)
            if kind and data[kind] == _RECORD_BATCH:
                at = _field(data, table, 2)
                header = at + unpack_from("<I", data, at)[0]
                yield bool(_field(data, header, _COMPRESSION))
        except Exception as error:
            raise ValueError("its metadata is damaged") from error


def _field(data: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table lies; 0 where the table lacks it."""
    vtable = table - unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= unpack_from("<H", data, vtable)[0]:
        return 0
    offset = unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0
