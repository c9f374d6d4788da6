"""The Open Inference Protocol, version 2, with JSON tensors: for clients of KServe and Triton."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from fastapi import APIRouter, Request, Response
from msgspec import Meta, Struct
from numpy.typing import NDArray

from hgkt._predictions import Question
from hgkt.estimators import METHODS
from hgkt.serving.edition import Edition
from hgkt.serving.problems import Problem
from hgkt.serving.ranking import Ranking
from hgkt.serving.routes import Service, bodies
from hgkt.serving.routes.bodies import JSON
from hgkt.serving.routes.predict import Asked, Predictor

OUTPUTS = {
    "label": ("BYTES", 1),
    "seen": ("BOOL", 1),
    "score": ("FP64", 1),
    "top_labels": ("BYTES", 2),
    "top_scores": ("FP64", 2),
}
"""Data type and number of dimensions of what can be asked for."""


class TensorIn(Struct):
    """The tensor that came; its data is not decoded yet."""

    name: Literal["features"]
    shape: tuple[Annotated[int, Meta(ge=1)], int]
    datatype: Literal["FP16", "FP32", "FP64"]
    data: msgspec.Raw


class TensorWanted(Struct):
    """A tensor that is asked for."""

    name: Literal["label", "seen", "score", "top_labels", "top_scores"]
    parameters: dict[str, Any] = {}


class InferRequest(Struct):
    """What was asked; of its parameters ``top_k`` and ``among`` are read."""

    inputs: Annotated[list[TensorIn], Meta(min_length=1, max_length=1)]
    id: str = ""
    parameters: dict[str, Any] = {}
    outputs: list[TensorWanted] = []

    def question(self) -> Question:
        """Return what the parameters ask."""
        own = {key: self.parameters[key] for key in ("top_k", "among") if key in self.parameters}
        try:
            return msgspec.convert(own, Question)
        except msgspec.ValidationError as error:
            raise bodies.wrong_value(error, "parameters.") from None

    def names(self) -> list[str]:
        """Return the names of the tensors that are asked for."""
        for output in self.outputs:
            if "classification" in output.parameters:
                raise Problem(422, "the extension 'classification' is not known; use top_k")
            if output.parameters.get("binary_data"):
                raise Problem(422, "tensors are answered as JSON; binary tensors are not known")
        several = self.parameters.get("top_k", 1) != 1
        wanted: list[str] = [output.name for output in self.outputs]
        return wanted or [name for name, (_, n_axes) in OUTPUTS.items() if n_axes == 1 or several]


def build_router(service: Service, check_ready: Callable[[], Any]) -> APIRouter:
    """Return the routes under ``/v2``; `check_ready` raises a Problem where it is not ready."""
    router = APIRouter(prefix="/v2", tags=["inference protocol"])
    served, settings, predictor = service.served, service.settings, Predictor(service)
    own_name, n_features = settings.name(), served.base.n_features_in_

    def check_model(model: str) -> None:
        if model != own_name:
            raise Problem(404, f"there is no model {model[:80]!r}; this service has {own_name!r}")

    def read(body: bytes) -> Asked:
        sent = bodies.decode_rows_body(body, InferRequest, n_features, settings.max_rows, flat=True)
        names = sent.names()

        def write(edition: Edition, ranking: Ranking, _reasons: Any) -> dict[str, Any]:
            return {
                "model_name": own_name,
                "id": sent.id,
                "parameters": {"revision": edition.revision},
                "outputs": tensors(edition, ranking, names),
            }

        rows = tensor_rows(sent.inputs[0], n_features, settings.max_rows)
        return Asked(rows, sent.question(), write)

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

    @router.get("/models/{model}/ready")
    async def model_ready(model: str) -> dict[str, Any]:
        """Say whether the model can predict."""
        check_model(model)
        check_ready()
        return {"name": model, "ready": True}

    @router.get("/models/{model}")
    async def model_metadata(model: str) -> dict[str, Any]:
        """Say what the model reads and answers; -1 stands for any length."""
        check_model(model)
        return {
            "name": own_name,
            "platform": f"hgkt_{METHODS.name_of(type(served.base)) or type(served.base).__name__}",
            "inputs": [{"name": "features", "datatype": "FP32", "shape": [-1, n_features]}],
            "outputs": [
                {"name": name, "datatype": kind, "shape": [-1] * n_dimensions}
                for name, (kind, n_dimensions) in OUTPUTS.items()
            ],
        }

    @router.post(
        "/models/{model}/infer",
        responses={200: {"content": {JSON: {"schema": {"type": "object"}}}}},
        openapi_extra=bodies.json_body(InferRequest),
    )
    async def infer(model: str, request: Request) -> Response:
        """Classify the rows of the tensor ``features``.

        The request's parameters ``top_k`` and ``among`` mean what they do in ``/v1/predict``.
        """
        check_model(model)
        if "inference-header-content-length" in request.headers:
            raise Problem(415, "tensors are taken as JSON; binary tensors are not")
        # Clients of the protocol often name no type.
        bodies.media_type(request, JSON, bodies.OCTETS, "")
        return await predictor.answer_body(request, read)

    return router


def tensor_rows(tensor: TensorIn, n_features: int, max_rows: int) -> NDArray[np.float32]:
    """Return the feature rows (n, n_features) of a tensor, nested or flat."""
    n_rows, width = tensor.shape
    if width != n_features:
        raise Problem(422, f"features has shape {[*tensor.shape]}; [n, {n_features}] is expected")
    bodies.refuse_many(n_rows, max_rows, "rows")
    octets = bytes(tensor.data).strip()
    if octets.count(b"[") > 1:
        X = bodies.json_rows(
            bodies.decode(octets, list[msgspec.Raw], "features"), n_features, max_rows
        )
    else:
        with np.errstate(over="ignore"):
            X = np.array(bodies.decode(octets, list[float], "features")).astype(np.float32)
    if X.size != n_rows * n_features:
        raise Problem(422, f"features has shape {[*tensor.shape]}, but data of {X.size} numbers")
    return X.reshape(n_rows, n_features)


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
    found = []
    for name in names:
        kind, n_axes = OUTPUTS[name]
        shape = [n_rows, k][:n_axes]
        found.append({"name": name, "datatype": kind, "shape": shape, "data": values[name]})
    return found
