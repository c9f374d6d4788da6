"""Who may write, and how much a request may carry."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Annotated

from fastapi import Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.problems import Problem, problem_response
from hgkt.serving.settings import ServiceSettings

_HEADER = APIKeyHeader(name="X-API-Key", scheme_name="API key", auto_error=False)
_BEARER = HTTPBearer(scheme_name="Bearer", auto_error=False)


def require_key(settings: ServiceSettings) -> Callable[..., None]:
    """Return a dependency that lets a request pass only with one of the keys.

    The key comes in the header ``X-API-Key`` or as ``Authorization: Bearer KEY``. Without keys in
    the settings everybody passes.

    Parameters
    ----------
    settings : ServiceSettings
        Holds the keys.
    """
    if not settings.api_keys:
        return _pass
    digests = [_digest(key) for key in settings.api_keys]

    def check(
        header: Annotated[str | None, Security(_HEADER)] = None,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None,
    ) -> None:
        given = header if header is not None else bearer.credentials if bearer else None
        if given is None or not matches(given, digests):
            missing = "needs an API key" if given is None else "was sent with an unknown API key"
            raise Problem(
                401,
                f"this request {missing}; send one in the header X-API-Key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return check


def matches(given: str, digests: list[bytes]) -> bool:
    """Return whether a key is known; takes the same time whichever it is, and whether it is.

    Parameters
    ----------
    given : str
        The key that came with a request.
    digests : list of bytes
        SHA-256 of each key that may pass.
    """
    own = _digest(given)
    found = False
    for digest in digests:  # no early end: time would tell which key is near
        found |= hmac.compare_digest(own, digest)
    return found


def _digest(key: str) -> bytes:
    # Digests are of one length, so that comparing them does not tell the length of a key either.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _pass() -> None:
    return None


class BodyLimit:
    """ASGI middleware that refuses bodies that are too large, announced or streamed.

    Parameters
    ----------
    app : ASGI application
        What comes behind.
    max_bytes : int
        The most that a body may have.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"")
        # Far more digits than any length has are not worth a conversion.
        if announced.isdigit() and (len(announced) > 18 or int(announced) > self.max_bytes):
            await self._refuse(scope, receive, send)
            return
        n_bytes = 0
        started = False

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            n_bytes += len(message.get("body", b""))
            if n_bytes > self.max_bytes:
                raise Problem(413, "the body is too large")
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            # Whatever the application made of the interruption, the client is told the reason.
            if n_bytes > self.max_bytes and not started:
                return
            started = True
            await send(message)

        try:
            await self.app(scope, counted, watched)
        except Problem:
            if n_bytes <= self.max_bytes:
                raise
        if n_bytes > self.max_bytes and not started:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body is larger than {self.max_bytes:,} bytes, the most this service takes"
        await problem_response(413, detail)(scope, receive, send)
