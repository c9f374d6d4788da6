"""The service closed to strangers: a key for everything but probes and the empty page."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from hgkt.serving.security import key_digest, matches, unknown_key

# Probes carry no key; the page's files hold nothing of the model, and ask for the key themselves.
OPEN = frozenset({"/health", "/ready", "/v2/health/live", "/v2/health/ready", "/"})
OPEN_FOLDER = "/page/"


class KeyWall:
    """ASGI middleware: refuses requests without a known key before a byte of their body is read.

    Parameters
    ----------
    app : ASGI application
        What answers those with a key.
    keys : sequence of str
        The keys.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self.app = app
        self._digests = [key_digest(key) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and not is_open(scope["path"]):
            given = sent_key(scope)
            if given is None or not matches(given, self._digests):
                await unknown_key(given).response()(scope, receive, send)
                return
        await self.app(scope, receive, send)


def is_open(path: str) -> bool:
    """Return whether a path is answered without a key.

    Examples
    --------
    >>> is_open("/ready"), is_open("/page/main.js"), is_open("/metrics")
    (True, True, False)
    """
    return path in OPEN or path.startswith(OPEN_FOLDER)


def sent_key(scope: Scope) -> str | None:
    """Return the key that came with a request: ``X-API-Key``, or ``Authorization: Bearer KEY``."""
    bearer = None
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            return str(value.decode("latin-1"))
        if name == b"authorization":
            scheme, _, credentials = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and credentials:
                bearer = credentials.strip()
    return bearer
