"""Predictions: feature rows as JSON or octets, images, and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from hgkt._predictions import (
    GROUPS,
    Evidence,
    Explanation,
    Prediction,
    Predictions,
    Pull,
    Question,
    Ranked,
)
from hgkt.serving.class_facts import ClassMap
from hgkt.serving.edition import Edition
from hgkt.serving.images import ImageReader, Upload
from hgkt.serving.live_model import ServedModel
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.ranking import Ranking, Reason, candidates, explain, rank
from hgkt.serving.routes import bodies
from hgkt.serving.routes.bodies import JSON, OCTETS
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.texts import TextReader, check_texts
from hgkt.serving.work_queue import Queues

MAX_EXPLAINED = 64  # each explanation scores the class once more for every attribute
MAX_IMAGES = 64
QUICK_BYTES = 64 * 1024
"""A longer body is much work in any case."""
_FIELDS = frozenset(Question.__struct_fields__)
_DEFAULT = Question()


class PredictBody(Question, frozen=True, kw_only=True):
    """Feature vectors to classify, and what is asked of them."""

    features: bodies.Rows


class TextsBody(Question, frozen=True, kw_only=True):
    """A text or several to classify, and what is asked of them."""

    texts: bodies.Texts


class Asked(NamedTuple):
    """Rows (n, n_features), and what is asked of them."""

    rows: NDArray[np.float32]
    question: Question


_QUERY = [
    {"name": name, "in": "query", "required": False, "schema": schema}
    for name, schema in bodies.json_content(Question)[JSON]["schema"]["properties"].items()
]
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "Predictions, one per row.", "content": bodies.json_content(Predictions)}
}


def build_router(
    served: ServedModel,
    settings: ServiceSettings,
    reader: ImageReader,
    texts: TextReader,
    metrics: Metrics,
    queues: Queues,
    plane: Callable[[], ClassMap],
) -> APIRouter:
    """Return the routes that predict; `plane` makes the map of classes."""
    router = APIRouter(tags=["predict"])

    def read(kind: str, body: bytes, question: Question) -> Asked:
        n_features = served.base.n_features_in_
        if kind == OCTETS:
            return Asked(bodies.octet_rows(body, n_features, settings.max_rows), question)
        sent = bodies.decode_rows_body(body, PredictBody, n_features, settings.max_rows)
        return Asked(bodies.json_rows(sent.features, n_features, settings.max_rows), sent)

    def classify(asked: Asked, edition: Edition) -> Response:
        X, question = asked
        columns = check_cost(settings, edition, len(X), question)
        k = max(question.top_k, 2 if question.explain else 1)
        found = rank(edition.model, X, columns, k, question)
        reasons = explain(edition.model, X, found, plane()) if question.explain else None
        metrics.predictions.inc(len(X))
        answer = answer_of(edition, found.first(question.top_k), reasons)
        return Response(msgspec.json.encode(answer), media_type=JSON)

    def classify_large(kind: str, parts: list[bytes], question: Question) -> Asked | Response:
        with bodies.memory_returned(parts):
            body = b"".join(parts)
            parts.clear()
            asked = read(kind, body, question)
            if asked.question.revision is not None:
                return asked
            return classify(asked, served.current())

    async def answer(asked: Asked) -> Response:
        edition, revision = served.current(), asked.question.revision
        if revision is not None and revision != edition.revision:
            edition = await queues.revisions.run(served.at, revision)
        question, n_classes = asked.question, len(edition.names)
        queue = queues.of_cost(len(asked.rows), n_classes, question.top_k, question.explain)
        return await queue.run(classify, asked, edition)

    @router.post(
        "/v1/predict",
        response_class=Response,
        responses=_ANSWER | documented(400, 404, 413, 415, 422, 503),
        openapi_extra={
            "parameters": _QUERY,
            "requestBody": {"required": True, "content": bodies.rows_content(PredictBody)},
        },
    )
    async def predict(request: Request) -> Response:
        """Classify feature rows.

        A JSON body says itself how many classes are wanted and among which; with octets the query
        parameters do. With a `revision` the answer is the one of then.
        """
        kind = bodies.media_type(request, JSON, OCTETS)
        queues.quick.check()
        question = asked_in_query(request)
        parts = await bodies.read_parts(request)
        if sum(map(len, parts)) <= QUICK_BYTES:
            return await answer(read(kind, b"".join(parts), question))
        found = await queues.costly.run(classify_large, kind, parts, question)
        return found if isinstance(found, Response) else await answer(found)

    @router.post(
        "/v1/predict/image",
        response_class=Response,
        responses=_ANSWER | documented(400, 404, 409, 413, 415, 422, 503),
        openapi_extra={
            "parameters": _QUERY,
            "requestBody": {"required": True, "content": bodies.IMAGES_CONTENT},
        },
    )
    async def predict_image(request: Request) -> Response:
        """Classify images with the backbone that the model was trained on."""
        question = asked_in_query(request)
        reader.check()
        queues.images.check()

        def features(uploads: list[Upload]) -> NDArray[np.float32]:
            check_explained(question, len(uploads))
            with bodies.memory_returned():
                return reader.features(uploads)

        n_most = min(MAX_IMAGES, settings.max_rows)
        async with bodies.read_uploads(request, n_most, settings.max_image_bytes) as uploads:
            rows = await queues.images.run(features, uploads)
        return await answer(Asked(rows, question))

    @router.post(
        "/v1/predict/text",
        response_class=Response,
        responses=_ANSWER | documented(400, 404, 409, 413, 415, 422, 503),
        openapi_extra=bodies.json_body(TextsBody),
    )
    async def predict_text(request: Request) -> Response:
        """Classify texts with the encoder that the model was trained on."""
        texts.check()
        queues.texts.check()
        sent = await bodies.read_json(request, TextsBody, bodies.FEW_VALUES)
        given = check_texts(sent.texts)
        check_explained(sent, len(given))
        return await answer(Asked(await queues.texts.run(texts.features, given), sent))

    return router


def asked_in_query(request: Request) -> Question:
    """Return the question that a query holds; what it does not know is left out."""
    if not request.scope["query_string"]:
        return _DEFAULT
    values: dict[str, Any] = {
        name: value for name, value in request.query_params.items() if name in _FIELDS
    }
    names = request.query_params.getlist("among")
    if names:  # one word that names a group is the group
        values["among"] = names[0] if len(names) == 1 and names[0] in GROUPS else names
    try:
        return msgspec.convert(values, Question, strict=False)
    except msgspec.ValidationError as error:
        raise bodies.wrong_value(error, "query ") from None


def check_explained(question: Question, n_rows: int) -> None:
    """Refuse more explanations than one request may ask for."""
    if question.explain and n_rows > MAX_EXPLAINED:
        raise Problem(
            413, f"{n_rows} rows are to be explained; at most {MAX_EXPLAINED} are at once"
        )


def check_cost(
    settings: ServiceSettings, edition: Edition, n_rows: int, question: Question
) -> NDArray[np.intp]:
    """Return the candidates of a question; refuse one that takes too much work."""
    check_explained(question, n_rows)
    columns = candidates(edition, question.among)
    n_ranked = min(question.top_k, len(columns))
    if n_rows * n_ranked > settings.max_ranked:
        raise Problem(
            413,
            f"{n_rows} rows with {n_ranked} classes each are too much for one answer; at most "
            f"{settings.max_ranked:,} scores are",
        )
    if n_rows * len(columns) > settings.max_scores:
        raise Problem(
            413,
            f"{n_rows} rows among {len(columns)} classes are too much for one request; at most "
            f"{settings.max_scores:,} scores are computed",
        )
    return columns


def answer_of(
    edition: Edition, ranking: Ranking, reasons: Sequence[Reason] | None = None
) -> Predictions:
    """Return a ranking as it is answered."""
    names, seen, sure = edition.names, edition.seen.tolist(), ranking.sureness
    predictions = []
    for row, (columns, scores) in enumerate(
        zip(ranking.columns.tolist(), ranking.scores.tolist(), strict=True)
    ):
        top = [Ranked(names[c], seen[c], s) for c, s in zip(columns, scores, strict=True)]
        found = Prediction(top[0].label, top[0].seen, top[0].score, top)
        if sure is not None:
            chances = sure.probabilities[row].tolist()
            for entry, chance in zip(top, chances, strict=False):
                entry.probability = chance
            if sure.unknown[row]:
                found.label = found.seen = found.score = None
            found.probability, found.novelty = chances[0], float(sure.novelty[row])
            found.set = None if sure.sets is None else [str(name) for name in sure.sets[row]]
        if reasons is not None:
            found.explanation = _explanation(reasons[row])
        predictions.append(found)
    return Predictions(edition.revision, predictions)


def _explanation(reason: Reason) -> Explanation:
    return Explanation(
        reason.margin,
        [Pull(str(pull.label), float(pull.weight)) for pull in reason.pulls],
        [Evidence(one.name, one.value, one.weight) for one in reason.attributes],
        reason.place,
    )
