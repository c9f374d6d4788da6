"""The application: a model, its class registry, the routes, and what stands around them."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.estimators import load_model
from hgkt.serving import routes_classes, routes_model, routes_page, routes_predict
from hgkt.serving.images import ImageReader
from hgkt.serving.metrics import CONTENT_TYPE, Metrics, Observed
from hgkt.serving.problems import MEDIA_TYPE, Problem, documented, install_problems
from hgkt.serving.ranking import about_model
from hgkt.serving.samples import load_samples
from hgkt.serving.schemas import Health, Readiness
from hgkt.serving.security import BodyLimit
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.snapshots import Snapshot, SnapshotStore, open_store

WORKER_HEADER = "X-Worker"

# Plotly writes style rules into the page; its scatter plots need neither eval nor workers.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_DOCS_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"


def create_app(settings: ServiceSettings) -> FastAPI:
    """Make the service of one model.

    The model and its registry are opened here, so that a mistake shows before anything listens;
    following what other workers change begins with the application's lifespan.

    Parameters
    ----------
    settings : ServiceSettings
        What to serve, and how.

    Returns
    -------
    FastAPI
        ``app.state.store`` is the SnapshotStore.
    """
    settings.check()
    model = load_model(settings.model)
    samples = []
    if settings.samples is not None:
        samples = load_samples(model, settings.samples, settings.root, settings.image_root)
    metrics = Metrics()
    reader = ImageReader(
        about_model(model).get("backbone"),
        int(model.n_features_in_),
        settings.device,
        settings.max_image_pixels,
    )
    store = open_store(settings, model)
    counted: Any = CountingStore(store, metrics)
    app = FastAPI(
        title="hgkt",
        version=version("hgkt"),
        description="Predict among the classes a model has, and add the classes you get.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(store, reader),
    )
    app.state.store = store
    # More threads than processors would only take the model's arrays from each other's caches.
    limiter = CapacityLimiter(n_processors())
    install_problems(app)
    app.include_router(_service_routes(store, metrics))
    app.include_router(routes_classes.build_router(counted, settings))
    app.include_router(routes_predict.build_router(store, settings, reader, metrics, limiter))
    app.include_router(routes_model.build_router(store, settings, reader, samples))
    app.include_router(routes_page.build_router(app))
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(SafeHeaders)
    app.add_middleware(Observed, metrics=metrics)
    return app


def _describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, in which every error is a problem and nothing else."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        problem = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemModel"}}}
        for operations in document["paths"].values():
            for operation in operations.values():
                for status, answer in operation["responses"].items():
                    if int(status) >= 400:
                        answer["content"] = problem
                        answer["description"] = HTTPStatus(int(status)).phrase
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema


def create_app_from_environment() -> FastAPI:
    """Make the service that ``ServiceSettings.to_environment`` describes; for server processes."""
    return create_app(ServiceSettings.from_environment())


def n_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CountingStore:
    """A store whose additions and removals are counted.

    Parameters
    ----------
    store : SnapshotStore
        The store.
    metrics : Metrics
        Where to count.
    """

    def __init__(self, store: SnapshotStore, metrics: Metrics) -> None:
        self._store, self._metrics = store, metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add(self, descriptions: Any) -> Snapshot:
        """Add classes and count them."""
        snapshot = self._store.add(descriptions)
        self._metrics.added.inc(len(descriptions))
        return snapshot

    def remove(self, names: Any) -> Snapshot:
        """Remove classes and count them."""
        snapshot = self._store.remove(names)
        self._metrics.removed.inc(len(names))
        return snapshot


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


def _lifespan(store: SnapshotStore, reader: ImageReader) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store.start()
        # The first image should not wait for the backbone.
        threading.Thread(target=reader.obstacle, name="hgkt-backbone", daemon=True).start()
        app.state.running = True
        try:
            yield
        finally:
            app.state.running = False
            store.close()

    return lifespan


def _service_routes(store: SnapshotStore, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/health")
    async def health() -> Health:
        """Say that the process answers."""
        return Health(status="ok")

    @router.get("/ready", responses=documented(503))
    async def ready(request: Request) -> Readiness:
        """Say whether the service can predict and its registry answers."""
        if not getattr(request.app.state, "running", False):
            raise Problem(503, "the service is starting or stopping")
        if not store.healthy():
            raise Problem(503, store.trouble or "the class registry is not being followed")
        return Readiness(status="ready", revision=store.current().revision)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def read_metrics() -> Response:
        """Counts and times, as Prometheus reads them."""
        snapshot = store.current()
        text = metrics.exposition(len(snapshot.model.classes_), snapshot.revision)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    return router
