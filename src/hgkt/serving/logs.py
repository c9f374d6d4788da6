"""Lines of the log: JSON or text, each with the id of its request, and none with a key in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import uuid4

LogFormat = Literal["text", "json"]
ACCESS_LOGGER = "hgkt.access"
MASK = "***"

# What common proxies and clients send: UUIDs, ULIDs, hexadecimal digits, base64.
_SANE_ID = re.compile(r"[A-Za-z0-9._:+/=~-]{1,128}")


class RequestContext(NamedTuple):
    """The request that is being answered: its id, and its path."""

    request_id: str = ""
    path: str = ""


_OUTSIDE = RequestContext()
CURRENT: ContextVar[RequestContext] = ContextVar("hgkt_request", default=_OUTSIDE)
"""The request that is being answered; one without an id outside of any."""


def request_id(given: Sequence[str]) -> str:
    """Return the id of a request: the one that its header gave, or a new one.

    Parameters
    ----------
    given : sequence of str
        The values of the header X-Request-Id. Two are as bad as none: nobody knows which is meant.

    Examples
    --------
    >>> request_id(["7f3"])
    '7f3'
    """
    return given[0] if len(given) == 1 and _SANE_ID.fullmatch(given[0]) else uuid4().hex


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


class Lines(logging.Formatter):
    """Lines for people, or JSON objects for programs; no line shows a key.

    Parameters
    ----------
    log_format : {"text", "json"}
        How a line looks.
    keys : sequence of str
        Keys that no line may show.
    """

    def __init__(self, log_format: LogFormat = "text", keys: Sequence[str] = ()) -> None:
        super().__init__()
        self._json, self._keys = log_format == "json", keys

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line; as text with its traceback below."""
        moment = datetime.fromtimestamp(record.created, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message, request = self._mask(record.getMessage()), self._mask(CURRENT.get().request_id)
        trace = self._mask(self.formatException(record.exc_info)) if record.exc_info else ""
        if not self._json:
            where = f" [{request}]" if request else ""
            line = f"{time} {record.levelname} {record.name}{where} {message}"
            return f"{line}\n{trace}" if trace else line
        document = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            "process": record.process,
            "request_id": request,
            "exception": trace,
            **getattr(record, "fields", {}),
        }
        return json.dumps({key: value for key, value in document.items() if value != ""})

    def _mask(self, text: str) -> str:
        return mask_keys(text, self._keys)


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
    lines = {"()": f"{__name__}.{Lines.__name__}", "log_format": log_format, "keys": list(keys)}
    level = "INFO" if access_log else "WARNING"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": lines},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {"hgkt": {"level": level}, "uvicorn": {"level": level, "handlers": []}},
    }
