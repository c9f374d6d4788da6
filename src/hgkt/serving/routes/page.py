"""The page and the API's description; no file is opened that a request names."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from hgkt._files import sha256
from hgkt.serving.problems import Problem

_FOLDER = Path(str(files("hgkt.serving") / "page"))
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class StaticFile:
    """A file of the page, read once and kept.

    Parameters
    ----------
    path : Path
        Where it is.
    """

    path: Path

    @cached_property
    def content(self) -> bytes:
        """The bytes."""
        return self.path.read_bytes()

    @cached_property
    def tag(self) -> str:
        """What changes when the content does."""
        return f'"{sha256(self.content)[:20]}"'

    @cached_property
    def packed(self) -> bytes | None:
        """The bytes compressed; None where that saves little."""
        packed = gzip.compress(self.content, compresslevel=6, mtime=0)
        return packed if len(packed) < 0.9 * len(self.content) else None

    def response(self, request: Request) -> Response:
        """Answer with the file, or with 304 where the browser has it."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        content = self.content
        if "gzip" in request.headers.get("accept-encoding", "") and self.packed is not None:
            content = self.packed
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers, media_type=_KINDS[self.path.suffix])


def page_files() -> dict[str, StaticFile]:
    """Return the files of the page by name: those of the package, and plotly's script."""
    plotly = Path(str(files("plotly") / "package_data" / "plotly.min.js"))
    paths = [path for path in (*sorted(_FOLDER.iterdir()), plotly) if path.suffix in _KINDS]
    return {path.name: StaticFile(path) for path in paths if path.is_file()}


def build_router(app: FastAPI) -> APIRouter:
    """Return the routes of the page and of the description of `app`."""
    router = APIRouter(include_in_schema=False)
    known = page_files()

    @router.get("/")
    async def page(request: Request) -> Response:
        return known["index.html"].response(request)

    @router.get("/page/{name}")
    async def page_file(name: str, request: Request) -> Response:
        if name not in known:
            raise Problem(404, f"the page has no file {name[:80]!r}")
        return await anyio.to_thread.run_sync(known[name].response, request)

    @cache
    def docs_text() -> str:
        return docs_page(app.openapi())

    @router.get("/docs")
    def docs() -> Response:  # in a thread: writing the page takes a while
        return HTMLResponse(docs_text())

    return router


def docs_page(document: dict[str, Any]) -> str:
    """Write an OpenAPI document as a plain page that loads nothing."""
    template = (_FOLDER / "docs.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(document)
