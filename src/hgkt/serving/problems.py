"""Errors as the service tells them: application/problem+json (RFC 9457), one sentence each."""

from __future__ import annotations

import json
import logging
from http.client import responses
from typing import Any, Self

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from hgkt.exceptions import DataError, HGKTError
from hgkt.serving.database import RegistryError
from hgkt.serving.events import (
    ClassExistsError,
    ClassLearnedError,
    NoGrowthError,
    UnknownClassError,
    UnknownItemError,
    UnknownRevisionError,
)
from hgkt.serving.logs import CURRENT
from hgkt.serving.readers import NotReadError, TooMuchError

MEDIA_TYPE = "application/problem+json"
RETRY = {"Retry-After": "1"}
_MAX_DETAIL = 600

logger = logging.getLogger(__name__)


class ProblemModel(BaseModel):
    """What every error looks like."""

    type: str = Field(default="about:blank", description="Kind of problem; none is named here.")
    title: str = Field(description="What the status means.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(description="One sentence: what was wrong and what is expected.")
    request_id: str = Field(description="The request's id, as in the header X-Request-ID.")


DOCUMENTED: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What was wrong, in a sentence.",
        "content": {MEDIA_TYPE: {"schema": ProblemModel.model_json_schema()}},
    }
}
"""What the API's description says of errors, those of every route."""


class Problem(HTTPException):
    """An error to be told to the client: an HTTP status, one sentence, further headers.

    Examples
    --------
    >>> print(Problem(404, "there is no class 'a'").response().body.decode())
    {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "there is no class 'a'"}
    """

    @classmethod
    def busy(cls, reason: str) -> Self:
        """Return the answer to a request that comes at a bad time and may be sent again."""
        return cls(503, f"{reason}; try again in a moment", RETRY)

    def response(self) -> Response:
        """Return the problem as a response."""
        detail = self.detail
        if len(detail) > _MAX_DETAIL:
            detail = detail[: _MAX_DETAIL - 1] + "…"
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": responses[self.status_code],
            "status": self.status_code,
            "detail": detail,
        }
        request = CURRENT.get()
        if request.request_id:
            document["request_id"] = request.request_id
        if f"{request.path}/".startswith("/v2/"):
            document["error"] = detail  # what clients of the inference protocol read
        # ASCII with escapes: what a client sent, and is told again, need not be valid Unicode.
        content = json.dumps(document, ensure_ascii=True).encode("ascii")
        return Response(content, self.status_code, self.headers, MEDIA_TYPE)


def install_problems(app: FastAPI) -> None:
    """Have every error of `app` answered as a problem; `RequestEnvelope` does unexpected ones."""

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        status, detail, headers = error.status_code, str(error.detail), error.headers
        # The framework says these in two words, and names the methods of the first route alone.
        if status == 405:
            headers = {"Allow": ", ".join(_allowed_methods(request))}
            detail = f"{request.url.path} does not answer to {request.method}"
        elif status == 404 and detail == responses[404]:
            detail = f"there is nothing at {request.url.path}"
        return Problem(status, detail, headers).response()

    @app.exception_handler(RequestValidationError)
    async def _validation(_request: Request, error: RequestValidationError) -> Response:
        # The first mistake is named; values are not repeated, they may be anything.
        first, *others = error.errors()
        more = f" ({len(others)} more like this)" if others else ""
        place = " ".join(map(str, first["loc"]))
        return Problem(422, f"{place}: {first['msg']}{more}").response()

    @app.exception_handler(HGKTError)
    async def _own(_request: Request, error: HGKTError) -> Response:
        status = status_of(error)
        if status >= 500:
            logger.warning("%s", error)
        headers = RETRY if status == 503 else None
        # Strangers are not told where on the machine the registry is.
        detail = error.sentence if isinstance(error, RegistryError) else str(error)
        return Problem(status, detail, headers).response()


def status_of(error: HGKTError) -> int:
    """Return the HTTP status that an error of the library is answered with.

    Examples
    --------
    >>> status_of(DataError("class 'zebra' has 3 attributes; 85 are expected"))
    422
    """
    if isinstance(error, RegistryError):
        return 507 if error.kind == "full" else 503
    if isinstance(error, ClassExistsError | ClassLearnedError | NoGrowthError | NotReadError):
        return 409
    if isinstance(error, UnknownRevisionError | UnknownClassError | UnknownItemError):
        return 404
    if isinstance(error, TooMuchError):
        return 413
    return 422 if isinstance(error, DataError) else 500


def _allowed_methods(request: Request) -> list[str]:
    """Return all methods that a path answers to.

    Each is tried: routes of routers that were included are not in the list of routes everywhere.
    """

    def answers(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)

    return list(filter(answers, ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")))
