"""The page and the API's description."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment
from starlette.staticfiles import StaticFiles


class PageFiles(StaticFiles):
    """The files of the page and plotly's script; a browser asks whether it has the newest."""

    def __init__(self) -> None:
        super().__init__(packages=[("hgkt.serving", "page"), ("plotly", "package_data")])

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file, or that the browser has it."""
        found = super().file_response(*arguments, **options)
        found.headers["Cache-Control"] = "no-cache"
        return found


def build_router(app: FastAPI) -> APIRouter:
    """Return the routes of the page and of the description of `app`."""
    router = APIRouter(include_in_schema=False)
    pages = PageFiles()

    @router.get("/")
    async def page(request: Request) -> Response:
        return await pages.get_response("index.html", request.scope)

    @router.get("/page/{name}")
    async def page_file(name: str, request: Request) -> Response:
        return await pages.get_response(name, request.scope)

    @cache
    def docs_text() -> str:
        return docs_page(app.openapi())

    @router.get("/docs")
    def docs() -> Response:  # in a thread: writing the page takes a while
        return HTMLResponse(docs_text())

    return router


def docs_page(document: dict[str, Any]) -> str:
    """Write an OpenAPI document as a plain page that loads nothing."""
    template = files("hgkt.serving").joinpath("page/docs.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(document)
