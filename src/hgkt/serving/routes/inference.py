"""The Open Inference Protocol, version 2, with JSON tensors: for clients of KServe and Triton."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import msgspec
import numpy as np
from fastapi import APIRouter, Request, Response
from msgspec import Struct
from numpy.typing import NDArray

from hgkt._predictions import Question
from hgkt.estimators import METHODS
from hgkt.serving.edition import Edition
from hgkt.serving.problems import Problem
from hgkt.serving.ranking import Ranking
from hgkt.serving.routes import Service, bodies
from hgkt.serving.routes.bodies import JSON
from hgkt.serving.routes.predict import Asked, Predictor

VERSION = "1"
"""The one version of a model that a service has; its classes change, what it learned does not."""
INPUT = "features"
OUTPUTS = {
    "label": ("BYTES", 1),
    "seen": ("BOOL", 1),
    "score": ("FP64", 1),
    "top_labels": ("BYTES", 2),
    "top_scores": ("FP64", 2),
}
"""Data type and number of dimensions of what can be asked for."""
_NUMBERS = ("FP16", "FP32", "FP64")
_HARMLESS = frozenset({"priority", "timeout", "content_type", "headers", "binary_data_output"})


class TensorIn(Struct):
    """The tensor that came; its data is not decoded yet."""

    name: str
    shape: list[int]
    datatype: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class TensorWanted(Struct):
    """A tensor that is asked for."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(Struct):
    """What was asked."""

    inputs: list[TensorIn]
    id: str = ""
    parameters: dict[str, Any] = {}
    outputs: list[TensorWanted] = []


def build_router(service: Service, check_ready: Callable[[], Any]) -> APIRouter:
    """Return the routes under ``/v2``; `check_ready` raises a Problem where it is not ready."""
    router = APIRouter(prefix="/v2", tags=["inference protocol"])
    served, settings, predictor = service.served, service.settings, Predictor(service)
    own_name, n_features = settings.name(), served.base.n_features_in_

    def check_model(model: str, wanted: str) -> None:
        if model != own_name:
            raise Problem(404, f"there is no model {model[:80]!r}; this service has {own_name!r}")
        if wanted != VERSION:
            raise Problem(404, f"there is no version {wanted[:80]!r} of the model, only {VERSION}")

    def read(body: bytes) -> Asked:
        sent = bodies.decode_rows_body(body, InferRequest, n_features, settings.max_rows)
        question, names = asked_question(sent), wanted_outputs(sent)

        def write(edition: Edition, ranking: Ranking, _reasons: Any) -> dict[str, Any]:
            return {
                "model_name": own_name,
                "model_version": VERSION,
                "id": sent.id,
                "parameters": {"revision": edition.revision},
                "outputs": tensors(edition, ranking, names),
            }

        return Asked(tensor_rows(sent.inputs, n_features, settings.max_rows), question, write)

    @router.get("")
    async def server_metadata() -> dict[str, Any]:
        """Say what answers, and which extensions of the protocol it knows."""
        return {"name": "hgkt", "version": version("hgkt"), "extensions": []}

    @router.get("/health/live")
    async def live() -> dict[str, bool]:
        """Say that the process answers, as ``/health`` does."""
        return {"live": True}

    @router.get("/health/ready")
    async def ready() -> dict[str, bool]:
        """Say whether the service can predict, as ``/ready`` does."""
        check_ready()
        return {"ready": True}

    @router.get("/models/{model}/versions/{version}/ready", include_in_schema=False)
    @router.get("/models/{model}/ready")
    async def model_ready(model: str, version: str = VERSION) -> dict[str, Any]:
        """Say whether the model can predict."""
        check_model(model, version)
        check_ready()
        return {"name": model, "ready": True}

    @router.get("/models/{model}/versions/{version}", include_in_schema=False)
    @router.get("/models/{model}")
    async def model_metadata(model: str, version: str = VERSION) -> dict[str, Any]:
        """Say what the model reads and answers; -1 stands for any length."""
        check_model(model, version)
        outputs = [
            {"name": name, "datatype": kind, "shape": [-1] * n_dimensions}
            for name, (kind, n_dimensions) in OUTPUTS.items()
        ]
        return {
            "name": own_name,
            "versions": [VERSION],
            "platform": f"hgkt_{METHODS.name_of(type(served.base)) or type(served.base).__name__}",
            "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, n_features]}],
            "outputs": outputs,
        }

    @router.post("/models/{model}/versions/{version}/infer", include_in_schema=False)
    @router.post(
        "/models/{model}/infer",
        response_class=Response,
        responses={200: {"content": {JSON: {"schema": {"type": "object"}}}}},
        openapi_extra=bodies.json_body(InferRequest, inputs={"type": "array", "minItems": 1}),
    )
    async def infer(model: str, request: Request, version: str = VERSION) -> Response:
        """Classify the rows of the tensor ``features``.

        The request's parameters ``top_k`` and ``among`` mean what they do in ``/v1/predict``.
        """
        check_model(model, version)
        if "inference-header-content-length" in request.headers:
            raise Problem(415, "tensors are taken as JSON; binary tensors are not")
        # Clients of the protocol often name no type.
        bodies.media_type(request, JSON, bodies.OCTETS, "")
        service.queues.quick.check()
        return await predictor.answer_body(await bodies.read_parts(request), read)

    return router


def wanted_outputs(asked: InferRequest) -> list[str]:
    """Return the names of the tensors that are asked for."""
    if not asked.outputs:
        several = asked.parameters.get("top_k", 1) != 1
        return [name for name, (_, n_dimensions) in OUTPUTS.items() if n_dimensions == 1 or several]
    for output in asked.outputs:
        if output.name not in OUTPUTS:
            known = ", ".join(OUTPUTS)
            raise Problem(422, f"there is no output {output.name[:80]!r}; there are {known}")
        if "classification" in output.parameters:
            raise Problem(422, "the extension 'classification' is not known; use top_k")
        if output.parameters.get("binary_data"):
            raise Problem(422, "tensors are answered as JSON; binary tensors are not known")
    return [output.name for output in asked.outputs]


def asked_question(asked: InferRequest) -> Question:
    """Return the question that the parameters of a request hold."""
    own = {key: asked.parameters[key] for key in ("top_k", "among") if key in asked.parameters}
    strange = sorted(asked.parameters.keys() - own.keys() - _HARMLESS)
    if strange:
        raise Problem(422, f"the parameter {strange[0][:80]!r} is not known; top_k and among are")
    try:
        return msgspec.convert(own, Question)
    except msgspec.ValidationError as error:
        raise bodies.wrong_value(error, "parameters.") from None


def tensor_rows(inputs: list[TensorIn], n_features: int, max_rows: int) -> NDArray[np.float32]:
    """Return the feature rows (n, n_features) of a request, nested or flat."""
    if len(inputs) != 1 or inputs[0].name != INPUT:
        names = ", ".join(repr(tensor.name[:80]) for tensor in inputs[:5])
        raise Problem(422, f"one input called {INPUT!r} is expected; got {names or 'none'}")
    (tensor,) = inputs
    if tensor.datatype not in _NUMBERS:
        known = ", ".join(_NUMBERS)
        raise Problem(422, f"{INPUT} is {tensor.datatype[:80]!r}; one of {known} is expected")
    if len(tensor.shape) != 2 or tensor.shape[0] < 1 or tensor.shape[1] != n_features:
        raise Problem(
            422, f"{INPUT} has shape {str(tensor.shape)[:80]}; [n, {n_features}] is expected"
        )
    if tensor.shape[0] > max_rows:
        raise Problem(
            413, f"{INPUT} has {tensor.shape[0]} rows; at most {max_rows} are accepted at once"
        )
    if isinstance(tensor.data, msgspec.UnsetType):
        raise Problem(422, f"{INPUT} has no data")
    octets = bytes(tensor.data).strip()
    if octets.count(b"[") > 1:
        rows = bodies.decode(octets, list[msgspec.Raw], INPUT)
        X = bodies.json_rows(rows, n_features, max_rows)
    else:
        numbers = bodies.decode(octets, list[float], INPUT)
        if len(numbers) != tensor.shape[0] * n_features:
            raise Problem(
                422, f"{INPUT} has shape {tensor.shape}, but data of {len(numbers)} numbers"
            )
        with np.errstate(over="ignore"):
            X = np.array(numbers).astype(np.float32).reshape(-1, n_features)
    if len(X) != tensor.shape[0]:
        raise Problem(422, f"{INPUT} has shape {tensor.shape}, but data of {len(X)} rows")
    return X


def tensors(edition: Edition, ranking: Ranking, names: list[str]) -> list[dict[str, Any]]:
    """Return a ranking as tensors, those of `names`."""
    n_rows, k = ranking.columns.shape
    labels = [edition.names[column] for column in ranking.columns.ravel().tolist()]
    scores = ranking.scores.ravel().tolist()
    values = {
        "label": labels[::k],
        "seen": edition.seen[ranking.columns[:, 0]].tolist(),
        "score": scores[::k],
        "top_labels": labels,
        "top_scores": scores,
    }
    shapes = {1: [n_rows], 2: [n_rows, k]}
    return [
        {
            "name": name,
            "datatype": OUTPUTS[name][0],
            "shape": shapes[OUTPUTS[name][1]],
            "data": values[name],
        }
        for name in names
    ]
