"""Who may write, how much a request may carry, and what a browser may do with an answer."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

_HEADER = APIKeyHeader(name="X-API-Key", scheme_name="API key", auto_error=False)
_BEARER = HTTPBearer(scheme_name="Bearer", auto_error=False)
WORKER_HEADER = "X-Worker"

# Plotly writes style rules into the page; its scatter plots need neither eval nor workers.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"


def require_key(settings: ServiceSettings) -> Callable[..., None]:
    """Return a dependency that lets a request pass only with one of the keys.

    The key comes in the header ``X-API-Key`` or as ``Authorization: Bearer KEY``. Without keys in
    the settings everybody passes.
    """
    if not settings.api_keys:
        return lambda: None
    digests = [key_digest(key) for key in settings.api_keys]

    def check(
        header: Annotated[str | None, Security(_HEADER)] = None,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None,
    ) -> None:
        given = header if header is not None else bearer.credentials if bearer else None
        if given is None or not matches(given, digests):
            raise unknown_key(given)

    return check


def unknown_key(given: str | None) -> Problem:
    """Return the answer to a request without a key, or with a wrong one."""
    missing = "needs an API key" if given is None else "was sent with an unknown API key"
    return Problem(
        401,
        f"this request {missing}; send one in the header X-API-Key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def matches(given: str, digests: list[bytes]) -> bool:
    """Return whether a key is known; takes the same time whichever it is, and whether it is.

    Parameters
    ----------
    given : str
        The key that came with a request.
    digests : list of bytes
        SHA-256 of each key that may pass.
    """
    own = key_digest(given)
    found = False
    for digest in digests:  # no early end: time would tell which key is near
        found |= hmac.compare_digest(own, digest)
    return found


def key_digest(key: str) -> bytes:
    """Return what keys are compared by."""
    # Digests are of one length, so that comparing them does not tell the length of a key either.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


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
        await Problem(413, detail).response()(scope, receive, send)


class SafeHeaders:
    """ASGI middleware: tells browsers what a page may do, and clients which worker answered.

    Parameters
    ----------
    app : ASGI application
        What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        common = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            WORKER_HEADER: str(os.getpid()),
        }
        self._headers = {
            policy: [
                (name.lower().encode(), value.encode())
                for name, value in {**common, "Content-Security-Policy": policy}.items()
            ]
            for policy in (_PAGE_POLICY, _DOCS_POLICY, _API_POLICY)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the headers added."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        policy = _PAGE_POLICY if path == "/" or path.startswith("/page/") else _API_POLICY
        headers = self._headers[_DOCS_POLICY if path == "/docs" else policy]

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message["headers"]
                if message["status"] == HTTPStatus.METHOD_NOT_ALLOWED:
                    own = [item for item in own if item[0].lower() != b"allow"]
                    own.append((b"allow", ", ".join(_methods(scope)).encode()))
                message["headers"] = [*own, *headers]
            await send(message)

        await self.app(scope, receive, with_headers)


def _methods(scope: Scope) -> list[str]:
    """Return all methods that a path answers to; the router names those of its first route."""
    found: set[str] = set()
    for route in scope["app"].routes:
        match, _ = route.matches({**scope, "path_params": {}})
        if match is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)
