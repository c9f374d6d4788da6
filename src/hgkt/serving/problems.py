"""Errors as the service tells them: application/problem+json (RFC 9457), one sentence each."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from hgkt.exceptions import DataError, HGKTError
from hgkt.serving.registry import (
    ClassExistsError,
    ClassLearnedError,
    RegistryError,
    UnknownClassError,
)

MEDIA_TYPE = "application/problem+json"
_MAX_DETAIL = 600

logger = logging.getLogger(__name__)


class ProblemModel(BaseModel):
    """What an error looks like, for the API's description."""

    type: str = Field(default="about:blank", description="Kind of problem; none is named here.")
    title: str = Field(description="What the status means.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(description="One sentence: what was wrong and what is expected.")


class Problem(HTTPException):
    """An error to be told to the client.

    Parameters
    ----------
    status : int
        HTTP status.
    detail : str
        One sentence.
    title : str, optional
        By default what the status means.
    headers : mapping, optional
        Further response headers.

    Examples
    --------
    >>> Problem(413, "the body is too large").title
    'Request Entity Too Large'
    """

    def __init__(
        self,
        status: int,
        detail: str,
        title: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.title = title or _title(status)


def problem_response(
    status: int, detail: str, title: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem as a response.

    Parameters
    ----------
    status : int
        HTTP status.
    detail : str
        One sentence.
    title : str, optional
        By default what the status means.
    headers : mapping, optional
        Further response headers.
    """
    if len(detail) > _MAX_DETAIL:
        detail = detail[: _MAX_DETAIL - 1] + "…"
    document = {
        "type": "about:blank",
        "title": title or _title(status),
        "status": status,
        "detail": detail,
    }
    # ASCII with escapes: what a client sent, and is told again, need not be valid Unicode.
    content = json.dumps(document, ensure_ascii=True).encode("ascii")
    return Response(content, status, dict(headers or {}), MEDIA_TYPE)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that may answer with problems of these statuses.

    Parameters
    ----------
    *statuses : int
        HTTP statuses.

    Examples
    --------
    >>> sorted(documented(404, 409))
    [404, 409]
    """
    # Given whole, not by "model": with that FastAPI would promise application/json besides.
    schema = ProblemModel.model_json_schema()
    return {
        status: {"description": _title(status), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def install_problems(app: FastAPI) -> None:
    """Have every error of `app` answered as a problem.

    Parameters
    ----------
    app : FastAPI
        The application.
    """

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        detail = str(error.detail)
        if detail == _title(error.status_code):
            detail = _sentence(request, error.status_code)
        title = getattr(error, "title", None)
        return problem_response(error.status_code, detail, title, error.headers)

    @app.exception_handler(RequestValidationError)
    async def _validation(_request: Request, error: RequestValidationError) -> Response:
        return problem_response(422, _first_error(error))

    @app.exception_handler(HGKTError)
    async def _own(_request: Request, error: HGKTError) -> Response:
        status = status_of(error)
        if status >= 500:
            logger.warning("%s", error)
        headers = {"Retry-After": "1"} if status == 503 else None
        return problem_response(status, str(error), headers=headers)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> Response:
        logger.error("unexpected error at %s %s", request.method, request.url.path, exc_info=error)
        return problem_response(
            500, "something went wrong inside the service; its log says what and where"
        )


def status_of(error: HGKTError) -> int:
    """Return the HTTP status that an error of the library is answered with.

    Parameters
    ----------
    error : HGKTError
        The error.

    Examples
    --------
    >>> status_of(DataError("class 'zebra' has 3 attributes; 85 are expected"))
    422
    """
    if isinstance(error, RegistryError):
        return 507 if error.kind == "full" else 503
    if isinstance(error, ClassExistsError | ClassLearnedError):
        return 409
    if isinstance(error, UnknownClassError):
        return 404
    return 422 if isinstance(error, DataError) else 500


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _sentence(request: Request, status: int) -> str:
    """Say in a sentence what the framework says in two words."""
    path = request.url.path
    if status == 404:
        return f"there is nothing at {path}"
    if status == 405:
        return f"{path} does not answer to {request.method}"
    return f"{request.method} {path} was refused: {_title(status)}"


def _first_error(error: RequestValidationError) -> str:
    """Name the first thing that was wrong; values are not repeated, they may be anything."""
    found = error.errors()
    first: Mapping[str, Any] = found[0] if found else {}
    if first.get("type") == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", "it cannot be read"))
        return f"the body is not valid JSON: {reason}"
    place = ""
    for part in first.get("loc", ())[1:]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    source = str(first.get("loc", ("request",))[0])
    message = str(first.get("msg", "it cannot be read")).removeprefix("Value error, ")
    more = f" ({len(found) - 1} more like this)" if len(found) > 1 else ""
    where = f"{source} {place}" if place else source
    return f"{where}: {message}{more}"
