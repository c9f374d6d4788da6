"""Classes that grow: examples of a class, as feature rows or as images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Request
from numpy.typing import NDArray

from hgkt.serving.events import Origin
from hgkt.serving.idempotency import KeyedRequest, Receipt
from hgkt.serving.images import ImageReader, Upload
from hgkt.serving.json_bodies import JSON, read_parts
from hgkt.serving.memory import LARGE_BYTES, returned
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.queues import WorkQueue
from hgkt.serving.routes import bodies
from hgkt.serving.routes.class_models import ClassGrown, IdempotencyKey, Reason, ReasonQuery
from hgkt.serving.routes.classes import STORAGE, keyed, receipt_of
from hgkt.serving.routes.predict import MAX_IMAGES
from hgkt.serving.routes.uploads import FORM, IMAGES_CONTENT, read_uploads
from hgkt.serving.security import require_key
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings


class Examples(bodies.FeatureRows):
    """Feature vectors of one class."""

    reason: Reason | None = None


_CONTENT = bodies.rows_content(Examples) | IMAGES_CONTENT


def build_router(
    served: ServedModel,
    settings: ServiceSettings,
    reader: ImageReader,
    metrics: Metrics,
    image_queue: WorkQueue,
) -> APIRouter:
    """Return the route ``POST /v1/classes/{name}/examples``.

    `image_queue` bounds how many requests with images are computed and wait.
    """
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    passed = require_key(settings)
    by = Depends(passed)
    key = (401,) if settings.api_keys else ()
    # One after another, in a thread of their own: predictions do not wait while a model is solved.
    queue = WorkQueue(1, settings.max_waiting, "examples")

    def grow_by_body(
        name: str, kind: str, parts: list[bytes], idempotency_key: str | None, origin: Origin
    ) -> ClassGrown:
        with returned(large=sum(map(len, parts)) > LARGE_BYTES):
            body = b"".join(parts)
            parts.clear()
            digest = hashlib.sha256(body).hexdigest()
            request = keyed(idempotency_key, "grow", f"{name} {kind} {digest}")

            def read() -> tuple[NDArray[Any], str | None]:
                n_features = served.current().model.n_features_in_
                if kind != JSON:
                    rows = bodies.read_binary(kind, body, n_features, settings.max_rows)
                    return rows, origin.reason
                X, said = bodies.read_json(body, n_features, settings.max_rows, Examples)
                return X, said.reason

            return grow(name, request, origin, read)

    def grow(
        name: str,
        request: KeyedRequest | None,
        origin: Origin,
        read: Callable[[], tuple[NDArray[Any], str | None]],
    ) -> ClassGrown:
        def change() -> Receipt:
            served.refresh().find(name)  # a class that is not there is told before rows are read
            X, reason = read()
            edition = served.grow(name, X, request, Origin(origin.who, reason))
            metrics.examples.inc(len(X))
            n_examples = edition.n_examples.get(edition.canonical(name), 0)
            return receipt_of(edition, [name], n_examples=n_examples)

        receipt = change() if request is None else served.once(request, change)
        return answer(receipt)

    def answer(receipt: Receipt) -> ClassGrown:
        return ClassGrown(
            revision=receipt.revision,
            name=receipt.names[0],
            n_examples=receipt.n_examples,
            n_classes=len(served.current().learned) + receipt.n_added,
        )

    def known(name: str, uploads: list[Upload], idempotency_key: str | None) -> Any:
        """Return the request of some images, and its answer where it has one."""
        served.refresh().find(name)
        digest = hashlib.sha256()
        for upload in uploads:
            digest.update(hashlib.sha256(upload.content()).digest())
        request = keyed(idempotency_key, "grow", f"{name} {FORM} {digest.hexdigest()}")
        return request, None if request is None else served.registry.receipt(request)

    def features(uploads: list[Upload]) -> NDArray[Any]:
        with returned(large=True):
            return reader.features(uploads)

    @router.post(
        "/{name:path}/examples",
        summary="Let a class learn from examples",
        dependencies=[by],
        responses=documented(400, *key, 404, 409, 413, 415, 422, *STORAGE),
        openapi_extra={"requestBody": {"required": True, "content": _CONTENT}},
    )
    async def grow_class(
        name: str,
        request: Request,
        idempotency_key: IdempotencyKey = None,
        why: ReasonQuery = None,
        who: str | None = by,
    ) -> ClassGrown:
        """Take in feature rows or images of a class, added or learned.

        Their sums are kept, they themselves are not. An added class becomes a seen one. A JSON
        body says the reason itself; with octets, Arrow and images the query does.
        """
        kind, origin = bodies.rows_type(request, FORM), Origin(who, why)
        queue.check()
        if kind != FORM:
            parts = await read_parts(request)
            if not parts:
                raise Problem(422, "the body is empty; feature rows are expected")
            return await queue.run(grow_by_body, name, kind, parts, idempotency_key, origin)
        reader.check()
        image_queue.check()
        n_most = min(MAX_IMAGES, settings.max_rows)
        async with read_uploads(request, n_most, settings.max_image_bytes) as uploads:
            asked, receipt = await queue.run(known, name, uploads, idempotency_key)
            if receipt is not None:
                return answer(receipt)
            X = await image_queue.run(features, uploads)
            return await queue.run(grow, name, asked, origin, lambda: (X, why))

    return router
