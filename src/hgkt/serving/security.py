"""Who may write, for whose pages, and what a browser may do with an answer."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.logs import key_id
from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

_HEADER = APIKeyHeader(name="X-API-Key", scheme_name="API key", auto_error=False)
_BEARER = HTTPBearer(scheme_name="Bearer", auto_error=False)
WORKER_HEADER = "X-Worker"
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")

# Plotly writes style rules into the page; its scatter plots need neither eval nor workers.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"


def require_key(settings: ServiceSettings) -> Callable[..., Any]:
    """Return a dependency that lets a request pass only with one of the keys, and names that key.

    It returns the id of the key; without keys in the settings everybody passes, as None. The key
    comes in the header ``X-API-Key`` or as ``Authorization: Bearer KEY``. It is looked at before
    the body only in routes that read the body themselves, or in a dependency: FastAPI reads a body
    that is a parameter first.
    """
    if not settings.api_keys:
        return lambda: None
    # By the same ids as in the log; each takes a while to compute.
    ids = {key_digest(key): key_id(key) for key in settings.api_keys}

    async def check(
        header: Annotated[str | None, Security(_HEADER)] = None,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)] = None,
    ) -> str:
        given = header if header is not None else bearer.credentials if bearer else None
        if given is None or not matches(given, list(ids)):
            raise unknown_key(given)
        return ids[key_digest(given)]

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


class OwnHost:
    """ASGI middleware that answers only to the service's own names, and to its own pages.

    A browser sends requests for any page that it shows. One whose name was made to point here
    gives itself away by the header Host, one of another site by ``Sec-Fetch-Site`` or ``Origin``;
    the latter may read, which browsers keep from it, and not change or compute anything.

    Parameters
    ----------
    app : ASGI application
        What comes behind.
    hosts : sequence of str
        As `ServiceSettings.answered_hosts` returns them.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app = app
        self._any = "*" in hosts
        self._names = frozenset(name for name in hosts if not name.startswith("*"))
        self._ends = tuple(name[1:] for name in hosts if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            problem = self._problem(scope)
            if problem is not None:
                await problem.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._any and not self._known(bare_host(host)):
            return Problem(
                421,
                f"this service is not called {bare_host(host)[:80]!r}; "
                "whoever runs it may allow the name with --allowed-host",
            )
        if scope["method"] not in _READING and _foreign(headers, host):
            return Problem(403, "pages of other sites may not send this request")
        return None

    def _known(self, name: str) -> bool:
        return name in self._names or (bool(self._ends) and name.endswith(self._ends))


def _foreign(headers: Mapping[bytes, bytes], host: str) -> bool:
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    # Browsers leave Sec-Fetch-Site out where a page came without TLS; other clients than
    # browsers send neither.
    origin = headers.get(b"origin")
    return origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host


def bare_host(host: str) -> str:
    """Return the name in a Host header without its port.

    Examples
    --------
    >>> bare_host("localhost:8000"), bare_host("[::1]:8000"), bare_host("10.0.0.1")
    ('localhost', '::1', '10.0.0.1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


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
    """Return all methods that a path answers to; the router names those of its first route.

    Each is tried: routes of routers that were included are not in the list of routes everywhere.
    """
    asked = {
        "type": "http",
        "path": scope["path"],
        "root_path": scope.get("root_path", ""),
        "headers": scope["headers"],
    }
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**asked, "method": method})[0] is Match.FULL
            for route in scope["app"].routes
        )
    ]
