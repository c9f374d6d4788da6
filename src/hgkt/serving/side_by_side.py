"""Several models in one service: every request finds its own, and an alias names the current one.

A request keeps the model that it began with, so that switching the alias loses none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fastapi import FastAPI
from prometheus_client import Counter, Gauge
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.aliases import AliasChange, AliasStore
from hgkt.serving.database import RegistryError
from hgkt.serving.metrics import Metrics
from hgkt.serving.polling import Polling
from hgkt.serving.problems import Problem
from hgkt.serving.request_log import MODEL
from hgkt.serving.served_model import ServedModel

MODEL_HEADER = "X-Model"
"""Says in every answer which of several models gave it."""

_PREFIXES = ("/models/", "/v2/models/")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """Where a request goes.

    Parameters
    ----------
    name : str
        The model.
    path : str
        The path as the model's own application knows it.
    root : str
        What was before it in the path that was asked for.
    stranger : str, optional
        A model that was asked for and is not there.
    """

    name: str
    path: str
    root: str = ""
    stranger: str | None = None


class ModelSwitch:
    """The models of a service, and the one that is current.

    A thread looks every `poll_seconds` for what other processes have made current.

    Parameters
    ----------
    apps : mapping of str to FastAPI
        The application of every model by name; the first is current until the alias says other.
    served : mapping of str to ServedModel
        The same models.
    store : AliasStore
        Where the alias is kept.
    metrics : Metrics
        Counts the requests of every model besides.
    poll_seconds : float
        How often to look.

    Attributes
    ----------
    current : str
        Name of the current model.
    trouble : str or None
        What was wrong at the last look, in a sentence.
    """

    def __init__(
        self,
        apps: Mapping[str, FastAPI],
        served: Mapping[str, ServedModel],
        store: AliasStore,
        metrics: Metrics,
        poll_seconds: float,
    ) -> None:
        self.apps, self.served, self.store = apps, served, store
        self.poll_seconds = poll_seconds
        self.trouble: str | None = None
        self.current = next(iter(apps))
        self._known = 0  # the change of the alias that was looked at last
        self._setting = threading.Lock()
        self._polling = Polling(
            lambda: self.refresh(), poll_seconds, "hgkt-alias", self._not_followed
        )
        registry = metrics.registry
        self.requests = Counter(
            "hgkt_model_requests", "Requests answered, per model.", ("model",), registry=registry
        )
        recent: Any = {"multiprocess_mode": "livemostrecent", "registry": registry}
        self._gauge = Gauge(
            "hgkt_model_current", "Whether the alias names the model.", ("model",), **recent
        )
        self.refresh()
        self._show()

    # ------------------------------------------------------------------ which model
    def target(self, path: str) -> Target:
        """Return where a request goes, by its path.

        ``/models/NAME/…`` and ``/v2/models/NAME…`` go to the model of that name, whatever else to
        the current one; the alias is a name too.
        """
        current = self.current
        for prefix in _PREFIXES:
            if path.startswith(prefix):
                asked, slash, rest = path[len(prefix) :].partition("/")
                name = current if asked == self.store.alias else asked
                if name not in self.apps:
                    return Target(current, path, stranger=asked)
                if prefix == "/models/":
                    return Target(name, slash + rest, prefix + asked)
                return Target(name, prefix + name + slash + rest)
        return Target(current, path)

    def identity(self, name: str) -> str:
        """Return the identity of a model."""
        return self.served[name].registry.model_id

    def switch(self, name: str, changed_by: str | None = None) -> AliasChange:
        """Make a model current, in this process at once and in others at their next look."""
        with self._setting:
            before = self.current
            change = self.store.point(self.identity(name), name, changed_by)
            self._set(change)
        if before != name:
            logger.warning(
                "the alias %s was switched from model %s to %s by key %s",
                self.store.alias, before, name, changed_by or "none",
            )  # fmt: skip
        return change

    def no_such(self, name: str) -> Problem:
        """Return the answer to a request for a model that is not there."""
        names = ", ".join(map(repr, self.apps))
        return Problem(404, f"there is no model {name[:80]!r}; this service has {names}")

    # ------------------------------------------------------------------ following the alias
    def refresh(self) -> None:
        """Look what is current."""
        try:
            with self._setting:
                change = self.store.read()
                if change is not None:
                    self._set(change)
        except RegistryError as error:
            self.trouble = str(error)
            raise
        self.trouble = None

    def _set(self, change: AliasChange) -> None:
        """Make current what the alias stands for; the lock is held."""
        if change.revision == self._known:
            return
        self._known = change.revision
        same = [name for name in self.apps if self.identity(name) == change.model_id]
        if not same:
            logger.warning(
                "the alias %s stands for the model %r, which is not served here; %s goes on "
                "answering", self.store.alias, change.model_name, self.current,
            )  # fmt: skip
            return
        # Two folders may hold one model, say with another calibration: then the name decides.
        self.current = change.model_name if change.model_name in same else same[0]
        self._show()

    def _show(self) -> None:
        for name in self.apps:
            self._gauge.labels(name).set(name == self.current)

    def find_trouble(self) -> str | None:
        """Return in a sentence why the alias is not being followed; None where it is."""
        if self._polling.died():
            return "the alias of the current model is not being followed"
        return self.trouble

    def __enter__(self) -> Self:
        self._polling.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._polling.stop()

    def _not_followed(self) -> None:
        self.trouble = "the alias could not be followed; the log says why"


class SelectModel:
    """ASGI middleware: decides which model answers, before anything else looks at the path.

    Parameters
    ----------
    app : ASGI application
        What comes behind; it sees paths as a service of one model has them.
    switch : ModelSwitch
        Knows the models.
    """

    def __init__(self, app: ASGIApp, switch: ModelSwitch) -> None:
        self.app, self.switch = app, switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        found = self.switch.target(scope["path"])
        scope[MODEL] = found.name  # for the log, which stands outside
        header = (MODEL_HEADER.lower().encode(), found.name.encode())

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        if found.root and not found.path:
            # The page's files lie beside it, so its address ends in a slash.
            redirect = RedirectResponse(scope["path"].rpartition("/")[2] + "/")
            await redirect(scope, receive, named)
            return
        inner = {**scope, "path": found.path, "hgkt_target": found}
        if found.root:  # of addresses in answers; routes see the path alone
            inner["app_root_path"] = scope.get("root_path", "") + found.root
        self.switch.requests.labels(found.name).inc()
        await self.app(inner, receive, named)


class ToModel:
    """ASGI middleware that hands a request to its model's application.

    Parameters
    ----------
    app : ASGI application
        What has no model.
    switch : ModelSwitch
        Knows the models.
    """

    def __init__(self, app: ASGIApp, switch: ModelSwitch) -> None:
        self.app, self.switch = app, switch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        found: Target = scope["hgkt_target"]
        if found.stranger is not None:
            await self.switch.no_such(found.stranger).response()(scope, receive, send)
            return
        await self.switch.apps[found.name](scope, receive, send)
