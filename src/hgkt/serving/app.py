"""The application: a model, its registry, the routes, the page, and what stands around them."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from jinja2 import Environment
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.staticfiles import StaticFiles

from hgkt._files import file_sha256
from hgkt.estimators import load_model
from hgkt.exceptions import ModelFolderError
from hgkt.serving.live_model import ServedModel
from hgkt.serving.middleware import BodyLimits, Door, RequestEnvelope
from hgkt.serving.problems import DOCUMENTED, Problem, install_problems
from hgkt.serving.routes import (
    Service,
    classes,
    growth,
    history,
    inference,
    model,
    predict,
    unknown,
)
from hgkt.serving.samples import load_samples
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.transfer import ModelFacts

_TURN_SECONDS = 0.0005


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """The service can predict, and its registry answers."""

    status: Literal["ready"]
    revision: int


def create_app(settings: ServiceSettings) -> FastAPI:
    """Make the service of one model.

    Model and registry are opened here, so that a mistake shows before anything listens; following
    what other workers change begins with the application's lifespan.

    Parameters
    ----------
    settings : ServiceSettings
        What to serve, and how.

    Returns
    -------
    FastAPI
        ``app.state.served`` is the `ServedModel`.
    """
    check_folder(settings)
    loaded = load_model(settings.model)
    data = settings.samples
    samples = [] if data is None else load_samples(loaded, data, settings.root)
    served = ServedModel.open(loaded, settings)
    try:
        served.registry.remember(ModelFacts.of(loaded, settings.name()).to_json())
        service = Service.of(served, settings)
        app = FastAPI(
            title="hgkt",
            version=version("hgkt"),
            description="Predict among the classes a model has, and add the classes you get.",
            docs_url=None,
            redoc_url=None,
            responses=DOCUMENTED,
            lifespan=_lifespan(service),
        )
        app.state.served = served
        app.state.unknown = service.unknown
        install_problems(app)
        # Routes are tried in order, which predictions shall not wait for.
        app.include_router(predict.build_router(service))
        _add_service_routes(app, service)
        for room in (growth, classes, history):
            app.include_router(room.build_router(service))
        if service.unknown is not None:
            app.include_router(unknown.build_router(service, service.unknown))
        app.include_router(inference.build_router(service, lambda: _ready(app, served)))
        app.include_router(model.build_router(service, samples))
        _add_page_routes(app)
        keys = settings.api_keys if settings.require_key == "all" else ()
        app.add_middleware(BodyLimits, settings=settings)
        app.add_middleware(Door, hosts=settings.answered_hosts(), keys=keys)
        app.add_middleware(RequestEnvelope, keys=settings.api_keys, metrics=service.metrics)
    except BaseException:
        served.close()
        raise
    return app


def check_folder(settings: ServiceSettings) -> str:
    """Return the digest of a model folder's record, which holds those of all its files.

    Refuse one that is not the folder that the service was started with.
    """
    config = settings.model / "config.json"
    found = file_sha256(config) if config.is_file() else ""
    if settings.model_digest not in (None, found):
        raise ModelFolderError(
            f"the model folder {settings.model} is not the one that the service was started with; "
            "start the service again to serve it"
        )
    return found


def _lifespan(service: Service):  # type: ignore[no-untyped-def]
    """Return what happens while the application runs: the registry is followed."""

    def prepare() -> None:
        # The first image or text should not wait for what reads it. What stays to the end is then
        # taken from the garbage collector: to look through it takes a fifth of a second each time.
        service.reader.obstacle()
        service.texts.obstacle()
        gc.freeze()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=prepare, name="hgkt-backbone", daemon=True).start()
        # The event loop asks for its turn again and again while predictions are computed.
        sys.setswitchinterval(_TURN_SECONDS)
        with service.served:
            app.state.running = True
            try:
                yield
            finally:
                app.state.running = False
                gc.unfreeze()
                if app.state.unknown is not None:
                    app.state.unknown.close()

    return lifespan


def _ready(app: FastAPI, served: ServedModel) -> Readiness:
    if not getattr(app.state, "running", False):
        raise Problem(503, "the service is starting or stopping")
    if not served.healthy():
        raise Problem(503, served.trouble or "the class registry is not being followed")
    return Readiness(status="ready", revision=served.current().revision)


def _add_service_routes(app: FastAPI, service: Service) -> None:
    get = partial(app.get, tags=["service"])

    @get("/health")
    async def health() -> Health:
        """Say that the process answers."""
        return Health(status="ok")

    @get("/ready")
    async def ready() -> Readiness:
        """Say whether the service can predict and its registry answers."""
        return _ready(app, service.served)

    @get("/metrics", response_class=PlainTextResponse)
    async def read_metrics() -> Response:
        """Counts and times, as Prometheus reads them."""
        edition = service.served.current()
        text = service.metrics.exposition(len(edition.names), edition.revision)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


# ---------------------------------------------------------------------- the page
class PageFiles(StaticFiles):
    """Files of the page; a browser asks whether it has the newest."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file, or that the browser has it."""
        found = super().file_response(*arguments, **options)
        found.headers["Cache-Control"] = "no-cache"
        return found


def _add_page_routes(app: FastAPI) -> None:
    get = partial(app.get, include_in_schema=False)
    pages = PageFiles(packages=[("hgkt.serving", "page"), ("plotly", "package_data")])

    @get("/")
    async def page(request: Request) -> Response:
        return await pages.get_response("index.html", request.scope)

    @get("/page/{name}")
    async def page_file(name: str, request: Request) -> Response:
        return await pages.get_response(name, request.scope)

    @get("/docs", response_class=HTMLResponse)
    @cache
    def docs() -> str:  # in a thread: writing the page takes a while
        return docs_page(app.openapi())


def docs_page(document: dict[str, Any]) -> str:
    """Write an OpenAPI document as a plain page that loads nothing."""
    template = files("hgkt.serving").joinpath("page/docs.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(document)
