"""The API's description, compared with the one that was agreed on."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from fastapi.testclient import TestClient

from hgkt.estimators import HGKTClassifier
from hgkt.serving import ServiceSettings, create_app

COMMAND = "HGKT_WRITE_OPENAPI=1 python -m pytest tests/serving/test_openapi.py"


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    X = np.random.default_rng(0).random((8, 3))
    model = HGKTClassifier(device="cpu").fit(X, ["a", "b"] * 4, {"a": [0.0, 1.0], "b": [1.0, 0.0]})
    folder = model.save(tmp_path_factory.mktemp("api") / "model")
    settings = ServiceSettings(folder, api_keys=("a key of some length",))
    with TestClient(create_app(settings)) as client:
        return client.get("/openapi.json").json()


def test_openapi_document_has_the_agreed_endpoints(document):
    found = {(verb, path) for path, item in document["paths"].items() for verb in item}
    assert found == {
        ("get", "/health"),
        ("get", "/ready"),
        ("get", "/metrics"),
        ("get", "/v1/model"),
        ("post", "/v1/predict/text"),
        ("get", "/v1/map"),
        ("get", "/v1/samples"),
        ("get", "/v1/samples/{sample_id}"),
        ("get", "/v1/classes"),
        ("post", "/v1/classes"),
        ("post", "/v1/classes/check"),
        ("get", "/v1/classes/{name}"),
        ("patch", "/v1/classes/{name}"),
        ("delete", "/v1/classes/{name}"),
        ("post", "/v1/classes/{name}/examples"),
        ("get", "/v1/events"),
        ("post", "/v1/rollback"),
        ("post", "/v1/predict"),
        ("post", "/v1/predict/image"),
        ("get", "/v2"),
        ("get", "/v2/health/live"),
        ("get", "/v2/health/ready"),
        ("get", "/v2/models/{model}"),
        ("get", "/v2/models/{model}/ready"),
        ("post", "/v2/models/{model}/infer"),
    }


def test_openapi_errors_are_problems(document):
    for item in document["paths"].values():
        for operation in item.values():
            errors = {s: a for s, a in operation["responses"].items() if not s.startswith("2")}
            assert list(errors) == ["default"]
            assert list(errors["default"]["content"]) == ["application/problem+json"]


def test_openapi_refers_to_nothing_that_it_lacks(document):
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert "ClassesChanged" in references
    assert references <= document["components"]["schemas"].keys()


def test_openapi_predict_takes_two_kinds_of_bodies(document):
    content = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
    assert list(content) == [
        "application/json",
        "application/octet-stream",
    ]
