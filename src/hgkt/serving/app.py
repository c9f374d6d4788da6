"""The application: a model, its class registry, the routes, and what stands around them."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from hgkt.estimators import load_model
from hgkt.serving.class_facts import ClassMap
from hgkt.serving.connections import STATE, ConnectionLimits
from hgkt.serving.editions import made_with
from hgkt.serving.images import ImageReader, PixelLimits
from hgkt.serving.intake import BodyIntake, lanes_of
from hgkt.serving.key_wall import KeyWall
from hgkt.serving.logs import mask_uvicorn_access
from hgkt.serving.metrics import Metrics, Observed
from hgkt.serving.pins import pinned_folder
from hgkt.serving.problems import Problem, documented, install_problems
from hgkt.serving.queues import Pace, Paced, WorkQueue
from hgkt.serving.request_log import RequestLog
from hgkt.serving.routes import (
    checks,
    classes,
    growth,
    history,
    inference,
    model,
    page,
    predict,
)
from hgkt.serving.samples import load_samples
from hgkt.serving.security import OwnHost, SafeHeaders
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings

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

    The model and its registry are opened here, so that a mistake shows before anything listens;
    following what other workers change begins with the application's lifespan.

    Parameters
    ----------
    settings : ServiceSettings
        What to serve, and how.

    Returns
    -------
    FastAPI
        ``app.state.served`` is the ServedModel.
    """
    settings.check()
    loaded = load_model(pinned_folder(settings), settings.verify_key)
    samples = []
    if settings.samples is not None:
        samples = load_samples(loaded, settings.samples, settings.root, settings.image_root)
    metrics = Metrics()
    reader = ImageReader(
        made_with(loaded).get("backbone"),
        loaded.n_features_in_,
        settings.device,
        PixelLimits(settings.max_image_pixels, settings.max_request_pixels),
    )
    served = ServedModel.open(loaded, settings)
    app = FastAPI(
        title="hgkt",
        version=version("hgkt"),
        description="Predict among the classes a model has, and add the classes you get.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(served, reader, ConnectionLimits.of(settings)),
    )
    app.state.served = served
    # More threads than processors would only take the model's arrays from each other's caches.
    queue = WorkQueue(n_processors(), settings.max_waiting, "predictions")
    # One image is large enough; and feature rows do not wait behind images.
    image_queue = WorkQueue(1, settings.max_waiting_images, "images")
    # What was learned before it was loaded never changes, so neither does the plane of the map.
    plane = cache(lambda: ClassMap.of(loaded))
    install_problems(app)
    app.include_router(_service_routes(served, metrics))
    app.include_router(checks.build_router(served, settings))
    app.include_router(growth.build_router(served, settings, reader, metrics, image_queue))
    app.include_router(classes.build_router(served, settings, metrics))
    app.include_router(history.build_router(served, settings, metrics))
    app.include_router(
        predict.build_router(served, settings, reader, metrics, queue, image_queue, plane)
    )
    ready = partial(_readiness, app, served)
    app.include_router(inference.build_router(served, settings, metrics, queue, ready))
    app.include_router(model.build_router(served, settings, reader, samples, plane))
    app.include_router(page.build_router(app, loaded, settings.name(), settings.key_guards()))
    pace = Pace()
    app.add_middleware(
        BodyIntake, lanes=lanes_of(settings), patience=settings.client_seconds, pace=pace
    )
    if settings.require_key == "all":
        app.add_middleware(KeyWall, keys=settings.api_keys)
    app.add_middleware(OwnHost, hosts=settings.answered_hosts())
    app.add_middleware(Paced, pace=pace)
    app.add_middleware(SafeHeaders)
    app.add_middleware(Observed, metrics=metrics)
    app.add_middleware(RequestLog, keys=settings.api_keys)
    mask_uvicorn_access(settings.api_keys)
    return app


def create_app_from_environment() -> FastAPI:
    """Make the service that ``ServiceSettings.to_environment`` describes; for server processes."""
    return create_app(ServiceSettings.from_environment())


def n_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _lifespan(served: ServedModel, reader: ImageReader, limits: ConnectionLimits) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        # The first image should not wait for the backbone.
        threading.Thread(target=_prepare, args=(reader,), name="hgkt-backbone", daemon=True).start()
        # The event loop asks for its turn again and again while predictions are computed.
        sys.setswitchinterval(_TURN_SECONDS)
        with served:
            app.state.running = True
            try:
                yield {STATE: limits}  # uvicorn hands it to its connections
            finally:
                app.state.running = False
                gc.unfreeze()

    return lifespan


def _readiness(app: FastAPI, served: ServedModel) -> Readiness:
    if not getattr(app.state, "running", False):
        raise Problem(503, "the service is starting or stopping")
    if not served.healthy():
        raise Problem(503, served.trouble or "the class registry is not being followed")
    return Readiness(status="ready", revision=served.current().revision)


def _prepare(reader: ImageReader) -> None:
    """Load the backbone; then have the garbage collector forget what stays to the end.

    To look through all that libraries make when they are imported takes it a fifth of a second,
    again and again, in which nobody is answered.
    """
    reader.obstacle()
    gc.freeze()


def _service_routes(served: ServedModel, metrics: Metrics) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/health")
    async def health() -> Health:
        """Say that the process answers."""
        return Health(status="ok")

    @router.get("/ready", responses=documented(503))
    async def ready(request: Request) -> Readiness:
        """Say whether the service can predict and its registry answers."""
        return _readiness(request.app, served)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def read_metrics() -> Response:
        """Counts and times, as Prometheus reads them."""
        edition = served.current()
        text = metrics.exposition(len(edition.names), edition.revision)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
