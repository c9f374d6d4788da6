"""Bodies of requests: JSON, feature rows and images, decoded off the event loop and bounded.

A body that could become a large object is refused before it is decoded, and rows of JSON become
arrays one by one, so that the first mistake ends the reading.
"""

from __future__ import annotations

import asyncio
import ctypes
import re
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Annotated, Any, TypeVar, cast

import msgspec
import numpy as np
from fastapi import Depends, Request
from numpy.typing import NDArray
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from hgkt.serving.problems import Problem
from hgkt.serving.readers import MAX_TEXT_LENGTH, MAX_TEXTS, Upload
from hgkt.serving.routes import Service

JSON, OCTETS, FORM = "application/json", "application/octet-stream", "multipart/form-data"
FEW_VALUES = 250_000  # keys and values, and commas in texts, beside rows and attributes
LARGE_BYTES = 16 * 2**20
_COUNTED = 2**20  # octets that are looked at together
_MAX_NUMBER = 400  # bytes of a number, with the blanks around it
T = TypeVar("T")

# One thread: decoding keeps other threads waiting, and two at once would gain nothing but memory.
_DECODING = ThreadPoolExecutor(1, "hgkt-json")
_PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")
_Row = Annotated[
    msgspec.Raw, msgspec.Meta(extra_json_schema={"type": "array", "items": {"type": "number"}})
]
Rows = Annotated[
    list[_Row],
    msgspec.Meta(min_length=1, description="Rows, each of as many numbers as the model reads."),
]
"""Rows of a JSON body, not decoded yet."""

Texts = Annotated[
    str | Annotated[list[str], msgspec.Meta(min_length=1)],
    msgspec.Meta(description="One text, or several."),
]
"""Texts of a JSON body; see `check_texts`."""

_File = Annotated[str, msgspec.Meta(extra_json_schema={"contentMediaType": OCTETS})]


class Images(msgspec.Struct):
    """The fields of a form of images."""

    images: Annotated[list[_File], msgspec.Meta(description="JPEG, PNG or the like.")]


# ---------------------------------------------------------------------- reading
def media_type(request: Request, *known: str) -> str:
    """Return the media type of a body, without parameters; refuse others and compressed bodies.

    A page of another site can send text, but none of the types here, unasked.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "compressed bodies are not accepted; send it without Content-Encoding")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in known:
        listed = " or ".join(filter(None, known))
        raise Problem(415, f"the content type must be {listed}; got {kind[:80]!r}")
    return kind


async def read_parts(request: Request) -> list[bytes]:
    """Return a body in the parts that it came in; a large one is not joined on the event loop."""
    parts = [part async for part in request.stream() if part]
    if not parts:
        raise Problem(422, "the body is empty; feature rows are expected")
    return parts


async def read_json(request: Request, kind: type[T], max_values: int) -> T:
    """Return the body of a request as an object of `kind`.

    Parameters
    ----------
    request : Request
        Its body has not been read.
    kind : type
        What msgspec decodes to, a Struct mostly.
    max_values : int
        A body with more values is refused before it is decoded: a short one can make a large
        object of millions.
    """
    media_type(request, JSON)
    parts = [part async for part in request.stream()]

    def work() -> T:
        body = b"".join(parts)
        check_values(body, max_values)
        return decode(body, kind)

    return await asyncio.get_running_loop().run_in_executor(_DECODING, work)


def sent(kind: type[T], max_values: int) -> Any:
    """Return the dependency that reads a JSON body; it comes behind those before it, as the key.

    Parameters
    ----------
    kind, max_values : type, int
        As in `read_json`.
    """

    async def read(request: Request) -> T:
        return await read_json(request, kind, max_values)

    return Depends(read)


def check_values(body: bytes, max_values: int) -> None:
    """Refuse a JSON body with more values than could be meant."""
    if _count(body, b",") > max_values:
        raise Problem(413, f"the body holds more than {max_values:,} values")


def _count(body: bytes, octet: bytes) -> int:
    """Return how often an octet is in a body, in a fraction of the time of ``bytes.count``."""
    octets = np.frombuffer(body, dtype=np.uint8)
    return sum(
        int(np.count_nonzero(octets[start : start + _COUNTED] == octet[0]))
        for start in range(0, len(octets), _COUNTED)
    )


def decode(body: bytes | memoryview | msgspec.Raw, kind: type[T], place: str = "") -> T:
    """Decode JSON; the first mistake is told, with where it is.

    Examples
    --------
    >>> decode(b"[1, 2.5]", list[float])
    [1.0, 2.5]
    >>> decode(b'[1, "2.5"]', list[float], place="features[7]")
    Traceback (most recent call last):
    hgkt.serving.problems.Problem: 422: features[7][1]: Expected `float`, got `str`
    """
    try:
        found: T = _decoder(cast("Any", kind)).decode(body)
        return found
    except msgspec.ValidationError as error:
        raise wrong_value(error, place) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(422, f"{place or 'the body'} is not valid JSON: {error}") from None
    except RecursionError:
        raise Problem(422, f"{place or 'the body'} is nested too deeply") from None


def wrong_value(error: msgspec.ValidationError, place: str = "") -> Problem:
    """Return what a client is told whose value is not as described."""
    where = _PLACE.search(str(error))
    message = str(error)[: where.start()] if where else str(error)
    return Problem(422, f"{(place + (where[1] if where else '')) or 'the body'}: {message}")


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@contextmanager
def memory_returned(parts: Sequence[bytes] | None = None) -> Iterator[None]:
    """Give freed memory back when the context ends, if it was a large request's.

    The C library keeps what was freed for later, in pieces between others; after a few large
    requests a worker would hold hundreds of megabytes that nobody uses.
    """
    large = parts is None or sum(map(len, parts)) > LARGE_BYTES
    try:
        yield
    finally:
        if large:
            _trimmer()(0)


@cache
def _trimmer() -> Any:
    """Return glibc's malloc_trim; what does nothing where the C library is another."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return lambda _pad: 0


# ---------------------------------------------------------------------- feature rows and texts
def decode_rows_body(
    body: bytes, kind: type[T], n_features: int, max_rows: int, flat: bool = False
) -> T:
    """Decode a JSON body whose rows stay JSON until each is read by `json_rows`.

    Parameters
    ----------
    body : bytes
        The body.
    kind : type
        What msgspec decodes to.
    n_features, max_rows : int
        The width of a row, and the most rows.
    flat : bool
        Whether all rows may stand in one list.
    """
    n_lists = _count(body, b"[")
    if n_lists > 2 * max_rows + 16:  # a bracket per row; a string may hold some
        raise _too_many_rows(max_rows)
    check_values(body, (max_rows if flat else n_lists) * n_features + FEW_VALUES)
    return decode(body, kind)


def json_rows(rows: Sequence[Any], n_features: int, max_rows: int) -> NDArray[np.float32]:
    """Return feature rows (n, n_features) of JSON that was not decoded yet."""
    if len(rows) > max_rows:
        raise _too_many_rows(max_rows)
    found = np.empty((len(rows), n_features), dtype=np.float32)
    pack = struct.Struct(f"{n_features}d").pack  # faster than NumPy reads a list
    for number, row in enumerate(rows):
        if memoryview(row).nbytes > _MAX_NUMBER * (n_features + 1):
            raise Problem(422, f"row {number} of features is too long for {n_features} numbers")
        numbers = decode(row, list[float], f"features[{number}]")
        if len(numbers) != n_features:
            raise Problem(
                422,
                f"row {number} of features has {len(numbers)} numbers; {n_features} are expected",
            )
        # What becomes infinite is refused, with its row, where scores are made.
        with np.errstate(over="ignore"):
            found[number] = np.frombuffer(pack(*numbers))
    return found


def octet_rows(body: bytes, n_features: int, max_rows: int) -> NDArray[np.float32]:
    """Return the rows of a body of little-endian float32 numbers, without a copy.

    Examples
    --------
    >>> octet_rows(np.array([1, 2, 3, 4], "<f4").tobytes(), n_features=2, max_rows=8)
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
    refuse_many(n_rows, max_rows, "rows")
    return np.frombuffer(body, dtype="<f4").reshape(n_rows, n_features)


def check_texts(texts: str | Sequence[str]) -> list[str]:
    """Return the texts of a request as a list; refuse too many, an empty and a too long one.

    Examples
    --------
    >>> check_texts("I lost my card")
    ['I lost my card']
    """
    found = [texts] if isinstance(texts, str) else list(texts)
    refuse_many(len(found), MAX_TEXTS, "texts")
    for position, text in enumerate(found):
        if not text.strip():
            raise Problem(422, f"text {position} is empty; words are expected")
        if len(text) > MAX_TEXT_LENGTH:
            raise Problem(
                413,
                f"text {position} has {len(text):,} characters; at most {MAX_TEXT_LENGTH:,} are "
                "accepted",
            )
    return found


def refuse_many(n: int, most: int, what: str) -> None:
    """Refuse more rows, texts or classes than one request may have."""
    if n > most:
        raise Problem(413, f"the request has {n} {what}; at most {most} are accepted at once")


def _too_many_rows(max_rows: int) -> Problem:
    return Problem(413, f"the request has more than {max_rows} rows, the most that are accepted")


# ---------------------------------------------------------------------- images
@asynccontextmanager
async def read_uploads(request: Request, service: Service) -> AsyncIterator[list[Upload]]:
    """Read the images of a form; large ones lie on disk until the context ends.

    A model that reads no images, and a full queue, are told before the body is read.
    """
    service.reader.check()
    service.queues.images.check()
    media_type(request, FORM)
    most, max_bytes = service.max_images, service.settings.max_image_bytes
    try:
        form = await request.form(max_files=most, max_fields=most, max_part_size=2**16)
    except Problem:
        raise
    except HTTPException as error:
        if "files" in str(error.detail):
            detail = f"the request has too many images; at most {most} are accepted at once"
            raise Problem(413, detail) from None
        raise Problem(400, f"the form cannot be read: {error.detail}") from None
    except OSError as error:
        raise Problem(507, f"the images cannot be kept: {error.strerror}") from None
    try:
        uploads = []
        for number, item in enumerate(form.getlist("images"), start=1):
            if not isinstance(item, UploadFile):
                raise Problem(422, f"body images[{number - 1}]: a file is expected")
            if (item.size or 0) > max_bytes:
                raise Problem(
                    413, f"image {number} has {item.size} bytes; at most {max_bytes} are accepted"
                )
            name = f" ({item.filename[:80]!r})" if item.filename else ""
            uploads.append(Upload(f"image {number}{name}", item.file))
        if not uploads:
            raise Problem(422, "body images: one file at least is expected")
        yield uploads
    finally:
        await form.close()


# ---------------------------------------------------------------------- the API's description
def json_content(kind: type) -> dict[str, Any]:
    """Return what the API's description says of JSON of a type, sent or answered."""
    (schema,), known = msgspec.json.schema_components([kind], ref_template="{name}")

    def whole(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return whole(known[part["$ref"]])
            return {key: whole(value) for key, value in part.items()}
        return [whole(value) for value in part] if isinstance(part, list) else part

    return {JSON: {"schema": whole(schema)}}


ROWS_CONTENT = {
    OCTETS: {
        "schema": {"type": "string", "format": "binary"},
        "description": "Rows of little-endian float32 numbers.",
    }
}
IMAGES_CONTENT = {FORM: json_content(Images)[JSON]}


def body_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return what the API's description says of a body, by media type."""
    return {"requestBody": {"required": True, "content": content}}


def json_body(kind: type) -> dict[str, Any]:
    """Return what the API's description says of a JSON body of a type."""
    return body_of(json_content(kind))
