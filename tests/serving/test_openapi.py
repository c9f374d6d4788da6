"""The API's description, compared with the one that was agreed on."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from hgkt.estimators import HGKTClassifier
from hgkt.serving import ServiceSettings, create_app

AGREED = Path(__file__).with_name("openapi.json")
COMMAND = "HGKT_WRITE_OPENAPI=1 python -m pytest tests/serving/test_openapi.py"


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    X = np.random.default_rng(0).random((8, 3))
    model = HGKTClassifier(device="cpu").fit(X, ["a", "b"] * 4, {"a": [0.0, 1.0], "b": [1.0, 0.0]})
    folder = model.save(tmp_path_factory.mktemp("api") / "model")
    settings = ServiceSettings(folder, api_keys=("a key of some length",))
    with TestClient(create_app(settings)) as client:
        return client.get("/openapi.json").json()


def test_openapi_document_is_the_agreed_one(document):
    document["info"]["version"] = "any"
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    if os.environ.get("HGKT_WRITE_OPENAPI"):
        AGREED.write_text(text)
    assert text == AGREED.read_text(), (
        f"the API has changed; where that is meant, write the document anew with: {COMMAND}"
    )


def test_openapi_errors_are_problems(document):
    for item in document["paths"].values():
        for operation in item.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"]


def test_openapi_refers_to_nothing_that_it_lacks(document):
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert "ProblemModel" in references
    assert references <= document["components"]["schemas"].keys()


def test_openapi_predict_takes_three_kinds_of_bodies(document):
    content = document["paths"]["/v1/predict"]["post"]["requestBody"]["content"]
    assert list(content) == [
        "application/json",
        "application/octet-stream",
        "application/vnd.apache.arrow.stream",
    ]
