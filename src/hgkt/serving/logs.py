"""Lines of the log: JSON or text, each with the id of its request, and none with a key in it."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self
from urllib.parse import quote
from uuid import uuid4

from starlette.datastructures import Headers

LogFormat = Literal["text", "json"]
ACCESS_LOGGER = "hgkt.access"
MASK = "***"

# What common proxies and clients send: UUIDs, ULIDs, hexadecimal digits, base64.
_SANE_ID = re.compile(r"[A-Za-z0-9._:+/=~-]{1,128}")
# W3C Trace Context, version 00: version, trace id, parent id, flags.
_TRACE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True)
class RequestContext:
    """One request: its id, given or made here, its path, and its place in a distributed trace.

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
        given = Headers(raw=list(headers))
        ids, traces = given.getlist("x-request-id"), given.getlist("traceparent")
        # Twice the same header is as bad as none: nobody knows which one is meant.
        sane = len(ids) == 1 and _SANE_ID.fullmatch(ids[0])
        traced = len(traces) == 1 and _TRACE.fullmatch(traces[0])
        return cls(ids[0] if sane else uuid4().hex, path, traces[0] if traced else None)

    @property
    def trace_id(self) -> str | None:
        """The id of the whole trace."""
        return None if self.traceparent is None else self.traceparent.split("-")[1]


CURRENT: ContextVar[RequestContext | None] = ContextVar("hgkt_request", default=None)
"""The request that is being answered; None outside of any."""


def mask_keys(text: str, keys: Iterable[str]) -> str:
    """Return a text without keys, plain or escaped as in an address.

    Examples
    --------
    >>> mask_keys("refused: correct horse, correct%20horse", ["correct horse"])
    'refused: ***, ***'
    """
    for key in sorted(keys, key=len, reverse=True):
        text = text.replace(key, MASK).replace(quote(key, safe=""), MASK)
    return text


class _Lines(logging.Formatter):
    """What the two formats share: no line may show a key."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        super().__init__()
        self._keys = keys

    def mask(self, text: str) -> str:
        """Return a text without keys."""
        return mask_keys(text, self._keys)

    def parts(self, record: logging.LogRecord) -> tuple[str, str, str]:
        """Return time, message and traceback of a record, without keys."""
        moment = datetime.fromtimestamp(record.created, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return time, self.mask(record.getMessage()), self.mask(trace)


class TextLines(_Lines):
    """Lines for people: time, level, logger, the id of the request, the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, and a traceback below it."""
        time, message, trace = self.parts(record)
        request = CURRENT.get()
        where = "" if request is None else f" [{self.mask(request.request_id)}]"
        line = f"{time} {record.levelname} {record.name}{where} {message}"
        return f"{line}\n{trace}" if trace else line


class JsonLines(_Lines):
    """Lines for programs: one JSON object each, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one JSON object in one line."""
        time, message, trace = self.parts(record)
        document: dict[str, Any] = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            "process": record.process,
        }
        request = CURRENT.get()
        if request is not None:
            document["request_id"] = self.mask(request.request_id)
            if request.trace_id is not None:
                document["trace_id"] = request.trace_id
        document |= getattr(record, "fields", {})
        if trace:
            document["exception"] = trace
        return json.dumps(document)


class StderrHandler(logging.StreamHandler):
    """Writes to what stderr is at that moment, not to what it was when logging was set up."""

    @property
    def stream(self) -> Any:
        """Where lines go."""
        return sys.stderr

    @stream.setter
    def stream(self, _value: Any) -> None:
        """Leave it: whoever replaces stderr decides."""


def logging_config(
    log_format: LogFormat = "text", access_log: bool = False, keys: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what ``logging.config.dictConfig`` and uvicorn's ``log_config`` take.

    All lines go to stderr in one format, uvicorn's included. Its access lines are off: the
    service writes its own.

    Parameters
    ----------
    log_format : {"text", "json"}
        How a line looks.
    access_log : bool
        Whether every request gets a line.
    keys : sequence of str
        Keys that no line may show.
    """
    lines = JsonLines if log_format == "json" else TextLines
    level = "INFO" if access_log else "WARNING"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"{__name__}.{lines.__name__}", "keys": list(keys)}},
        "handlers": {
            "stderr": {"class": f"{__name__}.{StderrHandler.__name__}", "formatter": "lines"}
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            "hgkt": {"level": level},
            "uvicorn": {"level": level, "handlers": []},
            "uvicorn.access": {"level": "WARNING", "handlers": []},
        },
    }
