"""Predictions: feature rows as JSON, octets or Arrow, and images."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from hgkt.serving.class_facts import ClassMap
from hgkt.serving.images import ImageReader, Upload
from hgkt.serving.json_bodies import JSON, read_parts
from hgkt.serving.memory import LARGE_BYTES, returned
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.queues import WorkQueue
from hgkt.serving.ranking import GROUPS, candidates, explain, rank, rank_surely
from hgkt.serving.routes import bodies
from hgkt.serving.routes.answers import write_arrow, write_json
from hgkt.serving.routes.bodies import ARROW
from hgkt.serving.routes.uploads import IMAGES_CONTENT, read_uploads
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings

MAX_EXPLAINED = 64  # each explanation scores the class once more for every attribute
MAX_IMAGES = 64


# ---------------------------------------------------------------------- what answers look like
class Ranked(BaseModel):
    """A class and its score."""

    label: str
    seen: bool = Field(description="Whether the class was learned from instances.")
    score: float = Field(description="Higher is better.")
    probability: float | None = Field(
        default=None, description="How likely the class is, where `confidence` was asked for."
    )


class Pull(BaseModel):
    """A seen class and what it adds to the score."""

    label: str
    weight: float


class Evidence(BaseModel):
    """An attribute of the predicted class and what it adds to the score."""

    name: str = Field(description="Its name; its position where the model has no names.")
    value: float
    weight: float = Field(
        description="Score minus the score were this attribute at the mean of the seen classes; "
        "for an attribute with a complement (`tail`, `no tail`) that of both."
    )


class Explanation(BaseModel):
    """Why an instance was given its class."""

    margin: float | None = Field(
        description="Score minus that of the next candidate; null where there is none."
    )
    pulls: list[Pull]
    attributes: list[Evidence]
    place: tuple[float, float] | None = Field(
        description="Where the instance lies on the map of `/v1/map`; null where that is unknown."
    )


class Prediction(BaseModel):
    """The best class of one row; all null but the probability where the row was rejected."""

    label: str | None
    seen: bool | None
    score: float | None
    probability: float | None = None
    novelty: float | None = Field(
        default=None, description="Share of rows of known classes that look less strange, 0 to 1."
    )
    set: list[str] | None = Field(
        default=None, description="Classes among which the true one is, where `coverage` was given."
    )
    top: list[Ranked] = Field(description="The best classes, the predicted one first.")
    explanation: Explanation | None = None


class PredictResponse(BaseModel):
    """Predictions, one per row, all made with the classes of one revision."""

    revision: int
    predictions: list[Prediction]


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_REQUEST_BODY = {"required": True, "content": bodies.rows_content(bodies.PredictRequest)}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": PredictResponse,
        "description": "Predictions, one per row.",
        "content": {ARROW: _BINARY},
    }
}


# ---------------------------------------------------------------------- questions
@dataclass(frozen=True)
class Question:
    """What is asked of some rows."""

    top_k: int
    among: str | list[str]
    explain: bool
    as_arrow: bool
    confidence: bool = False
    reject: float | None = None
    coverage: float | None = None
    revision: int | None = None

    @property
    def surely(self) -> bool:
        """Whether it is asked how sure answers are."""
        return self.confidence or self.reject is not None or self.coverage is not None

    def check(self, n_rows: int) -> None:
        """Refuse explanations where there can be none."""
        if self.explain and self.as_arrow:
            raise Problem(422, "explanations come as JSON only; leave out explain or the Accept")
        if self.surely and self.as_arrow:
            raise Problem(
                422,
                "confidence comes as JSON only; leave out confidence, reject and coverage, or the "
                "Accept",
            )
        if self.explain and n_rows > MAX_EXPLAINED:
            raise Problem(
                413, f"{n_rows} rows are to be explained; at most {MAX_EXPLAINED} are at once"
            )


async def _asked(
    request: Request,
    top_k: Annotated[
        int, Query(ge=1, le=1000, description="How many classes per row, best first.")
    ] = 1,
    among: Annotated[
        list[str] | None,
        Query(description="The candidates: all, seen or unseen, or class names, one each."),
    ] = None,
    explain: Annotated[bool, Query(description="Whether to say why, for each row.")] = False,
    confidence: Annotated[
        bool, Query(description="Whether to say how sure each answer is.")
    ] = False,
    reject: Annotated[
        float | None,
        Query(gt=0, lt=1, description="Share of known rows that may be rejected by mistake."),
    ] = None,
    coverage: Annotated[
        float | None, Query(gt=0, lt=1, description="How often `set` is to hold the true class.")
    ] = None,
    revision: Annotated[
        int | None,
        Query(ge=0, le=2**62, description="Answer with the classes of this revision."),
    ] = None,
) -> Question:
    names: str | list[str] = among or "all"
    if len(names) == 1 and names[0] in GROUPS:  # one word that names a group is the group
        names = names[0]
    as_arrow = ARROW in request.headers.get("accept", "")
    return Question(top_k, names, explain, as_arrow, confidence, reject, coverage, revision)


Asked = Annotated[Question, Depends(_asked)]


class _PredictRoute(APIRoute):
    """A route that looks for no query where a request has none.

    To find that each of seven parameters was left out takes FastAPI as long as a row takes to be
    scored. Where a route depends on more, a key for instance, FastAPI asks for all of it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        whole, endpoint = super().get_route_handler(), self.endpoint
        if self.dependencies:
            return whole

        async def answer(request: Request) -> Response:
            if request.scope["query_string"]:
                return await whole(request)
            response: Response = await endpoint(request, await _asked(request))
            return response

        return answer


def build_router(
    served: ServedModel,
    settings: ServiceSettings,
    reader: ImageReader,
    metrics: Metrics,
    queue: WorkQueue,
    image_queue: WorkQueue,
    plane: Callable[[], ClassMap],
) -> APIRouter:
    """Return the routes that predict.

    The queues bound how many predictions, and those of images, are computed and wait; `plane`
    makes the map of classes.
    """
    router = APIRouter(tags=["predict"], route_class=_PredictRoute)

    def classify_body(kind: str, parts: list[bytes], question: Question) -> Response:
        with returned(large=sum(map(len, parts)) > LARGE_BYTES):
            return classify_parts(kind, parts, question)

    def classify_parts(kind: str, parts: list[bytes], question: Question) -> Response:
        body = b"".join(parts)
        parts.clear()
        n_features = served.current().model.n_features_in_
        if kind == JSON:
            X, said = bodies.read_json(body, n_features, settings.max_rows, bodies.PredictRequest)
            question = Question(
                said.top_k,
                said.among,
                said.explain,
                question.as_arrow,
                said.confidence,
                said.reject,
                said.coverage,
                said.revision,
            )
        else:
            X = bodies.read_binary(kind, body, n_features, settings.max_rows)
        return classify(X, question)

    def classify_images(uploads: list[Upload], question: Question) -> Response:
        question.check(len(uploads))
        with returned(large=True):
            X = reader.features(uploads)
        return classify(X, question)

    def classify(X: NDArray[Any], question: Question) -> Response:
        question.check(len(X))
        asked_for = question.revision
        edition = served.current() if asked_for is None else served.at(asked_for)
        columns = candidates(edition, question.among)
        check_ranked(len(X), min(question.top_k, len(columns)), settings.max_ranked)
        k = max(question.top_k, 2 if question.explain else 1)
        if question.surely:
            asked = question.reject, question.coverage
            found = rank_surely(edition.model, X, columns, k, *asked)
        else:
            found = rank(edition.model, X, columns, k)
        reasons = explain(edition.model, X, found, plane()) if question.explain else None
        found = found.first(question.top_k)
        metrics.predictions.inc(len(X))
        if question.as_arrow:
            return Response(write_arrow(edition, found), media_type=ARROW)
        return Response(write_json(edition, found, reasons), media_type=JSON)

    @router.post(
        "/v1/predict",
        response_class=Response,
        responses=_ANSWER | documented(400, 404, 410, 413, 415, 422, 503),
        openapi_extra={"requestBody": _REQUEST_BODY},
    )
    async def predict(request: Request, question: Asked) -> Response:
        """Classify feature rows.

        A JSON body says itself how many classes are wanted and among which; with octets or
        Arrow the query parameters do. With a `revision` the answer is the one of then.
        """
        kind = bodies.rows_type(request)
        queue.check()
        parts = await read_parts(request)
        if not parts:
            raise Problem(422, "the body is empty; feature rows are expected")
        return await queue.run(classify_body, kind, parts, question)

    @router.post(
        "/v1/predict/image",
        response_class=Response,
        responses=_ANSWER | documented(400, 404, 409, 410, 413, 415, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": IMAGES_CONTENT}},
    )
    async def predict_image(request: Request, question: Asked) -> Response:
        """Classify images with the backbone that the model was trained on."""
        reader.check()
        image_queue.check()
        n_most = min(MAX_IMAGES, settings.max_rows)
        async with read_uploads(request, n_most, settings.max_image_bytes) as uploads:
            return await image_queue.run(classify_images, uploads, question)

    return router


def check_ranked(n_rows: int, n_classes: int, max_ranked: int) -> None:
    """Refuse an answer that would be too long."""
    if n_rows * n_classes > max_ranked:
        raise Problem(
            413,
            f"{n_rows} rows with {n_classes} classes each are too much for one answer; at most "
            f"{max_ranked:,} scores are",
        )
