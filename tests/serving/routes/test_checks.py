"""`POST /v1/classes/check`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hgkt.baselines.eszsl import ESZSLClassifier
from hgkt.estimators import HGKTClassifier
from hgkt.serving.problems import install_problems
from hgkt.serving.routes import Service
from hgkt.serving.routes.classes import build_router
from hgkt.serving.settings import ServiceSettings


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path / 'classes.sqlite'}"


@pytest.fixture
def make_client(make_served):
    def call(model=None):
        settings = ServiceSettings(
            Path("model"), api_keys=("a key for the tests",), max_classes=3, max_checked=3
        )
        app = FastAPI()
        install_problems(app)
        app.include_router(build_router(Service.of(make_served(model), settings)))
        return TestClient(app, raise_server_exceptions=False)  # without a key: nothing is changed

    return call


@pytest.fixture
def six(digits):
    return digits.attributes_of(digits.unseen_classes)["six"].astype(float).tolist()


@pytest.fixture
def fitted(digits):
    X, y = digits.rows("train")
    model = HGKTClassifier(device="cpu")
    return model.fit(X, y, digits.attributes_of(digits.seen_classes))


def check(client, *classes):
    return client.post("/v1/classes/check", json={"classes": list(classes)})


def test_check_answers_what_the_model_says_and_changes_nothing(make_client, fitted, six):
    client = make_client(fitted)
    document = check(client, {"name": "six", "vector": six}).json()
    (found,) = document["classes"]
    expected = fitted.check_class(six, "six")
    assert document["revision"] == 0
    assert found["sentences"] == expected.sentences()
    assert found["accuracy"] == pytest.approx(expected.accuracy)
    assert [rival["label"] for rival in found["rivals"]] == [r.label for r in expected.rivals]
    again = check(client, {"name": "six", "vector": six}).json()
    assert again == document


def test_a_check_and_an_add_say_what_the_class_costs_the_learned_ones(make_client, fitted, six):
    client = make_client(fitted)
    (found,) = check(client, {"name": "six", "vector": six}).json()["classes"]
    expected = fitted.costs(0, 1)
    assert found["costs"]["learned_before"] == pytest.approx(expected.learned_before)
    assert found["costs"]["learned_after"] == pytest.approx(expected.learned_after)
    answer = client.post(
        "/v1/classes",
        json={"classes": [{"name": "six", "vector": six}]},
        headers={"Authorization": "Bearer a key for the tests"},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["costs"] == {**asdict(expected), "sentence": expected.sentence()}
    (found,) = check(client, {"name": "another", "vector": six[::-1]}).json()["classes"]
    assert found["costs"]["n_after"] == 2


def test_check_takes_several_classes_and_attributes_by_name(make_client, digits_model, six):
    names = digits_model.about_["attribute_names"]
    classes = [
        {"name": "six", "attributes": dict(zip(names, six, strict=True))},
        {"name": "nothing", "vector": [0.0] * len(six)},
    ]
    first, second = check(make_client(digits_model), *classes).json()["classes"]
    assert first["attributes"][0]["name"] in names
    assert second["empty"]
    assert second["rivals"] == []


def test_labels_that_are_numbers_are_texts(make_client, digits, six):
    X, y = digits.rows("train")
    numbers = {name: number for number, name in enumerate(digits.class_names)}
    table = {numbers[n]: row for n, row in digits.attributes_of(digits.seen_classes).items()}
    model = ESZSLClassifier().fit(X, [numbers[name] for name in y], table)
    (found,) = check(make_client(model), {"name": "6", "vector": six}).json()["classes"]
    assert found["name"] == "6"
    assert found["rivals"][0]["label"] in {str(number) for number in table}
    assert found["accuracy"] is None
    assert "HGKTClassifier can" in found["reasons"][0]


@pytest.mark.parametrize(
    ("classes", "status"),
    [
        ([{"name": "one", "vector": [0.5] * 20}], 409),
        ([{"name": "new", "vector": [0.5] * 3}], 422),
        ([{"name": "new", "vector": [1e308] * 20}], 200),
        ([{"name": "new"}], 422),
        ([{"name": f"new {i}", "vector": [0.5] * 20} for i in range(4)], 413),
    ],
)
def test_what_could_not_be_added_is_refused(make_client, digits_model, classes, status):
    answer = check(make_client(digits_model), *classes)
    assert answer.status_code == status, answer.text
