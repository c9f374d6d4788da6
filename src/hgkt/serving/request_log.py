"""ASGI middleware that gives every request an id, and every request and mishap its line."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.key_wall import sent_key
from hgkt.serving.logs import ACCESS_LOGGER, Secrets, key_id
from hgkt.serving.problems import Problem
from hgkt.serving.request_context import (
    ID_HEADER,
    TRACE_HEADER,
    RequestContext,
    begin_request,
)
from hgkt.serving.security import key_digest

MODEL = "hgkt_model"
"""Where a request's scope says which of several models answers."""
CLIENT_GONE = 499  # nginx's number for a client that did not wait; no answer carries it

access = logging.getLogger(ACCESS_LOGGER)
logger = logging.getLogger(__name__)


class RequestLog:
    """ASGI middleware: takes or makes the request's id, returns it, and logs the request.

    It stands outermost, so that refusals of the others and unexpected errors are logged too, and
    answered with the id.

    Parameters
    ----------
    app : ASGI application
        What answers.
    keys : sequence of str
        The API keys, shown in lines by their `key_id` only.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str] = ()) -> None:
        self.app = app
        self._secrets = Secrets(keys)
        self._key_ids = {key_digest(key): key_id(key) for key in keys}
        for number, name in enumerate(self._key_ids.values(), start=1):
            access.info("key %d of %d has the id %s", number, len(self._key_ids), name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        request = RequestContext.of(scope["headers"], scope["path"])
        begin_request(request)
        own = [(ID_HEADER.lower().encode(), request.request_id.encode())]
        if request.traceparent is not None:
            own.append((TRACE_HEADER.encode(), request.traceparent.encode()))
        status = n_bytes = 0

        async def watched(message: Message) -> None:
            nonlocal status, n_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *own]
            else:
                n_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except ClientDisconnect:
            status = CLIENT_GONE
        except Exception as error:
            target = self._target(scope)
            logger.error("unexpected error at %s %s", scope["method"], target, exc_info=error)
            if status:  # half an answer is out: only closing the connection tells the client
                raise
            detail = "something went wrong inside the service; its log says what and where"
            await Problem(500, detail).response()(scope, receive, watched)
        finally:
            if access.isEnabledFor(logging.INFO):
                self._log(scope, status, n_bytes, time.perf_counter() - start, request)

    def _log(
        self, scope: Scope, status: int, n_bytes: int, seconds: float, request: RequestContext
    ) -> None:
        client = scope.get("client")
        fields: dict[str, Any] = {
            "method": scope["method"],
            "path": self._target(scope),
            "status": status,
            "duration_ms": round(1000 * seconds, 3),
            "bytes": n_bytes,
            "client": client[0] if client else None,
            "key_id": self._key_id(scope),
        }
        model = scope.get(MODEL)
        if model is not None:
            fields["model"] = model
        shown = "{method} {path} {status} {duration_ms}ms {bytes}B client={client}".format(**fields)
        named = (
            ("key", fields["key_id"]),
            ("trace", request.trace_id),
            ("model", scope.get(MODEL)),
        )
        for name, value in named:
            if value is not None:
                shown += f" {name}={value}"
        access.info("%s", shown, extra={"fields": fields})

    def _target(self, scope: Scope) -> str:
        return self._secrets.target(scope["path"], scope.get("query_string", b""))

    def _key_id(self, scope: Scope) -> str | None:
        given = sent_key(scope) if self._key_ids else None
        return None if given is None else self._key_ids.get(key_digest(given), "unknown")
