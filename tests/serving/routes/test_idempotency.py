"""Requests that are sent again: one change, one answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hgkt.serving import database as db
from hgkt.serving.events import utc_now
from hgkt.serving.problems import install_problems
from hgkt.serving.registry import KEPT
from hgkt.serving.routes import Service
from hgkt.serving.routes.classes import build_router
from hgkt.serving.settings import ServiceSettings


@pytest.fixture
def make_client(make_served):
    """Make clients, each of a worker of its own on the same database."""

    def call():
        app = FastAPI()
        install_problems(app)
        service = Service.of(make_served(), ServiceSettings(Path("model")))
        app.include_router(build_router(service))
        app.state.metrics = service.metrics
        return TestClient(app, raise_server_exceptions=False)

    return call


@pytest.fixture
def body(digits):
    table = digits.attributes_of(digits.unseen_classes)
    return {"classes": [{"name": k, "vector": v.astype(float).tolist()} for k, v in table.items()]}


def add(client, body, key="first key"):
    return client.post("/v1/classes", json=body, headers={"Idempotency-Key": key.replace(" ", "-")})


def remove(client, name, key):
    return client.delete(f"/v1/classes/{name}", headers={"Idempotency-Key": key})


def test_a_request_sent_again_gets_the_first_answer_and_changes_nothing(make_client, body):
    client = make_client()
    first = add(client, body)
    assert first.status_code == 201, first.text
    document = first.json()
    assert document == {
        "revision": 1,
        "names": ["two", "six"],
        "n_classes": 11,  # eight seen, one of the folder, and these
        "warnings": document["warnings"],
        "n_examples": 0,
        "costs": None,
    }
    removed = remove(client, "six", "k2").json()
    assert (removed["revision"], removed["names"], removed["n_classes"]) == (2, ["six"], 10)
    again = add(client, body)
    assert (again.status_code, again.content) == (201, first.content)
    other = make_client()  # another worker, or one that was started again
    assert add(other, body).content == first.content
    assert remove(other, "six", "k2").json()["n_classes"] == 10
    listed = other.get("/v1/classes").json()
    assert (listed["revision"], listed["n_classes"]) == (2, 10)
    text = client.app.state.metrics.exposition(10, 2).decode()
    assert "hgkt_classes_added_total 2.0" in text
    assert "hgkt_classes_removed_total 1.0" in text


def test_keys_of_other_requests_are_refused(make_client, body):
    client = make_client()
    one = {"classes": body["classes"][:1]}
    assert add(client, one).status_code == 201
    answer = add(client, body)
    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "the idempotency key 'first-key' was sent before with another request; every request "
        "needs a key of its own"
    )
    assert remove(client, "two", "first-key").status_code == 422
    for key in ("", "x" * 201, "a key", "ä"):
        headers = {"Idempotency-Key": key.encode()}
        assert client.post("/v1/classes", json=body, headers=headers).status_code == 422
    assert client.get("/v1/classes").json()["revision"] == 1


def test_what_failed_is_tried_again(make_client, body):
    client = make_client()
    assert remove(client, "two", "k").status_code == 404
    assert add(client, body, "k1").status_code == 201
    assert add(client, body, "k2").status_code == 409
    assert remove(client, "two", "k").status_code == 200
    assert remove(client, "two", "k").status_code == 200
    assert remove(client, "two", "k3").status_code == 404


def test_of_equal_requests_at_the_same_time_one_changes_and_all_are_answered(make_client, body):
    clients = [make_client() for _ in range(3)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: add(clients[i % 3], body), range(12)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert clients[0].get("/v1/classes").json()["revision"] == 1


def test_keys_are_forgotten_after_a_day(make_client, body, open_registry):
    client = make_client()
    assert add(client, body).status_code == 201
    with open_registry().database.writing() as connection:
        old = utc_now(2 * KEPT)
        model_id = connection.exec_driver_sql("SELECT model_id FROM hgkt_models").scalar()
        row = {"model_id": model_id, "key": "old", "fingerprint": "", "receipt": ""}
        row |= {"created_at": old}
        connection.execute(db.requests.insert(), [row])
    assert remove(client, "two", "new").status_code == 200
    with open_registry().database.reading() as connection:
        keys = connection.exec_driver_sql("SELECT key FROM hgkt_requests").scalars().all()
    assert sorted(keys) == ["first-key", "new"]
