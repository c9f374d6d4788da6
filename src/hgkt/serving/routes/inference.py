"""The Open Inference Protocol, version 2: what KServe, Triton and their clients speak."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel

from hgkt.estimators import METHODS
from hgkt.serving.json_bodies import JSON, media_type, read_parts
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.queues import WorkQueue
from hgkt.serving.ranking import candidates, rank
from hgkt.serving.routes.bodies import OCTETS
from hgkt.serving.routes.predict import check_ranked
from hgkt.serving.routes.tensors import (
    INPUT,
    LENGTH_HEADER,
    OUTPUTS,
    InferRequest,
    read_rows,
    split_body,
    tensors,
    write_answer,
)
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings

VERSION = "1"
"""The one version of a model that a service has; its classes change, what it learned does not."""

MAX_TOP_K = 1000
_OWN = frozenset({"top_k", "among", "binary_data_output"})
_HARMLESS = frozenset({"priority", "timeout", "content_type", "headers"})


class ServerMetadata(BaseModel):
    """What answers."""

    name: str
    version: str
    extensions: list[str]


class Live(BaseModel):
    """The process answers."""

    live: bool


class Ready(BaseModel):
    """The service can predict."""

    ready: bool


class ModelReady(Ready):
    """The model can predict."""

    name: str


class TensorMetadata(BaseModel):
    """A tensor that goes in or comes out; -1 stands for any length."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What a model reads and answers."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


_BINARY = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    "required": True,
    "content": {
        JSON: {"schema": {"type": "object", "required": ["inputs"]}},
        OCTETS: _BINARY | {"description": f"JSON of {LENGTH_HEADER} bytes, then tensors."},
    },
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {JSON: {"schema": {"type": "object"}}, OCTETS: _BINARY}}
}


def build_router(
    served: ServedModel,
    settings: ServiceSettings,
    metrics: Metrics,
    queue: WorkQueue,
    check_ready: Callable[[], Any],
) -> APIRouter:
    """Return the routes under ``/v2``.

    `queue` bounds how many predictions are computed and wait; `check_ready` raises a Problem
    where the service is not ready.
    """
    router = APIRouter(prefix="/v2", tags=["inference protocol"])
    own_name = settings.name()

    def check_model(model: str, wanted: str = VERSION) -> None:
        if model != own_name:
            raise Problem(404, f"there is no model {model[:80]!r}; this service has {own_name!r}")
        if wanted != VERSION:
            raise Problem(404, f"there is no version {wanted[:80]!r} of the model, only {VERSION}")

    def classify(parts: list[bytes], header_length: str | None) -> Response:
        body = b"".join(parts)
        parts.clear()
        asked, octets = split_body(body, header_length)
        names, binary = wanted_outputs(asked)
        top_k, among = parameters(asked)
        edition = served.current()
        X = read_rows(asked, octets, edition.model.n_features_in_, settings.max_rows)
        columns = candidates(edition, among)
        check_ranked(len(X), min(top_k, len(columns)), settings.max_ranked)
        found = rank(edition.model, X, columns, top_k)
        metrics.predictions.inc(len(X))
        head: dict[str, Any] = {"model_name": own_name, "model_version": VERSION}
        if asked.id:
            head["id"] = asked.id
        head["parameters"] = {"revision": edition.revision}
        content, n_json = write_answer(head, tensors(edition, found, names), binary)
        if n_json is None:
            return Response(content, media_type=JSON)
        return Response(content, headers={LENGTH_HEADER: str(n_json)}, media_type=OCTETS)

    @router.get("")
    async def server_metadata() -> ServerMetadata:
        """Say what answers, and which extensions of the protocol it knows."""
        extensions = ["binary_tensor_data"]
        return ServerMetadata(name="hgkt", version=version("hgkt"), extensions=extensions)

    @router.get("/health/live")
    async def live() -> Live:
        """Say that the process answers, as ``/health`` does."""
        return Live(live=True)

    @router.get("/health/ready", responses=documented(503))
    async def ready() -> Ready:
        """Say whether the service can predict, as ``/ready`` does."""
        check_ready()
        return Ready(ready=True)

    @router.get("/models/{model}/versions/{version}/ready", include_in_schema=False)
    @router.get("/models/{model}/ready", responses=documented(404, 503))
    async def model_ready(model: str, version: str = VERSION) -> ModelReady:
        """Say whether the model can predict."""
        check_model(model, version)
        check_ready()
        return ModelReady(name=model, ready=True)

    @router.get("/models/{model}/versions/{version}", include_in_schema=False)
    @router.get("/models/{model}", responses=documented(404))
    async def model_metadata(model: str, version: str = VERSION) -> ModelMetadata:
        """Say what the model reads and answers."""
        check_model(model, version)
        estimator = served.current().model
        return ModelMetadata(
            name=own_name,
            versions=[VERSION],
            platform=f"hgkt_{METHODS.name_of(type(estimator)) or type(estimator).__name__}",
            inputs=[
                TensorMetadata(name=INPUT, datatype="FP32", shape=[-1, estimator.n_features_in_])
            ],
            outputs=[
                TensorMetadata(name=name, datatype=kind, shape=[-1] * n_dimensions)
                for name, (kind, n_dimensions) in OUTPUTS.items()
            ],
        )

    @router.post("/models/{model}/versions/{version}/infer", include_in_schema=False)
    @router.post(
        "/models/{model}/infer",
        response_class=Response,
        responses=_ANSWER | documented(400, 404, 413, 415, 422, 503),
        openapi_extra={"requestBody": _BODY},
    )
    async def infer(
        model: str,
        request: Request,
        version: str = VERSION,
        length: Annotated[str | None, Header(alias=LENGTH_HEADER)] = None,
    ) -> Response:
        """Classify the rows of the tensor ``features``.

        The request's parameters ``top_k`` and ``among`` mean what they do in ``/v1/predict``.
        """
        check_model(model, version)
        media_type(request)  # refuses a compressed body
        queue.check()
        return await queue.run(classify, await read_parts(request), length)

    return router


def wanted_outputs(asked: InferRequest) -> tuple[list[str], list[bool]]:
    """Return the names of the tensors that are asked for, and which of them as octets."""
    always = asked.parameters.get("binary_data_output") is True
    if not asked.outputs:
        k = asked.parameters.get("top_k", 1)
        names = [name for name, (_, n_dimensions) in OUTPUTS.items() if n_dimensions == 1 or k != 1]
        return names, [always] * len(names)
    for output in asked.outputs:
        if output.name not in OUTPUTS:
            known = ", ".join(OUTPUTS)
            raise Problem(422, f"there is no output {output.name[:80]!r}; there are {known}")
        if "classification" in output.parameters:
            raise Problem(422, "the extension 'classification' is not known; use top_k")
    names = [output.name for output in asked.outputs]
    return names, [bool(output.parameters.get("binary_data", always)) for output in asked.outputs]


def parameters(asked: InferRequest) -> tuple[int, str | list[str]]:
    """Return how many classes per row are asked for, and among which."""
    strange = sorted(asked.parameters.keys() - _OWN - _HARMLESS)
    if strange:
        raise Problem(422, f"the parameter {strange[0][:80]!r} is not known; top_k and among are")
    top_k, among = asked.parameters.get("top_k", 1), asked.parameters.get("among", "all")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise Problem(422, f"top_k must be an integer from 1 to {MAX_TOP_K}")
    named = isinstance(among, list) and among and all(isinstance(name, str) for name in among)
    if among not in ("all", "seen", "unseen") and not named:
        raise Problem(422, "among must be all, seen, unseen or a list of class names")
    return top_k, among
