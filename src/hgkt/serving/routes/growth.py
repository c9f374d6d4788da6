"""Classes that grow: examples of a class, as feature rows, images or texts."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import APIRouter, Depends, Request
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from hgkt.serving.auth import require_key
from hgkt.serving.events import Origin
from hgkt.serving.images import ImageReader, Upload
from hgkt.serving.live_model import ServedModel
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.registry import KeyedRequest, Receipt
from hgkt.serving.routes import bodies
from hgkt.serving.routes.bodies import FORM, JSON, OCTETS
from hgkt.serving.routes.classes import (
    STORAGE,
    ClassGrown,
    IdempotencyKey,
    Reason,
    ReasonQuery,
    changer,
    counted,
    receipt_of,
)
from hgkt.serving.routes.predict import MAX_IMAGES
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.texts import TextReader, check_texts
from hgkt.serving.work_queue import Queues


class Examples(Struct, forbid_unknown_fields=True):
    """Feature vectors of one class, or texts, one of the two."""

    features: bodies.Rows | UnsetType = UNSET
    texts: bodies.Texts | UnsetType = UNSET
    reason: Reason | None = None


def build_router(
    served: ServedModel,
    settings: ServiceSettings,
    reader: ImageReader,
    texts: TextReader,
    metrics: Metrics,
    queues: Queues,
) -> APIRouter:
    """Return the route ``POST /v1/classes/{name}/examples``."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    by, key = Depends(require_key(settings)), (401,) if settings.api_keys else ()
    change = changer(served, queues)
    n_features, max_rows = served.base.n_features_in_, settings.max_rows

    def rows_of(kind: str, body: bytes, reason: str | None) -> tuple[NDArray[Any], str | None]:
        if kind == OCTETS:
            return bodies.octet_rows(body, n_features, max_rows), reason
        sent = bodies.decode_rows_body(body, Examples, n_features, max_rows)
        if (sent.features is UNSET) == (sent.texts is UNSET):
            raise Problem(422, "examples come as features or as texts, one of the two")
        if not isinstance(sent.texts, UnsetType):
            texts.check()
            return texts.features(check_texts(sent.texts)), sent.reason
        assert not isinstance(sent.features, UnsetType)
        return bodies.json_rows(sent.features, n_features, max_rows), sent.reason

    def grow(name: str, X: NDArray[Any], request: KeyedRequest | None, origin: Origin) -> Receipt:
        edition = served.grow(name, X, request, origin)
        metrics.examples.inc(len(X))
        n_examples = edition.n_examples.get(edition.canonical(name), 0)
        return receipt_of(edition, [name], n_examples=n_examples)

    async def grow_by_rows(
        name: str, kind: str, request: Request, idempotency_key: str | None, origin: Origin
    ) -> Receipt:
        parts = await bodies.read_parts(request)
        # On the event loop, but for a few milliseconds: the key of a request is known before.
        digest = hashlib.sha256(b"".join(parts)).hexdigest()

        def work(keyed: KeyedRequest | None) -> Receipt:
            served.refresh().find(name)  # a class that does not exist is told before rows are read
            with bodies.memory_returned(parts):
                X, reason = rows_of(kind, b"".join(parts), origin.reason)
                return grow(name, X, keyed, Origin(origin.who, reason))

        return await change(idempotency_key, "grow", f"{name} {kind} {digest}", work)

    async def grow_by_images(
        name: str, uploads: list[Upload], idempotency_key: str | None, origin: Origin
    ) -> Receipt:
        def look() -> tuple[str, Receipt | None]:
            served.refresh().find(name)
            digest = hashlib.sha256()
            for upload in uploads:
                digest.update(hashlib.sha256(upload.content()).digest())
            content = f"{name} {FORM} {digest.hexdigest()}"
            if idempotency_key is None:
                return content, None
            keyed = KeyedRequest.of(idempotency_key, "grow", content)
            return content, served.registry.receipt(keyed)

        def features() -> NDArray[Any]:
            with bodies.memory_returned():
                return reader.features(uploads)

        content, receipt = await queues.changes.run(look)
        if receipt is not None:
            return receipt
        X = await queues.images.run(features)
        return await change(
            idempotency_key, "grow", content, lambda keyed: grow(name, X, keyed, origin)
        )

    @router.post(
        "/{name:path}/examples",
        summary="Let a class learn from examples",
        dependencies=[by],
        responses=documented(400, *key, 404, 409, 413, 415, 422, *STORAGE),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": bodies.rows_content(Examples) | bodies.IMAGES_CONTENT,
            }
        },
    )
    async def grow_class(
        name: str,
        request: Request,
        idempotency_key: IdempotencyKey = None,
        why: ReasonQuery = None,
        who: str | None = by,
    ) -> ClassGrown:
        """Take in feature rows, images or texts of a class, added or learned.

        Their sums are kept, they themselves are not. An added class becomes a seen one. A JSON
        body says the reason itself; with octets and images the query does.
        """
        kind, origin = bodies.media_type(request, JSON, OCTETS, FORM), Origin(who, why)
        queues.changes.check()
        if kind == FORM:
            reader.check()
            queues.images.check()
            n_most = min(MAX_IMAGES, max_rows)
            async with bodies.read_uploads(request, n_most, settings.max_image_bytes) as uploads:
                receipt = await grow_by_images(name, uploads, idempotency_key, origin)
        else:
            receipt = await grow_by_rows(name, kind, request, idempotency_key, origin)
        return ClassGrown(
            name=receipt.names[0], n_examples=receipt.n_examples, **counted(served, receipt)
        )

    return router
