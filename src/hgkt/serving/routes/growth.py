"""Classes that grow: examples of a class, as feature rows, images or texts."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from fastapi import APIRouter, Request
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from hgkt.serving.events import Origin
from hgkt.serving.problems import Problem
from hgkt.serving.readers import Upload
from hgkt.serving.registry import Asked, KeyedRequest, Receipt
from hgkt.serving.routes import Service, bodies
from hgkt.serving.routes.bodies import FORM, JSON, OCTETS
from hgkt.serving.routes.classes import Change, ClassesChanged, Reason, ReasonQuery, change_of


class Examples(Struct, forbid_unknown_fields=True):
    """Feature vectors of one class, or texts, one of the two."""

    features: bodies.Rows | UnsetType = UNSET
    texts: bodies.Texts | UnsetType = UNSET
    reason: Reason | None = None


def build_router(service: Service) -> APIRouter:
    """Return the route ``POST /v1/classes/{name}/examples``."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    served, queues = service.served, service.queues
    n_features, max_rows = served.base.n_features_in_, service.settings.max_rows
    changing = change_of(service)

    def rows_of(kind: str, body: bytes, reason: str | None) -> tuple[NDArray[Any], str | None]:
        if kind == OCTETS:
            return bodies.octet_rows(body, n_features, max_rows), reason
        sent = bodies.decode_rows_body(body, Examples, n_features, max_rows)
        if isinstance(sent.features, list) and sent.texts is UNSET:
            return bodies.json_rows(sent.features, n_features, max_rows), sent.reason
        if isinstance(sent.texts, str | list) and sent.features is UNSET:
            return service.texts.features(bodies.check_texts(sent.texts)), sent.reason
        raise Problem(422, "examples come as features or as texts, one of the two")

    def grow(name: str, X: NDArray[Any], **asked: Unpack[Asked]) -> Receipt:
        receipt = served.grow(name, X, **asked)
        service.metrics.examples.inc(len(X))
        return receipt

    async def grow_by_rows(
        name: str, kind: str, body: bytes, change: Change, why: str | None
    ) -> Receipt:
        # On the event loop, but for a few milliseconds: the key of a request is known before.
        digest = hashlib.sha256(body).hexdigest()

        def work(request: KeyedRequest | None, origin: Origin) -> Receipt:
            served.refresh().find(name)  # a class that does not exist is told before rows are read
            with bodies.memory_returned([body]):
                X, reason = rows_of(kind, body, why)
                return grow(name, X, request=request, origin=replace(origin, reason=reason))

        return await change.make(change.request("grow", f"{name} {kind} {digest}"), why, work)

    async def grow_by_images(
        name: str, uploads: list[Upload], change: Change, why: str | None
    ) -> Receipt:
        def read() -> tuple[str, NDArray[Any]]:
            served.refresh().find(name)
            digests = [hashlib.sha256(upload.content()).hexdigest() for upload in uploads]
            with bodies.memory_returned():
                return f"{name} {FORM} {digests}", service.reader.features(uploads)

        content, X = await queues.images.run(read)
        return await change.make(change.request("grow", content), why, partial(grow, name, X))

    @router.post(
        "/{name:path}/examples",
        response_model=ClassesChanged,
        openapi_extra=bodies.body_of(
            bodies.json_content(Examples) | bodies.ROWS_CONTENT | bodies.IMAGES_CONTENT
        ),
    )
    async def grow_class(
        name: str, request: Request, change: Change = changing, why: ReasonQuery = None
    ) -> Receipt:
        """Let a class, added or learned, learn from examples: feature rows, images or texts.

        Their sums are kept, they themselves are not. An added class becomes a seen one. A JSON
        body says the reason itself; with octets and images the query does.
        """
        kind = bodies.media_type(request, JSON, OCTETS, FORM)
        queues.changes.check()
        if kind != FORM:
            body = b"".join(await bodies.read_parts(request))
            return await grow_by_rows(name, kind, body, change, why)
        async with bodies.read_uploads(request, service) as uploads:
            return await grow_by_images(name, uploads, change, why)

    return router
