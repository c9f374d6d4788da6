"""Predictions: feature rows as JSON or octets, images, and texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from hgkt._predictions import GROUPS, Explanation, Prediction, Predictions, Question, Ranked
from hgkt.serving.edition import Edition
from hgkt.serving.inbox import ItemKind
from hgkt.serving.problems import Problem
from hgkt.serving.ranking import Ranking, candidates, explain, rank
from hgkt.serving.readers import Upload
from hgkt.serving.routes import Service, bodies
from hgkt.serving.routes.bodies import JSON, OCTETS
from hgkt.serving.settings import ServiceSettings

MAX_EXPLAINED = 64  # each explanation scores the class once more for every attribute
QUICK_BYTES = 64 * 1024  # a longer body is much work in any case
_INSTANT = 2**23  # numbers that one row meets, below a millisecond's work
_DEFAULT = Question()


class PredictBody(Question, frozen=True, kw_only=True):
    """Feature vectors to classify, and what is asked of them."""

    features: bodies.Rows


class TextsBody(Question, frozen=True, kw_only=True):
    """A text or several to classify, and what is asked of them."""

    texts: bodies.Texts


class Asked(NamedTuple):
    """Rows (n, n_features), what is asked of them, and how it is answered."""

    rows: NDArray[np.float32]
    question: Question
    write: Callable[[Edition, Ranking, Sequence[Explanation] | None], Any]
    contents: Sequence[bytes] | None = None  # where they are to be kept if they are rejected
    kind: ItemKind = "features"


_QUERY = [
    {"name": name, "in": "query", "required": False, "schema": schema}
    for name, schema in bodies.json_content(Question)[JSON]["schema"]["properties"].items()
]
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "Predictions, one per row.", "content": bodies.json_content(Predictions)}
}


class Predictor:
    """Answers questions about rows, whatever protocol they came by, each in the queue of its cost.

    Parameters
    ----------
    service : Service
        What the routes share.
    """

    def __init__(self, service: Service) -> None:
        self._service, self._served, self._queues = service, service.served, service.queues
        self._has_turn = True

    async def answer_body(self, request: Request, read: Callable[[bytes], Asked]) -> Response:
        """Answer a body; a long one is read and answered in the queue of costly work.

        Parameters
        ----------
        request : Request
            Its body has not been read.
        read : callable
            Returns what a body asks.
        """
        self._queues.quick.check()
        parts = await bodies.read_parts(request)
        if sum(map(len, parts)) <= QUICK_BYTES:
            return await self.answer(read(b"".join(parts)))
        found = await self._queues.costly.run(self._answer_large, parts, read)
        return found if isinstance(found, Response) else await self.answer(found)

    async def answer(self, asked: Asked) -> Response:
        """Answer a question, with the classes of the revision that it names."""
        question, edition = asked.question, self._served.current()
        if question.revision is not None and question.revision != edition.revision:
            edition = await self._queues.revisions.run(self._served.at, question.revision)
        n_rows, n_classes = len(asked.rows), len(edition.names)
        if self._is_instant(asked, n_classes):
            self._has_turn = False
            asyncio.get_running_loop().call_soon(self._next_turn)
            return self._classify(asked, edition)
        queue = self._queues.of_cost(n_rows, n_classes, question.top_k, question.explain)
        return await queue.run(self._classify, asked, edition)

    def _is_instant(self, asked: Asked, n_classes: int) -> bool:
        """Return whether a question is answered sooner here than a thread is woken for it.

        Of small ones that come together one is, and the others go to threads: the event loop, which
        others wait for too, has one in a turn.
        """
        n_rows, n_features = asked.rows.shape
        is_small = n_rows == 1 and n_features * (n_features + n_classes) <= _INSTANT
        return is_small and self._has_turn and not asked.question.explain

    def _next_turn(self) -> None:
        self._has_turn = True

    def _answer_large(self, parts: list[bytes], read: Callable[[bytes], Asked]) -> Asked | Response:
        with bodies.memory_returned(parts):
            body = b"".join(parts)
            parts.clear()
            asked = read(body)
            if asked.question.revision is not None:
                return asked
            return self._classify(asked, self._served.current())

    def _classify(self, asked: Asked, edition: Edition) -> Response:
        X, question, inbox = asked.rows, asked.question, self._service.unknown
        columns = check_cost(self._service.settings, edition, len(X), question)
        k = max(question.top_k, 2 if question.explain else 1)
        found = rank(edition.model, X, columns, k, question)
        if inbox is not None and question.reject is not None and question.among == "all":
            inbox.keep_rejected(X, found.sureness, question.reject, asked.contents, asked.kind)
        reasons = None
        if question.explain:
            reasons = explain(edition.model, X, found, self._service.plane)
        self._service.metrics.predictions.inc(len(X))
        answer = asked.write(edition, found.first(question.top_k), reasons)
        return Response(msgspec.json.encode(answer), media_type=JSON)


def build_router(service: Service) -> APIRouter:
    """Return the routes that predict."""
    router = APIRouter(tags=["predict"])
    served, settings, predictor = service.served, service.settings, Predictor(service)
    texts, queues = service.texts, service.queues

    def keeps(question: Question) -> bool:
        """Return whether images and texts are to be kept if they are rejected."""
        kept = service.unknown is not None and settings.keep_unknown_items
        return kept and question.reject is not None

    @router.post(
        "/v1/predict",
        responses=_ANSWER,
        openapi_extra=bodies.body_of(bodies.json_content(PredictBody) | bodies.ROWS_CONTENT)
        | {"parameters": _QUERY},
    )
    async def predict(request: Request) -> Response:
        """Classify feature rows.

        A JSON body says itself how many classes are wanted and among which; with octets the query
        parameters do. With a `revision` the answer is the one of then.
        """
        kind = bodies.media_type(request, JSON, OCTETS)
        question = asked_in_query(request)
        n_features, max_rows = served.base.n_features_in_, settings.max_rows

        def read(body: bytes) -> Asked:
            if kind == OCTETS:
                return Asked(bodies.octet_rows(body, n_features, max_rows), question, answer_of)
            sent = bodies.decode_rows_body(body, PredictBody, n_features, max_rows)
            return Asked(bodies.json_rows(sent.features, n_features, max_rows), sent, answer_of)

        return await predictor.answer_body(request, read)

    @router.post(
        "/v1/predict/image",
        responses=_ANSWER,
        openapi_extra=bodies.body_of(bodies.IMAGES_CONTENT) | {"parameters": _QUERY},
    )
    async def predict_image(request: Request) -> Response:
        """Classify images with the backbone that the model was trained on."""
        question = asked_in_query(request)

        def read_images(uploads: list[Upload]) -> Asked:
            with bodies.memory_returned():
                rows = service.reader.features(uploads)
            kept = [upload.content() for upload in uploads] if keeps(question) else None
            return Asked(rows, question, answer_of, kept, "image")

        async with bodies.read_uploads(request, service) as uploads:
            asked = await queues.images.run(read_images, uploads)
        return await predictor.answer(asked)

    @router.post("/v1/predict/text", responses=_ANSWER, openapi_extra=bodies.json_body(TextsBody))
    async def predict_text(request: Request) -> Response:
        """Classify texts with the encoder that the model was trained on."""
        texts.check()
        queues.texts.check()
        sent = await bodies.read_json(request, TextsBody, bodies.FEW_VALUES)
        given = bodies.check_texts(sent.texts)
        kept = [text.encode() for text in given] if keeps(sent) else None
        rows = await queues.texts.run(texts.features, given)
        return await predictor.answer(Asked(rows, sent, answer_of, kept, "text"))

    return router


def asked_in_query(request: Request) -> Question:
    """Return the question that a query holds; what it does not know is left out."""
    if not request.scope["query_string"]:
        return _DEFAULT
    values: dict[str, Any] = {
        name: value
        for name, value in request.query_params.items()
        if name in Question.__struct_fields__
    }
    names = request.query_params.getlist("among")
    if names:  # one word that names a group is the group
        values["among"] = names[0] if len(names) == 1 and names[0] in GROUPS else names
    try:
        return msgspec.convert(values, Question, strict=False)
    except msgspec.ValidationError as error:
        raise bodies.wrong_value(error, "query ") from None


def check_cost(
    settings: ServiceSettings, edition: Edition, n_rows: int, question: Question
) -> NDArray[np.intp]:
    """Return the candidates of a question; refuse one that takes too much work."""
    if question.explain and n_rows > MAX_EXPLAINED:
        raise Problem(
            413, f"{n_rows} rows are to be explained; at most {MAX_EXPLAINED} are at once"
        )
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
    edition: Edition, ranking: Ranking, reasons: Sequence[Explanation] | None = None
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
            found.explanation = reasons[row]
        predictions.append(found)
    return Predictions(edition.revision, predictions)
