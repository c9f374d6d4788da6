"""Classes that grow, are edited and renamed, and the way back, over HTTP."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from fastapi.testclient import TestClient

from hgkt.baselines.eszsl import ESZSLClassifier
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.auth import key_id

KEYS = ("a key of some length", "another key of ours")


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    """The model of the other tests, which computes in float64: differences would show."""
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X.astype(np.float64), y, digits.attributes_of(digits.seen_classes))
    names = list(digits.attribute_names)
    model.add_classes({"blot": np.full(len(names), 0.5)})
    return model.save(tmp_path_factory.mktemp("exact") / "model", attribute_names=names)


@pytest.fixture
def make_client(folder, tmp_path):
    """Make clients, each of a worker of its own on the same database."""
    with contextlib.ExitStack() as stack:

        def call(**options):
            url = f"sqlite:///{tmp_path}/classes.sqlite"
            app = create_app(ServiceSettings(folder, database=url, **options))
            client = TestClient(app, raise_server_exceptions=False)
            return stack.enter_context(client)

        yield call


@pytest.fixture
def client(make_client, vector):
    client = make_client()
    add(client, "six", vector)
    return client


@pytest.fixture
def vector(digits):
    return digits.attributes_of(digits.unseen_classes)["six"].astype(float).tolist()


@pytest.fixture
def sixes(digits):
    X, y = digits.rows("test_unseen")
    return X[y == "six"].astype(np.float32)


def add(client, name, vector, **more):
    body = {"classes": [{"name": name, "vector": vector}], **more}
    answer = client.post("/v1/classes", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def grow(client, name, rows, key=None, **more):
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"features": rows.tolist(), **more}
    return client.post(f"/v1/classes/{name}/examples", json=body, headers=headers)


def scores(client, X, **more):
    """Return the score of every class for each row, by name."""
    body = {"features": X.tolist(), "top_k": 1000, **more}
    answer = client.post("/v1/predict", json=body)
    assert answer.status_code == 200, answer.text
    return [
        {item["label"]: item["score"] for item in row["top"]}
        for row in answer.json()["predictions"]
    ]


def expected(model, X):
    found = model.score_classes(X)
    return [dict(zip(model.classes_.tolist(), row, strict=True)) for row in found.tolist()]


def assert_same(found, wanted, tolerance=1e-10):
    assert [set(row) for row in found] == [set(row) for row in wanted]
    for one, other in zip(found, wanted, strict=True):
        for name, score in one.items():
            assert abs(score - other[name]) < tolerance


# ---------------------------------------------------------------------- grow
def test_growing_gives_the_model_of_partial_fit(client, make_client, folder, vector, sixes):
    model = load_model(folder).add_classes({"six": vector})
    ones = sixes[10:12] * 0.5  # of a class that the model has learned
    for number, (rows, label, name) in enumerate(
        [(sixes[:3], "six", "six"), (sixes[3:4], "six", "six"), (ones, "one", "one")]
    ):
        answer = grow(client, name, rows)
        assert answer.status_code == 200, answer.text
        model.partial_fit(rows, [label] * len(rows))
        assert answer.json()["revision"] == number + 2
    found = answer.json()
    assert (found["revision"], found["names"], found["n_classes"]) == (4, ["one"], 10)
    assert found["n_examples"] == 2
    assert_same(scores(client, sixes[20:30]), expected(model, sixes[20:30]))
    # A process that starts later rebuilds the same model from the sums.
    later = make_client()
    assert_same(scores(later, sixes[20:30]), expected(model, sixes[20:30]))
    six = later.get("/v1/classes/six").json()
    assert (six["kind"], six["seen"], six["n_examples"]) == ("grown", True, 4)
    one = later.get("/v1/classes/one").json()
    assert (one["kind"], one["n_examples"]) == ("learned", 2)
    assert later.get("/v1/classes/blot").json()["kind"] == "described"
    listed = later.get("/v1/classes?kind=added").json()["classes"]
    assert sorted(item["name"] for item in listed) == ["blot", "six"]
    assert "hgkt_examples_total 6.0" in client.get("/metrics").text


def test_rows_come_as_json_and_octets(client, sixes):
    path = "/v1/classes/six/examples"
    headers = {"Content-Type": "application/octet-stream"}
    first = client.post(f"{path}?reason=by%20octets", content=sixes[:2].tobytes(), headers=headers)
    second = client.post(path, content=sixes[2:5].tobytes(), headers=headers)
    third = grow(client, "six", sixes[5:6], reason="one more ✓")
    assert [answer.json()["n_examples"] for answer in (first, second, third)] == [2, 5, 6]
    log = client.get("/v1/events?name=six&after=1").json()["events"]
    assert [line["reason"] for line in log] == ["by octets", None, "one more ✓"]
    assert [(line["before"]["n_examples"], line["after"]["n_examples"]) for line in log] == [
        (0, 2),
        (2, 5),
        (5, 6),
    ]


def test_examples_sent_again_with_the_same_key_count_once(client, make_client, sixes):
    first = grow(client, "six", sixes[:3], "one-key").json()
    before = scores(client, sixes[20:22])
    for worker in (client, make_client()):
        assert grow(worker, "six", sixes[:3], "one-key").json() == first
        other = grow(worker, "six", sixes[:2], "one-key")
        assert other.status_code == 422
        assert "was sent before with another request" in other.json()["detail"]
    assert scores(client, sixes[20:22]) == before
    assert client.get("/v1/classes/six").json()["n_examples"] == 3


def test_examples_that_cannot_be_taken_change_nothing(client, folder, sixes):
    bad = {"Content-Type": "text/plain"}
    images = {"files": [("images", ("a.png", b"no image"))]}
    path = "/v1/classes/six/examples"
    for answer, status, words in (
        (grow(client, "nobody", sixes[:1]), 404, "there is no class 'nobody'"),
        (grow(client, "six", sixes[:1, :5]), 422, "64 are expected"),
        (grow(client, "six", sixes[:0]), 422, "features: Expected `array` of length >= 1"),
        (client.post(path, content=b"x", headers=bad), 415, "or multipart/form-data"),
        (client.post(path, **images), 409, "reads feature vectors, not images"),
        (client.post(path, json={"features": [[1] * 64], "top_k": 2}), 422, "unknown field"),
        (grow(client, "six", sixes[:1], reason="x" * 1001), 422, "reason"),
    ):
        assert answer.status_code == status, answer.text
        assert words in answer.json()["detail"]
    assert client.get("/v1/classes").json()["revision"] == 1


def test_a_method_that_cannot_grow_says_so(digits, tmp_path):
    X, y = digits.rows("train")
    model = ESZSLClassifier().fit(X, y, digits.attributes_of(digits.seen_classes))
    settings = ServiceSettings(model.save(tmp_path / "model"))
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        answer = grow(client, "one", X[:1])
        assert answer.status_code == 409
        assert "ESZSLClassifier, cannot learn from more examples" in answer.json()["detail"]
        assert not client.get("/v1/model").json()["can_grow"]


def test_a_class_whose_name_has_slashes_grows(client, vector, sixes):
    add(client, "a/b/examples", vector)
    assert grow(client, "a/b/examples", sixes[:1]).json()["names"] == ["a/b/examples"]
    assert client.get("/v1/classes/a%2Fb%2Fexamples").json()["n_examples"] == 1


# ---------------------------------------------------------------------- edit and rename
def test_a_class_is_edited_and_renamed(client, make_client, folder, vector, sixes):
    grow(client, "six", sixes[:2])
    other = [value / 2 for value in vector]
    model = load_model(folder).add_classes({"sechs": other})
    model.partial_fit(sixes[:2], ["sechs"] * 2)
    answer = client.patch("/v1/classes/six", json={"name": "sechs", "vector": other})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["revision"], document["names"], document["n_classes"]) == (3, ["sechs"], 10)
    for worker in (client, make_client()):
        assert worker.get("/v1/classes/six").status_code == 404
        assert worker.get("/v1/classes/sechs").json()["vector"] == other
        assert_same(scores(worker, sixes[5:9]), expected(model, sixes[5:9]))
    named = client.patch("/v1/classes/sechs", json={"attributes": {"segment a": 1.0}})
    assert named.status_code == 200
    assert client.get("/v1/classes/sechs").json()["attributes"]["segment a"] == 1.0
    back = client.patch("/v1/classes/sechs", json={"name": "six"}, headers={"Idempotency-Key": "k"})
    again = client.patch(
        "/v1/classes/sechs", json={"name": "six"}, headers={"Idempotency-Key": "k"}
    )
    assert back.json() == again.json()
    assert back.json()["revision"] == 5


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("one", {"name": "eins"}, 409, "was learned from instances and cannot be edited"),
        ("nobody", {"name": "other"}, 404, "there is no class 'nobody'"),
        ("six", {"name": "one"}, 409, "class 'one' is there already"),
        ("six", {"name": "ONE"}, 422, "one"),
        ("six", {}, 422, "one of name, vector, attributes and text is expected"),
        ("six", {"name": "a\n"}, 422, "name"),
        ("six", {"vector": [1.0]}, 422, "20"),
        ("six", {"vector": [1e308] * 20, "strange": 1}, 422, "unknown field"),
    ],
)
def test_an_edit_that_cannot_be_is_told(client, name, body, status, words):
    answer = client.patch(f"/v1/classes/{name}", json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert client.get("/v1/classes").json()["revision"] == 1


def test_a_grown_class_can_be_removed(client, make_client, folder, sixes):
    before = scores(client, sixes[:4])
    grow(client, "blot", sixes[:2])
    removed = client.delete("/v1/classes/six?reason=not%20needed").json()
    assert removed["n_classes"] == 9
    assert client.delete("/v1/classes/blot").status_code == 200
    plain = load_model(folder).remove_classes(["blot"])
    assert_same(scores(client, sixes[:4]), expected(plain, sixes[:4]))
    client.post("/v1/rollback", json={"revision": 1})
    assert_same(scores(make_client(), sixes[:4]), before)


# ---------------------------------------------------------------------- history
def test_the_past_is_listed_asked_and_returned_to(client, make_client, vector, sixes):
    X = sixes[10:14]
    seen = {1: scores(client, X)}
    grow(client, "six", sixes[:5])
    seen[2] = scores(client, X)
    client.patch("/v1/classes/six", json={"name": "sechs"})
    seen[3] = scores(client, X)
    client.delete("/v1/classes/sechs")
    seen[4] = scores(client, X)
    worker = make_client()
    for revision, then in seen.items():
        assert_same(scores(worker, X, revision=revision), then)
        assert_same(scores(client, X, revision=revision), then)
    octets = {"Content-Type": "application/octet-stream"}
    answer = worker.post("/v1/predict?revision=2", content=X.tobytes(), headers=octets)
    assert answer.json()["revision"] == 2
    back = client.post("/v1/rollback", json={"revision": 2, "reason": "too early"})
    found = back.json()
    assert (found["revision"], found["names"], found["n_classes"]) == (5, ["six"], 10)
    for each in (client, worker):
        each.get("/v1/classes/six")
        assert_same(scores(each, X, revision=5), seen[2])
    log = worker.get("/v1/events?after=4").json()
    assert log["revision"] == 5
    head, line = log["events"]
    assert (head["kind"], head["target"], head["reason"]) == ("rollback", 2, "too early")
    assert (line["before"], line["after"]["name"]) == (None, "six")
    assert line["after"]["n_examples"] == 5
    whole = worker.get("/v1/events").json()["events"]
    assert [e["kind"] for e in whole] == [
        "add",
        "grow",
        "rename",
        "remove",
        "rollback",
        "rollback",
    ]
    assert whole[2]["before"]["name"] == "six"
    assert whole[2]["after"]["name"] == "sechs"
    assert whole[3]["before"]["vector"] == vector


def test_changes_need_a_key_and_tell_which(make_client, vector, sixes):
    client = make_client(api_keys=KEYS)
    body = json.dumps({"features": sixes[:1].tolist()})
    as_json = {"Content-Type": "application/json"}
    for method, path in (
        ("POST", "/v1/classes/one/examples"),
        ("PATCH", "/v1/classes/blot"),
        ("POST", "/v1/rollback"),
    ):
        assert client.request(method, path, content=body, headers=as_json).status_code == 401
    for key in KEYS:
        client.headers["X-API-Key"] = key
        grow(client, "blot", sixes[:1])
    log = client.get("/v1/events").json()["events"]
    assert [line["who"] for line in log] == [key_id(key) for key in KEYS]
    assert not any(key in json.dumps(log) for key in KEYS)
