"""What stands around every request: its id and its line in the log, the door, and bounds of bodies.

Outermost is `RequestEnvelope`, so that refusals of the others and unexpected errors are counted,
logged and answered with an id too; then `Door`; then `BodyLimits`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import translate
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.auth import KeyRing
from hgkt.serving.logs import ACCESS_LOGGER, CURRENT, RequestContext, mask_keys, request_id
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

CLIENT_GONE = 499  # nginx's number for a client that did not wait; no answer carries it
MIN_BYTES_PER_SECOND = 64 * 1024
"""How fast a body must come, on the average, beyond the first seconds."""

_READING = frozenset(("GET", "HEAD", "OPTIONS"))
_MAX_PATH = 1000
_PLAIN = "!$&'()*+,-./:;=@_~"  # what a path may hold unescaped
_HOST = re.compile(r"(?P<name>[a-z0-9._-]*|\[[0-9a-f:.]+\])(:[0-9]{0,5})?")
# Probes carry no key; the page's files hold nothing of the model, and ask for the key themselves.
_OPEN = frozenset({"/health", "/ready", "/v2/health/live", "/v2/health/ready", "/"})
_OPEN_FOLDER = "/page/"
_DESCRIPTIONS = ("/v1/classes", "/v1/unknown")
_CHANGES = (*_DESCRIPTIONS, "/v1/rollback")
_CHECK = "/v1/classes/check"

# Plotly writes style rules into the page; its scatter plots need neither eval nor workers.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"

access = logging.getLogger(ACCESS_LOGGER)
logger = logging.getLogger(__name__)


# ---------------------------------------------------------------------- around everything
class RequestEnvelope:
    """ASGI middleware: gives a request its id, counts and times it, logs it, and adds headers.

    It also answers with the problems that are raised in it.
    The log has the path and never the query, which may hold anything.

    Parameters
    ----------
    app : ASGI application
        What answers.
    keys : sequence of str
        The API keys, shown in lines by their ids only.
    metrics : Metrics, optional
        Where requests are counted.
    """

    def __init__(
        self, app: ASGIApp, keys: Sequence[str] = (), metrics: Metrics | None = None
    ) -> None:
        self.app, self._metrics = app, metrics or Metrics()
        self._keys, self._ring = keys, KeyRing(keys)
        for number, name in enumerate(self._ring.ids.values(), start=1):
            access.info("key %d of %d has the id %s", number, len(self._ring.ids), name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        own_id = request_id(Headers(scope=scope).getlist("x-request-id"))
        CURRENT.set(RequestContext(own_id, scope["path"]))
        headers = _own_headers(scope["path"], own_id)
        status = n_bytes = 0

        async def watched(message: Message) -> None:
            nonlocal status, n_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *headers]
            else:
                n_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Problem as problem:
            await problem.response()(scope, receive, watched)
        except ClientDisconnect:
            status = CLIENT_GONE
        except Exception as error:
            path = self._path(scope)
            logger.error("unexpected error at %s %s", scope["method"], path, exc_info=error)
            if status:  # half an answer is out: only closing the connection tells the client
                raise
            detail = "something went wrong inside the service; its log says what and where"
            await Problem(500, detail).response()(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - start
            endpoint = getattr(scope.get("route"), "path", "other")
            self._metrics.count(endpoint, status or 500, seconds)
            if access.isEnabledFor(logging.INFO):
                self._log(scope, status, n_bytes, seconds)

    def _log(self, scope: Scope, status: int, n_bytes: int, seconds: float) -> None:
        client = scope.get("client")
        fields: dict[str, Any] = {
            "method": scope["method"],
            "path": self._path(scope),
            "status": status,
            "duration_ms": round(1000 * seconds, 3),
            "bytes": n_bytes,
            "client": client[0] if client else None,
            "key_id": self._ring.identify(scope),
        }
        line = "{method} {path} {status} {duration_ms}ms {bytes}B client={client}".format(**fields)
        if fields["key_id"] is not None:
            line += f" key={fields['key_id']}"
        access.info("%s", line, extra={"fields": fields})

    def _path(self, scope: Scope) -> str:
        """Return what was asked for in one printable line, without keys."""
        shown = quote(mask_keys(scope["path"], self._keys), _PLAIN)
        return shown if len(shown) <= _MAX_PATH else shown[: _MAX_PATH - 1] + "…"


def _own_headers(path: str, own_id: str) -> list[tuple[bytes, bytes]]:
    """Return what every answer carries: what a browser may do with it, who answered, and its id."""
    policy = _DOCS_POLICY if path == "/docs" else _API_POLICY
    if path == "/" or path.startswith(_OPEN_FOLDER):
        policy = _PAGE_POLICY
    return [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"content-security-policy", policy.encode()),
        (b"x-worker", str(os.getpid()).encode()),
        (b"x-request-id", own_id.encode()),
    ]


# ---------------------------------------------------------------------- the door
class Door:
    """ASGI middleware that lets in only who knows the service's names, pages and, if so, keys.

    Others meet a `Problem`, which `RequestEnvelope` answers with.

    A browser sends requests for any page that it shows. One whose name was made to point here
    gives itself away by the header Host, one of another site by ``Sec-Fetch-Site`` or ``Origin``;
    the latter may read, which browsers keep from it, and not change or compute anything. All is
    decided before a byte of the body is read.

    Parameters
    ----------
    app : ASGI application
        What comes behind.
    hosts : sequence of str
        As `ServiceSettings.answered_hosts` returns them.
    keys : sequence of str
        The keys of which everything but the probes and the empty page needs one; none where
        strangers may come in.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], keys: Sequence[str] = ()) -> None:
        self.app = app
        self._own_name = re.compile("|".join(map(translate, hosts))).match
        self._ring = KeyRing(keys) if keys else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or raise a Problem."""
        if scope["type"] == "http":
            self._check(scope)
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = ",".join(headers.getlist("host")).lower()
        found = _HOST.fullmatch(host)
        if found is None:
            raise Problem(400, "one header Host with a name and perhaps a port is expected")
        name = found["name"].strip("[]")
        if not self._own_name(name):
            raise Problem(
                421,
                f"this service is not called {name[:80]!r}; "
                "whoever runs it may allow the name with --allowed-host",
            )
        if scope["method"] not in _READING and _foreign(headers, host):
            raise Problem(403, "pages of other sites may not send this request")
        is_open = scope["path"] in _OPEN or scope["path"].startswith(_OPEN_FOLDER)
        if self._ring is not None and not is_open:
            self._ring.require(scope)


def _foreign(headers: Headers, host: str) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    # Browsers leave Sec-Fetch-Site out where a page came without TLS; other clients than
    # browsers send neither.
    origin = headers.get("origin")
    return origin is not None and origin.lower().partition("://")[2] != host


# ---------------------------------------------------------------------- bodies
class BodyLimits:
    """ASGI middleware that bounds bodies: the size and time of one, the bytes of all at once.

    Nothing is read here. What the application takes is counted while it takes it, so that a
    request that is refused for its key costs no more than its head, and an announced length takes
    no room. Changes of classes have room of their own.

    Parameters
    ----------
    app : ASGI application
        What comes behind.
    settings : ServiceSettings
        The limits.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self.app = app
        self._body_bytes = settings.max_body_bytes
        self._class_bytes = min(settings.max_class_bytes, settings.max_body_bytes)
        self._patience = settings.client_seconds
        self._room = max(settings.max_bodies_bytes, settings.max_body_bytes)
        self._held = {True: 0, False: 0}  # by whether it is a change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever came of an interruption, the client is told the reason."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        change = path.startswith(_CHANGES) and path != _CHECK
        classes = path.startswith(_DESCRIPTIONS) and not path.endswith("/examples")
        most = self._class_bytes if classes else self._body_bytes
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and (len(length) > 17 or int(length) > most):
            await _too_large(most).response()(scope, receive, send)
            return
        problem: Problem | None = None
        n_bytes, start, complete = 0, 0.0, False

        async def counted() -> Message:
            """Hand on the next part of the body, counted; raise a Problem where there is one."""
            nonlocal problem, n_bytes, start, complete
            if complete:  # what comes now is that the client goes
                return await receive()
            now = asyncio.get_running_loop().time()
            start = start or now
            latest = self._patience + min(now, start + n_bytes / MIN_BYTES_PER_SECOND)
            try:
                async with asyncio.timeout_at(latest):
                    message = await receive()
            except TimeoutError:
                problem = Problem(
                    408,
                    f"the body came too slowly: more than {self._patience:g} s without a part of "
                    f"it, or less than {MIN_BYTES_PER_SECOND:,} bytes per second",
                )
                raise problem from None
            more = len(message.get("body", b""))
            n_bytes += more
            self._held[change] += more
            complete = not message.get("more_body", False)
            if n_bytes > most:
                problem = _too_large(most)
            elif self._held[change] > self._room:
                problem = Problem.busy("too many bodies are being received")
            if problem is not None:
                raise problem
            return message

        async def watched(message: Message) -> None:
            """Hand on an answer, unless the client is to be told of a Problem instead."""
            if problem is None:
                await send(message)

        try:
            await self.app(scope, counted, watched)
        finally:
            self._held[change] -= n_bytes
        if problem is not None:
            if problem.status_code == 503 and not complete:
                await self._pass_over(receive, most - n_bytes)
            await problem.response()(scope, receive, send)

    async def _pass_over(self, receive: Receive, most: int) -> None:
        """Let the rest of a body go by: who is still sending would find the connection closed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                more = True
                while more and most >= 0:
                    message = await receive()
                    most -= len(message.get("body", b""))
                    more = message.get("more_body", False)


def _too_large(most: int) -> Problem:
    return Problem(413, f"the body is larger than {most:,} bytes, the most that is taken here")
