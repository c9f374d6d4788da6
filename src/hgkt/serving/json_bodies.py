"""JSON bodies: decoded by type, off the event loop, up to the first mistake and no further."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar, cast

import anyio.to_thread
import msgspec
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from fastapi import Request

from hgkt.serving.problems import Problem

JSON = "application/json"
T = TypeVar("T")

_DECODING: RunVar[CapacityLimiter] = RunVar("hgkt_json_decoding")
_PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")


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
    check_json(request)
    parts = await read_parts(request)

    def work() -> T:
        body = b"".join(parts)
        if body.count(b",") > max_values:
            raise Problem(413, f"the body holds more than {max_values:,} values")
        return decode(body, kind)

    return await anyio.to_thread.run_sync(work, limiter=_one_at_a_time())


def _one_at_a_time() -> CapacityLimiter:
    """Return the limiter of this event loop; one is not to be shared between loops.

    Decoding keeps other threads waiting, so that two at once would gain nothing but memory.
    """
    try:
        return _DECODING.get()
    except LookupError:
        limiter = CapacityLimiter(1)
        _DECODING.set(limiter)
        return limiter


async def read_parts(request: Request) -> list[bytes]:
    """Return a body in the parts that it came in; a large one is not joined on the event loop."""
    return [part async for part in request.stream() if part]


def check_json(request: Request) -> None:
    """Refuse another media type: a page of another site can send text, but no JSON, unasked."""
    kind = media_type(request)
    if kind != JSON:
        raise Problem(415, f"the content type must be {JSON}; got {kind[:80]!r}")


def media_type(request: Request) -> str:
    """Return the media type of a body, without parameters; refuse a compressed body."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "compressed bodies are not accepted; send it without Content-Encoding")
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def decode(body: bytes | memoryview, kind: type[T], place: str = "") -> T:
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
        where = _PLACE.search(str(error))
        message = str(error)[: where.start()] if where else str(error)
        place = (place + (where[1] if where else "")) or "the body"
        raise Problem(422, f"{place}: {message}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(422, f"{place or 'the body'} is not valid JSON: {error}") from None
    except RecursionError:
        raise Problem(422, f"{place or 'the body'} is nested too deeply") from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def schema_of(kind: type) -> dict[str, Any]:
    """Return the JSON schema of a type, with nothing referred to.

    Examples
    --------
    >>> schema_of(list[int])
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    (schema,), known = msgspec.json.schema_components([kind], ref_template="{name}")

    def whole(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return whole(known[part["$ref"]])
            return {key: whole(value) for key, value in part.items()}
        return [whole(value) for value in part] if isinstance(part, list) else part

    resolved: dict[str, Any] = whole(schema)
    return resolved
