"""Lines of the log: JSON or text, each with the id of its request, and none with a key in it."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from hgkt.serving.request_context import current_request

LogFormat = Literal["text", "json"]
ACCESS_LOGGER = "hgkt.access"
MASK = "***"

_MAX_TARGET = 1000
_SECRET_NAMES = re.compile(r"key|token|secret|pass|auth|credential|signature", re.IGNORECASE)
_PLAIN = "!$&'()*+,-./:;=@_~"  # what a path or a query may hold unescaped
_DECODED = 3  # times that somebody may have escaped a key


class Secrets:
    """API keys, taken out of whatever is logged.

    Parameters
    ----------
    keys : iterable of str
        The keys that the service knows.

    Examples
    --------
    >>> secrets = Secrets(["correct horse battery"])
    >>> secrets.mask("refused: correct horse battery")
    'refused: ***'
    >>> secrets.target("/v1/model", b"top_k=2&x=correct%20horse+battery&api_key=wrong")
    '/v1/model?top_k=2&x=***&api_key=***'
    """

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = sorted(set(keys), key=len, reverse=True)
        forms = (form for key in self._keys for form in (key, quote(key, safe=""), quote(key),
                                                         quote_plus(key)))  # fmt: skip
        self._forms = list(dict.fromkeys(forms))

    def mask(self, text: str) -> str:
        """Return a text without keys."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def target(self, path: str, query: bytes = b"") -> str:
        """Return what was asked for, without keys: neither those that are known nor what looks so.

        Parameters
        ----------
        path : str
            The path, unescaped.
        query : bytes
            What came behind the question mark, as it came.
        """
        shown = "/".join(
            MASK if self._in(part) else quote(part, _PLAIN) for part in path.split("/")
        )
        if self._in(path) and MASK not in shown:  # a key with a slash in it
            shown = "/" + MASK
        if query:
            shown += "?" + self._query(query.decode("latin-1"))
        return shown if len(shown) <= _MAX_TARGET else shown[: _MAX_TARGET - 1] + "…"

    def _query(self, query: str) -> str:
        parts = []
        for part in query.split("&"):
            name, equals, _ = part.partition("=")
            if self._in(name):
                part = MASK
            elif self._in(part) or (equals and _SECRET_NAMES.search(unquote_plus(name))):
                part = f"{name}={MASK}"
            parts.append(part)
        together = "&".join(parts)
        return MASK if self._in(together) else quote(together, _PLAIN + "%?")

    def _in(self, text: str) -> bool:
        """Return whether a key is in a text, escaped or not."""
        for _ in range(_DECODED):
            if any(key in text or key in unquote_plus(text) for key in self._keys):
                return True
            if "%" not in text:
                break
            text = unquote(text)
        return False


@lru_cache(maxsize=1024)
def key_id(key: str) -> str:
    """Return a name for a key that may be shown: the same everywhere, and no help in guessing it.

    Examples
    --------
    >>> key_id("correct horse battery")
    '7650441e'
    """
    # scrypt, not a plain digest: a guess at a weak key shall cost something to compare.
    salt = b"hgkt key id"
    return hashlib.scrypt(key.encode(), salt=salt, n=2**12, r=8, p=1, dklen=4).hex()


class _Lines(logging.Formatter):
    """What the two formats share.

    Parameters
    ----------
    keys : sequence of str
        Keys that no line may show.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        super().__init__()
        self.secrets = Secrets(keys)

    def _parts(self, record: logging.LogRecord) -> tuple[str, str, str]:
        """Return time, message and traceback of a record, without keys."""
        moment = datetime.fromtimestamp(record.created, UTC)
        time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return time, self.secrets.mask(record.getMessage()), self.secrets.mask(trace)


class TextLines(_Lines):
    """Lines for people: time, level, logger, the id of the request, the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, and a traceback below it."""
        time, message, trace = self._parts(record)
        request = current_request()
        where = "" if request is None else f" [{self.secrets.mask(request.request_id)}]"
        line = f"{time} {record.levelname} {record.name}{where} {message}"
        return f"{line}\n{trace}" if trace else line


class JsonLines(_Lines):
    """Lines for programs: one JSON object each, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one JSON object in one line."""
        time, message, trace = self._parts(record)
        document: dict[str, Any] = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            "process": record.process,
        }
        request = current_request()
        if request is not None:
            document["request_id"] = self.secrets.mask(request.request_id)
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


class MaskedAccess(logging.Filter):
    """Takes keys out of uvicorn's own access lines, for those who run the application by it.

    Parameters
    ----------
    keys : sequence of str
        The keys that the service knows.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__()
        self._secrets = Secrets(keys)

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, with its target masked."""
        if isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, target, *rest = record.args
            path, _, query = str(target).partition("?")
            shown = self._secrets.target(unquote(path), query.encode("latin-1", "replace"))
            record.args = (client, method, shown, *rest)
        return True


def mask_uvicorn_access(keys: Sequence[str]) -> None:
    """Have uvicorn's access lines masked in this process; the last keys said count."""
    logger = logging.getLogger("uvicorn.access")
    for earlier in [found for found in logger.filters if isinstance(found, MaskedAccess)]:
        logger.removeFilter(earlier)
    logger.addFilter(MaskedAccess(keys))


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
