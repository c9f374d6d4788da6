"""What the models of one process share: counters, threads, backbones, and when they all run."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from hgkt.estimators import GZSLClassifier
from hgkt.serving.connections import STATE, ConnectionLimits
from hgkt.serving.editions import made_with
from hgkt.serving.images import ImageReader, PixelLimits
from hgkt.serving.intake import BodyIntake, lanes_of
from hgkt.serving.key_wall import KeyWall
from hgkt.serving.logs import mask_uvicorn_access
from hgkt.serving.metrics import Metrics, Observed
from hgkt.serving.problems import Problem
from hgkt.serving.queues import Pace, Paced, WorkQueue
from hgkt.serving.request_log import RequestLog
from hgkt.serving.security import OwnHost, SafeHeaders
from hgkt.serving.settings import ServiceSettings

_TURN_SECONDS = 0.0005


class Shared:
    """One process's application and what belongs to no single model.

    Parameters
    ----------
    settings : ServiceSettings
        The service's settings.

    Attributes
    ----------
    app : FastAPI
        What the server runs; `surround` puts the limits and the log around it.
    metrics : Metrics
        Counts of all models together.
    queue, image_queue : WorkQueue
        Bound how many predictions, and how many images, are computed and wait.
    parts : list of context managers
        Entered when the application starts, and left in the opposite order when it ends.
    find_trouble : callable
        Returns what is wrong with the service as a whole, in a sentence, or None.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.app = bare_app(self._lifespan)
        self.metrics = Metrics()
        # More threads than processors would only take the models' arrays from each other's caches.
        self.queue = WorkQueue(n_processors(), settings.max_waiting, "predictions")
        # One image is large enough; and feature rows do not wait behind images.
        self.image_queue = WorkQueue(1, settings.max_waiting_images, "images")
        self.parts: list[AbstractContextManager[Any]] = []
        self.find_trouble: Callable[[], str | None] = lambda: None
        self._readers: dict[str, ImageReader] = {}

    def reader(self, model: GZSLClassifier) -> ImageReader:
        """Return what reads images for a model; those of one backbone share it."""
        record, n_features = made_with(model).get("backbone"), model.n_features_in_
        settings = self.settings
        key = json.dumps([record, n_features], sort_keys=True, default=str)
        if key not in self._readers:
            limits = PixelLimits(settings.max_image_pixels, settings.max_request_pixels)
            self._readers[key] = ImageReader(record, n_features, settings.device, limits)
        return self._readers[key]

    def check_running(self) -> None:
        """Refuse while the service starts or stops, or something is wrong with all of it."""
        if not getattr(self.app.state, "running", False):
            raise Problem(503, "the service is starting or stopping")
        trouble = self.find_trouble()
        if trouble is not None:
            raise Problem(503, trouble)

    def surround(self) -> None:
        """Put around the application what every request goes through, the innermost first."""
        app, settings, pace = self.app, self.settings, Pace()
        app.add_middleware(
            BodyIntake, lanes=lanes_of(settings), patience=settings.client_seconds, pace=pace
        )
        if settings.require_key == "all":
            app.add_middleware(KeyWall, keys=settings.api_keys)
        app.add_middleware(OwnHost, hosts=settings.answered_hosts())
        app.add_middleware(Paced, pace=pace)
        app.add_middleware(SafeHeaders)
        app.add_middleware(Observed, metrics=self.metrics)

    def log_requests(self) -> None:
        """Put the log around all that is around the application so far."""
        self.app.add_middleware(RequestLog, keys=self.settings.api_keys)
        mask_uvicorn_access(self.settings.api_keys)

    def close(self) -> None:
        """Leave what was never entered: for an application that could not be made."""
        for part in reversed(self.parts):
            part.__exit__(None, None, None)

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        # The first image should not wait for the backbone.
        threading.Thread(target=self._prepare, name="hgkt-backbone", daemon=True).start()
        # The event loop asks for its turn again and again while predictions are computed.
        sys.setswitchinterval(_TURN_SECONDS)
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part)
            app.state.running = True
            try:
                # uvicorn hands it to its connections.
                yield {STATE: ConnectionLimits.of(self.settings)}
            finally:
                app.state.running = False
                gc.unfreeze()

    def _prepare(self) -> None:
        """Load the backbones; then have the garbage collector forget what stays to the end.

        To look through all that libraries make when they are imported takes it a fifth of a
        second, again and again, in which nobody is answered.
        """
        for reader in self._readers.values():
            reader.obstacle()
        gc.freeze()


def bare_app(lifespan: Any = None) -> FastAPI:
    """Return an application without routes."""
    return FastAPI(
        title="hgkt",
        version=version("hgkt"),
        description="Predict among the classes a model has, and add the classes you get.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )


def n_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
