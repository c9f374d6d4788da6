"""The request that is being answered: its id and its trace, for every line that is logged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

ID_HEADER = "X-Request-ID"
TRACE_HEADER = "traceparent"
INFERENCE_PREFIX = "/v2"

# What common proxies and clients send: UUIDs, ULIDs, hexadecimal digits, base64.
_SANE_ID = re.compile(rb"[A-Za-z0-9._:+/=~-]{1,128}")
# W3C Trace Context: version, trace id, parent id, flags; later versions may append more.
_TRACE = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    rb"(?P<more>-[ -~]{0,256})?"
)


@dataclass(frozen=True)
class RequestContext:
    """One request.

    Parameters
    ----------
    request_id : str
        The id that the client or a proxy gave it, or one that was made here.
    path : str
        What was asked for.
    traceparent : str, optional
        Where it belongs in a distributed trace; None where nobody said, or not validly.

    Examples
    --------
    >>> parent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    >>> request = RequestContext.of([(b"x-request-id", b"7f3"), (b"traceparent", parent)])
    >>> request.request_id, request.trace_id
    ('7f3', '4bf92f3577b34da6a3ce929d0e0e4736')
    """

    request_id: str
    path: str = ""
    traceparent: str | None = None

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]], path: str = "") -> Self:
        """Read the headers of a request; what is not sane is replaced or left out."""
        given: dict[bytes, bytes] = {}
        for name, value in headers:
            if name == b"x-request-id" or name == b"traceparent":
                # Twice the same header is as bad as none: nobody knows which one is meant.
                given[name] = b"" if name in given else value
        own = given.get(b"x-request-id", b"")
        request_id = own.decode() if _SANE_ID.fullmatch(own) else uuid4().hex
        return cls(request_id, path, valid_traceparent(given.get(b"traceparent", b"")))

    @property
    def trace_id(self) -> str | None:
        """The id of the whole trace."""
        return None if self.traceparent is None else self.traceparent.split("-")[1]

    def problem_members(self, detail: str) -> dict[str, str]:
        """Return what a problem says besides: the id, and what the inference protocol reads."""
        members = {"request_id": self.request_id}
        if self.path == INFERENCE_PREFIX or self.path.startswith(INFERENCE_PREFIX + "/"):
            members["error"] = detail
        return members


_CURRENT: ContextVar[RequestContext | None] = ContextVar("hgkt_request", default=None)


def current_request() -> RequestContext | None:
    """Return the request that is being answered; None outside of any."""
    return _CURRENT.get()


def begin_request(request: RequestContext) -> None:
    """Say which request this task answers; a server runs each in a task of its own."""
    _CURRENT.set(request)


def valid_traceparent(value: bytes) -> str | None:
    """Return a header ``traceparent`` as text; None where it is not one.

    Examples
    --------
    >>> valid_traceparent(b"00-00000000000000000000000000000000-00f067aa0ba902b7-01") is None
    True
    """
    found = _TRACE.fullmatch(value)
    if found is None or (found["more"] is not None and value.startswith(b"00")):
        return None
    return value.decode()
