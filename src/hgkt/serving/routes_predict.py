"""Predictions: feature rows as JSON, octets or Arrow, and images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter, File, Query, Request, Response, UploadFile
from numpy.typing import NDArray

from hgkt.serving import bodies
from hgkt.serving.bodies import ARROW, JSON, OCTETS
from hgkt.serving.images import ImageReader
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.ranking import GROUPS, candidates, explain, names_of, rank
from hgkt.serving.schemas import PredictRequest, PredictResponse
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.snapshots import Snapshot, SnapshotStore

MAX_EXPLAINED = 64  # each explanation scores the class once more for every attribute
MAX_IMAGES = 64
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_REQUEST_BODY = {
    "required": True,
    "content": {
        JSON: {"schema": PredictRequest.model_json_schema()},
        OCTETS: _BINARY | {"description": "Rows of little-endian float32 numbers."},
        ARROW: _BINARY,
    },
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": PredictResponse,
        "description": "Predictions, one a row.",
        "content": {ARROW: _BINARY},
    }
}

TopK = Annotated[int, Query(ge=1, le=1000, description="How many classes a row, best first.")]
Among = Annotated[
    list[str] | None,
    Query(description="The candidates: all, seen or unseen, or class names, one each."),
]
Explain = Annotated[bool, Query(description="Whether to say why, for each row.")]


@dataclass(frozen=True)
class Question:
    """What is asked of some rows."""

    top_k: int
    among: str | list[str]
    explain: bool
    as_arrow: bool


@dataclass(frozen=True)
class Predictor:
    """Answers questions about rows on one snapshot; runs in worker threads.

    Parameters
    ----------
    metrics : Metrics
        Where predictions are counted.
    max_rows : int
        The most rows a request.
    """

    metrics: Metrics
    max_rows: int

    def from_body(self, snapshot: Snapshot, kind: str, body: bytes, question: Question) -> Response:
        """Answer a body of feature rows of the media type `kind`."""
        n_features = int(snapshot.model.n_features_in_)
        if kind == JSON:
            X, asked = bodies.read_json(body, n_features, self.max_rows)
            question = Question(asked.top_k, asked.among, asked.explain, question.as_arrow)
        elif kind == OCTETS:
            X = bodies.read_octets(body, n_features, self.max_rows)
        else:
            X = bodies.read_arrow(body, n_features, self.max_rows)
        return self.answer(snapshot, X, question)

    def answer(self, snapshot: Snapshot, X: NDArray[Any], question: Question) -> Response:
        """Answer for rows (n, n_features)."""
        if question.explain and question.as_arrow:
            raise Problem(422, "explanations come as JSON only; leave out explain or the Accept")
        if question.explain and len(X) > MAX_EXPLAINED:
            raise Problem(
                413, f"{len(X)} rows are to be explained; at most {MAX_EXPLAINED} are at once"
            )
        model = snapshot.model
        names = snapshot.cached("names", lambda: names_of(model))
        columns = candidates(model, names, question.among)
        found = rank(model, X, columns, max(question.top_k, 2 if question.explain else 1))
        reasons = explain(model, X, found, len(columns)) if question.explain else None
        if reasons is not None:
            k = question.top_k
            found = bodies.Ranking(found.columns[:, :k], found.scores[:, :k])
        self.metrics.predictions.inc(len(X))
        if question.as_arrow:
            return Response(bodies.write_arrow(snapshot.revision, names, found), media_type=ARROW)
        content = bodies.write_json(snapshot.revision, names, found, reasons)
        return Response(content, media_type=JSON)

    def from_images(
        self,
        snapshot: Snapshot,
        reader: ImageReader,
        images: list[tuple[str, bytes]],
        question: Question,
    ) -> Response:
        """Answer for encoded images."""
        return self.answer(snapshot, reader.features(images), question)


def build_router(
    store: SnapshotStore,
    settings: ServiceSettings,
    reader: ImageReader,
    metrics: Metrics,
    limiter: CapacityLimiter,
) -> APIRouter:
    """Return the routes that predict.

    Parameters
    ----------
    store : SnapshotStore
        The model and its classes.
    settings : ServiceSettings
        Limits.
    reader : ImageReader
        Turns images into features.
    metrics : Metrics
        Where predictions are counted.
    limiter : CapacityLimiter
        How many predictions are computed at the same time.
    """
    router = APIRouter(tags=["predict"])
    predictor = Predictor(metrics, settings.max_rows)

    async def compute(work: Callable[..., Response], *arguments: Any) -> Response:
        return await anyio.to_thread.run_sync(work, *arguments, limiter=limiter)

    @router.post(
        "/v1/predict",
        response_class=Response,
        responses=_ANSWER | documented(400, 413, 415, 422),
        openapi_extra={"requestBody": _REQUEST_BODY},
    )
    async def predict(
        request: Request, top_k: TopK = 1, among: Among = None, explain: Explain = False
    ) -> Response:
        """Classify feature rows.

        A JSON body says itself how many classes are wanted and among which; with octets or
        Arrow the query parameters do.
        """
        kind = _media_type(request)
        question = Question(
            top_k, _group(among), explain, ARROW in request.headers.get("accept", "")
        )
        body = await request.body()
        if not body:
            raise Problem(422, "the body is empty; feature rows are expected")
        return await compute(predictor.from_body, store.current(), kind, body, question)

    @router.post(
        "/v1/predict/image",
        response_class=Response,
        responses=_ANSWER | documented(400, 409, 413, 422),
    )
    async def predict_image(
        request: Request,
        images: Annotated[list[UploadFile], File(description="JPEG, PNG or the like.")],
        top_k: TopK = 1,
        among: Among = None,
        explain: Explain = False,
    ) -> Response:
        """Classify images with the backbone that the model was trained on."""
        question = Question(
            top_k, _group(among), explain, ARROW in request.headers.get("accept", "")
        )
        n_most = min(MAX_IMAGES, settings.max_rows)
        if len(images) > n_most:
            raise Problem(
                413, f"the request has {len(images)} images; at most {n_most} are at once"
            )
        files = []
        for number, image in enumerate(images, start=1):
            if (image.size or 0) > settings.max_image_bytes:
                raise Problem(
                    413,
                    f"image {number} has {image.size} bytes; at most {settings.max_image_bytes} "
                    "are accepted",
                )
            files.append((image.filename or "", await image.read()))
        return await compute(predictor.from_images, store.current(), reader, files, question)

    return router


def _media_type(request: Request) -> str:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, OCTETS, ARROW):
        raise Problem(
            415, f"the content type must be {JSON}, {OCTETS} or {ARROW}; got {kind[:80]!r}"
        )
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "compressed bodies are not accepted; send it without Content-Encoding")
    return kind


def _group(among: list[str] | None) -> str | list[str]:
    """A single word that names a group is the group; anything else is a list of classes."""
    if not among:
        return "all"
    return among[0] if len(among) == 1 and among[0] in GROUPS else among
