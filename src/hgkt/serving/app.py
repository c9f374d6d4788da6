"""The application: a model, its class registry, the routes, and what stands around them."""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import Any, Literal

from fastapi import APIRouter, FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from hgkt.estimators import GZSLClassifier, load_model
from hgkt.exceptions import DataError
from hgkt.serving.aliases import AliasStore
from hgkt.serving.catalog import remember
from hgkt.serving.class_facts import ClassMap
from hgkt.serving.metrics import Metrics
from hgkt.serving.model_facts import ModelFacts
from hgkt.serving.pins import pinned_folder
from hgkt.serving.problems import Problem, documented, install_problems
from hgkt.serving.routes import (
    checks,
    classes,
    growth,
    history,
    inference,
    model,
    models,
    page,
    predict,
)
from hgkt.serving.samples import SampleInstance, load_samples
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.shared import Shared, bare_app
from hgkt.serving.side_by_side import ModelSwitch, SelectModel, ToModel

logger = logging.getLogger(__name__)


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """The service can predict, and its registry answers."""

    status: Literal["ready"]
    revision: int


def create_app(settings: ServiceSettings) -> FastAPI:
    """Make the service of one model, or of several side by side.

    Models and registry are opened here, so that a mistake shows before anything listens;
    following what other workers change begins with the application's lifespan.

    Parameters
    ----------
    settings : ServiceSettings
        What to serve, and how.

    Returns
    -------
    FastAPI
        ``app.state.served`` is the ServedModel, that of the first of several models;
        ``app.state.models`` has all of them by name, ``app.state.switch`` the ModelSwitch.
    """
    settings.check()
    shared = Shared(settings)
    try:
        if settings.beside:
            _add_models(shared)
        else:
            served = _add_routes(shared.app, settings, shared)
            shared.app.state.served, shared.app.state.models = served, {settings.name(): served}
            shared.surround()
    except BaseException:
        shared.close()
        raise
    shared.log_requests()
    return shared.app


def create_app_from_environment() -> FastAPI:
    """Make the service that ``ServiceSettings.to_environment`` describes; for server processes."""
    return create_app(ServiceSettings.from_environment())


def _add_models(shared: Shared) -> None:
    """Make an application for each model, and have every request find its own."""
    each = {own.name(): (bare_app(), own) for own in shared.settings.each()}
    apps = {name: app for name, (app, _) in each.items()}
    served = {name: _add_routes(app, own, shared) for name, (app, own) in each.items()}
    first = next(iter(served.values()))
    store = AliasStore(first.registry, shared.settings.alias)
    switch = ModelSwitch(apps, served, store, shared.metrics, shared.settings.poll_seconds)
    shared.parts.append(switch)
    shared.find_trouble = switch.find_trouble
    for app in apps.values():
        app.include_router(models.build_router(switch, shared.settings))
    shared.app.add_middleware(ToModel, switch=switch)
    shared.surround()
    shared.app.add_middleware(SelectModel, switch=switch)
    shared.app.state.served, shared.app.state.models = first, served
    shared.app.state.switch = switch


def _add_routes(app: FastAPI, settings: ServiceSettings, shared: Shared) -> ServedModel:
    """Open a model with its registry, and give an application its routes."""
    loaded = load_model(pinned_folder(settings), settings.verify_key)
    samples = _samples(loaded, settings, first=not shared.parts)
    reader, metrics = shared.reader(loaded), shared.metrics
    queue, image_queue = shared.queue, shared.image_queue
    served = ServedModel.open(loaded, settings)
    shared.parts.append(served)
    remember(served.registry, ModelFacts.of(loaded, settings.name()))
    # What was learned before it was loaded never changes, so neither does the plane of the map.
    plane = cache(lambda: ClassMap.of(loaded))
    ready = partial(_readiness, shared, served)
    install_problems(app)
    app.include_router(_service_routes(served, metrics, ready))
    app.include_router(checks.build_router(served, settings))
    app.include_router(growth.build_router(served, settings, reader, metrics, image_queue))
    app.include_router(classes.build_router(served, settings, metrics))
    app.include_router(history.build_router(served, settings, metrics))
    app.include_router(
        predict.build_router(served, settings, reader, metrics, queue, image_queue, plane)
    )
    app.include_router(inference.build_router(served, settings, metrics, queue, ready))
    app.include_router(model.build_router(served, settings, reader, samples, plane))
    app.include_router(page.build_router(app, loaded, settings.name(), settings.key_guards()))
    return served


def _samples(
    loaded: GZSLClassifier, settings: ServiceSettings, first: bool
) -> list[SampleInstance]:
    """Return instances to try; a model beside the first may read other features."""
    if settings.samples is None:
        return []
    try:
        return load_samples(loaded, settings.samples, settings.root, settings.image_root)
    except DataError as error:
        if first:
            raise
        logger.warning("the page of model %s offers no instances: %s", settings.name(), error)
        return []


def _readiness(shared: Shared, served: ServedModel) -> Readiness:
    shared.check_running()
    if not served.healthy():
        raise Problem(503, served.trouble or "the class registry is not being followed")
    return Readiness(status="ready", revision=served.current().revision)


def _service_routes(served: ServedModel, metrics: Metrics, check_ready: Any) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/health")
    async def health() -> Health:
        """Say that the process answers."""
        return Health(status="ok")

    @router.get("/ready", responses=documented(503))
    async def ready() -> Readiness:
        """Say whether the service can predict and its registry answers."""
        found: Readiness = check_ready()
        return found

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
