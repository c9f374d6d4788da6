"""The page and the API's description; no file is opened that a request names."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from hgkt.serving.problems import Problem

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1a1a1a;background:#fff}h2{margin:2rem 0 .25rem;font-size:1.1rem}code,pre{font:14px/1.45
ui-monospace,monospace}pre{background:#f4f4f4;padding:.75rem;overflow:auto}table{border-collapse:
collapse}td,th{text-align:left;padding:.15rem 1rem .15rem 0;vertical-align:top}.verb{font-weight:
700}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}
a{color:#8ab4f8}}"""


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
        return f'"{hashlib.sha256(self.content).hexdigest()[:20]}"'

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
    folder = Path(str(files("hgkt.serving") / "page"))
    found = {
        path.name: StaticFile(path) for path in sorted(folder.glob("*")) if path.suffix in _KINDS
    }
    plotly = Path(str(files("plotly") / "package_data" / "plotly.min.js"))
    if plotly.is_file():
        found[plotly.name] = StaticFile(plotly)
    return found


def build_router(app: FastAPI) -> APIRouter:
    """Return the routes of the page and of the API's description.

    Parameters
    ----------
    app : FastAPI
        Whose API to describe.
    """
    router = APIRouter(include_in_schema=False)
    known = page_files()

    @router.get("/")
    async def page(request: Request) -> Response:
        if "index.html" not in known:
            return HTMLResponse('<!doctype html><title>hgkt</title><a href="docs">API</a>')
        return known["index.html"].response(request)

    @router.get("/page/{name}")
    async def page_file(name: str, request: Request) -> Response:
        if name not in known:
            raise Problem(404, f"the page has no file {name[:80]!r}")
        return await anyio.to_thread.run_sync(known[name].response, request)

    @router.get("/docs")
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))

    return router


def docs_page(document: dict[str, Any]) -> str:
    """Write an OpenAPI document as a plain page that loads nothing.

    Parameters
    ----------
    document : dict
        The OpenAPI document.
    """
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width">',
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info.get('description', ''))}</p>",
        '<p>For tools: <a href="openapi.json">openapi.json</a></p>',
    ]
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            parts += _operation(path, verb, operation)
    parts.append("<h1>Schemas</h1>")
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        parts.append(f'<h2 id="{escape(name)}">{escape(name)}</h2>')
        if schema.get("description"):
            parts.append(f"<p>{escape(schema['description'])}</p>")
        parts.append(_fields(schema))
    return "\n".join(parts)


def _operation(path: str, verb: str, operation: dict[str, Any]) -> list[str]:
    parts = [f"<h2><span class=verb>{verb.upper()}</span> <code>{escape(path)}</code></h2>"]
    for paragraph in operation.get("description", "").split("\n\n"):
        parts.append(f"<p>{escape(paragraph)}</p>")
    rows = [
        (p["name"], p["in"], _type(p.get("schema", {})), p.get("description", ""))
        for p in operation.get("parameters", [])
    ]
    if rows:
        cells = "".join(
            f"<tr><td><code>{escape(name)}</code><td>{escape(place)}<td>{kind}<td>{escape(text)}"
            for name, place, kind, text in rows
        )
        parts.append(f"<table>{cells}</table>")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body: <code>{escape(kind)}</code> {_type(content.get('schema', {}))}</p>")
        if "properties" in content.get("schema", {}):
            parts.append(_fields(content["schema"]))
    answers = []
    for status, answer in operation.get("responses", {}).items():
        kinds = ", ".join(
            f"<code>{escape(kind)}</code> {_type(content.get('schema', {}))}"
            for kind, content in answer.get("content", {}).items()
        )
        answers.append(f"<tr><td>{status}<td>{escape(answer.get('description', ''))}<td>{kinds}")
    return [*parts, f"<table>{''.join(answers)}</table>"]


def _fields(schema: dict[str, Any]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{_type(item)}"
        f"<td>{escape(item.get('description', ''))}"
        for name, item in schema.get("properties", {}).items()
    )
    return f"<table>{cells}</table>"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_type(item) for item in schema[word])
    if "enum" in schema:
        return " | ".join(escape(repr(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        inside = schema.get("items", {})
        return f"list of {_type(inside)}" if inside else "list"
    if "const" in schema:
        return escape(repr(schema["const"]))
    return escape(str(schema.get("type", "anything")))
