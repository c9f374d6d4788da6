from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from hgkt.baselines.eszsl import ESZSLClassifier
from hgkt.serving.class_facts import named_attributes
from hgkt.serving.middleware import BodyLimits
from hgkt.serving.problems import MEDIA_TYPE, Problem, install_problems
from hgkt.serving.routes import Service
from hgkt.serving.routes.bodies import decode
from hgkt.serving.routes.classes import NewClasses, build_router
from hgkt.serving.settings import ServiceSettings

KEY = "a key for the tests"
HEADERS = {"X-API-Key": KEY}


@pytest.fixture
def database(tmp_path):
    """These routes are tested on SQLite; the registry itself is on both."""
    return f"sqlite:///{tmp_path / 'classes.sqlite'}"


@pytest.fixture
def make_client(make_served):
    def call(model=None, **changes):
        settings = ServiceSettings(
            Path("model"), api_keys=(KEY,), max_classes=3, max_class_bytes=100_000, **changes
        )
        app = FastAPI()
        install_problems(app)
        app.include_router(build_router(Service.of(make_served(model), settings)))
        app.add_middleware(BodyLimits, settings=settings)
        return TestClient(app, headers=HEADERS, raise_server_exceptions=False)

    return call


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def vectors(digits):
    table = digits.attributes_of(digits.unseen_classes)
    return {name: vector.astype(float).tolist() for name, vector in table.items()}


def add(client, *classes):
    return client.post("/v1/classes", json={"classes": list(classes)})


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    assert answer.json()["status"] == status
    return answer.json()["detail"]


# ---------------------------------------------------------------------- reading
def test_list_shows_classes_in_the_models_order(client, digits, digits_model, vectors):
    assert add(client, {"name": "two", "vector": vectors["two"]}).status_code == 201
    document = client.get("/v1/classes").json()
    model_order = [*digits_model.seen_classes_, *digits_model.unseen_classes_, "two"]
    assert (document["revision"], document["n_classes"], document["n_matching"]) == (1, 10, 10)
    assert [c["name"] for c in document["classes"]] == model_order
    assert [c["seen"] for c in document["classes"]] == [True] * 8 + [False] * 2
    last = document["classes"][-1]
    assert last["added_at"].startswith("20")
    assert last["text"] is None
    assert document["classes"][0]["added_at"] is None


def test_classes_come_with_the_newest_first(client, vectors):
    for name in ("two", "six"):
        add(client, {"name": name, "vector": vectors[name]}).raise_for_status()
    marks = {"dash": 0.1, "dot": 0.9}
    add(client, *({"name": name, "vector": [v] + [0.2] * 19} for name, v in marks.items()))
    usual = [item["name"] for item in client.get("/v1/classes").json()["classes"]]
    newest = client.get("/v1/classes?newest_first=true").json()["classes"]
    # What came with the model folder, "blot", is older than what came since.
    expected = ["dot", "dash", "six", "two", "blot", *usual[:8]]
    assert [item["name"] for item in newest] == expected
    page = client.get("/v1/classes?newest_first=true&kind=added&offset=1&limit=2").json()
    assert [item["name"] for item in page["classes"]] == expected[1:3]


def test_list_filters_and_pages(client, digits_model):
    seen = digits_model.seen_classes_.tolist()

    def names(**query):
        document = client.get("/v1/classes", params=query).json()
        return [c["name"] for c in document["classes"]], document["n_matching"]

    assert names(kind="seen") == (seen, 8)
    assert names(kind="added") == (["blot"], 1)
    with_e = [name for name in seen if "e" in name]
    assert names(query="E") == (with_e, len(with_e))
    assert names(query="E", offset=1, limit=2) == (with_e[1:3], len(with_e))
    assert names(query="E", kind="added") == ([], 0)
    assert names(offset=1000) == ([], 9)
    for bad in ({"kind": "some"}, {"limit": 0}, {"limit": 1001}, {"offset": -1}, {"offset": "x"}):
        assert next(iter(bad)) in problem(client.get("/v1/classes", params=bad), 422)


def test_detail_shows_attributes_sources_and_relatives(client, digits, digits_model, vectors):
    add(client, {"name": "six", "vector": vectors["six"]})
    detail = client.get("/v1/classes/six").json()
    assert detail["vector"] == vectors["six"]
    assert detail["attributes"] == dict(zip(digits.attribute_names, vectors["six"], strict=True))
    digits_model.add_classes({"six": vectors["six"]})
    expected = digits_model.explain_class("six").sources[:8]
    assert [s["label"] for s in detail["sources"]] == [s.label for s in expected]
    np.testing.assert_allclose(
        [s["weight"] for s in detail["sources"]], [s.weight for s in expected], rtol=1e-9
    )
    others = {name: row for name, row in digits.attributes_of(range(10)).items() if name != "six"}
    del others["two"]
    cosines = {
        name: float(
            np.dot(row, vectors["six"]) / np.linalg.norm(row) / np.linalg.norm(vectors["six"])
        )
        for name, row in {**others, "blot": np.full(len(vectors["six"]), 0.5)}.items()
    }
    nearest = sorted(cosines, key=cosines.get, reverse=True)[:5]
    assert [r["label"] for r in detail["relatives"]] == nearest
    for relative in detail["relatives"]:
        assert relative["similarity"] == pytest.approx(cosines[relative["label"]], abs=1e-6)
    assert client.get("/v1/classes/one").json()["seen"] is True


def test_detail_of_a_method_that_cannot_explain(make_client, digits):
    X, y = digits.rows("train")
    model = ESZSLClassifier().fit(X, y, digits.attributes_of(digits.seen_classes))
    detail = make_client(model.set_params(calibration=0.1)).get("/v1/classes/one").json()
    assert detail["sources"] == []
    assert detail["attributes"] is None
    assert len(detail["relatives"]) == 5


def test_named_attributes_leave_text_out(digits_model):
    row = np.arange(20.0)
    digits_model.about_ = {
        "attribute_names": ["a", "b"],
        "attribute_blocks": [18, 2],
        "attribute_kinds": ["text", "att"],
    }
    assert named_attributes(digits_model, row) == {"a": 18.0, "b": 19.0}
    digits_model.about_["attribute_names"] = ["a"]
    assert named_attributes(digits_model, row) is None
    digits_model.about_ |= {"attribute_names": ["a", "b"], "attribute_blocks": [3, 2]}
    assert named_attributes(digits_model, row) is None


def test_unknown_class_is_404(client):
    assert problem(client.get("/v1/classes/zebra"), 404) == "there is no class 'zebra'"
    assert problem(client.delete("/v1/classes/zebra"), 404)
    assert problem(client.get("/v1/classes/%00"), 404)


def test_detail_finds_a_class_that_another_worker_added_just_now(make_client, vectors):
    one, other = make_client(), make_client()
    add(one, {"name": "two", "vector": vectors["two"]})
    assert other.get("/v1/classes/two").status_code == 200


# ---------------------------------------------------------------------- adding
def test_add_answers_with_revision_names_and_count(client, vectors):
    classes = [{"name": name, "vector": vector} for name, vector in vectors.items()]
    answer = add(client, *classes)
    assert answer.status_code == 201
    assert answer.json() == {
        "revision": 1,
        "names": ["two", "six"],
        "n_classes": 11,
        "warnings": [],
        "n_examples": 0,
        "costs": None,  # γ was given, so no folds said anything
    }


def test_add_by_named_attributes(client, digits):
    first = digits.attribute_names[0]
    assert add(client, {"name": "bar", "attributes": {first.upper(): 1}}).status_code == 201
    attributes = client.get("/v1/classes/bar").json()["attributes"]
    assert attributes == {name: float(name == first) for name in digits.attribute_names}
    detail = problem(add(client, {"name": "baz", "attributes": {"wings": 1.0}}), 422)
    assert "no attribute 'wings'" in detail


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a//b/",
        "../etc",
        "50 % grey?",
        "#1",
        "Grüner Specht",
        "啄木鳥 🐦",
        "a\\b",
    ],
)
def test_names_of_every_kind_come_and_go(client, vectors, name):
    assert add(client, {"name": name, "vector": vectors["two"]}).json()["names"] == [name]
    address = "/v1/classes/" + quote(name, safe="").replace(".", "%2E")
    assert client.get(address).json()["name"] == name
    answer = client.delete(address)
    found = answer.json()
    assert (found["revision"], found["names"], found["n_classes"]) == (2, [name], 9)
    assert problem(client.get(address), 404)


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_no_path_can_hold_are_refused(client, vectors, name):
    detail = problem(add(client, {"name": name, "vector": vectors["two"]}), 422)
    assert "cannot be asked for over HTTP" in detail


def test_add_is_all_or_nothing(client, vectors):
    good = {"name": "two", "vector": vectors["two"]}
    for bad, status in [
        ({"name": "one", "vector": vectors["two"]}, 409),
        ({"name": "blot", "vector": vectors["two"]}, 409),
        ({"name": "short", "vector": [1.0]}, 422),
        ({"name": "words", "text": "a digit with a loop"}, 422),
        (good, 422),
    ]:
        problem(add(client, good, bad), status)
    assert client.get("/v1/classes").json()["revision"] == 0
    assert problem(client.get("/v1/classes/two"), 404)


BAD_CLASSES = [
    {},
    {"name": "x"},
    {"name": "", "vector": [1.0]},
    {"name": "x" * 201, "vector": [1.0]},
    {"name": "line\nbreak", "vector": [1.0]},
    {"name": "delete\x7f", "vector": [1.0]},
    {"name": "half \ud800", "vector": [1.0]},
    {"name": 7, "vector": [1.0]},
    {"name": "x", "vector": []},
    {"name": "x", "vector": ["1.0"]},
    {"name": "x", "vector": [True]},
    {"name": "x", "vector": [None]},
    {"name": "x", "vector": "1.0"},
    {"name": "x", "vector": [float("nan")]},
    {"name": "x", "vector": [float("inf")]},
    {"name": "x", "vector": [10**400]},
    {"name": "x", "attributes": {"a": "1"}},
    {"name": "x", "attributes": {"half \ud800": 1.0}},
    {"name": "x", "attributes": [1.0]},
    {"name": "x", "text": "a\0b"},
    {"name": "x", "text": "half \ud800"},
    {"name": "x", "text": "x" * 20_001},
    {"name": "x", "vector": [1.0], "colour": "red"},
]


@pytest.mark.parametrize("bad", BAD_CLASSES, ids=range(len(BAD_CLASSES)))
def test_add_refuses_what_is_not_as_described(client, bad):
    body = json.dumps({"classes": [bad]})
    answer = client.post("/v1/classes", content=body, headers={"Content-Type": "application/json"})
    assert problem(answer, 422)
    assert client.get("/v1/classes").json()["revision"] == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"classes": []}', 422),
        (b'{"classes": {}, "more": 1}', 422),
        (b'{"classes": "\xff"}', 422),
        (b"[" * 50_000, 422),
        (b'{"classes": [{"name": "x", "vector": [' + b"9" * 5000 + b"]}]}", 422),
        (b'{"classes": [' + b"1," * 40_000 + b"1]}", 422),
        (b" " * 100_001, 413),
    ],
    ids=range(11),
)
def test_add_refuses_bodies_that_are_none(client, body, status):
    answer = client.post("/v1/classes", content=body, headers={"Content-Type": "application/json"})
    assert len(problem(answer, status)) < 300


def test_add_bounds_the_number_of_classes(client, vectors):
    many = [{"name": f"class {i}", "vector": vectors["two"]} for i in range(4)]
    assert "at most 3" in problem(add(client, *many), 413)
    assert add(client, *many[:3]).status_code == 201


def test_remove_refuses_learned_classes_and_keeps_saved_ones_removed(make_client):
    client = make_client()
    assert "learned from instances" in problem(client.delete("/v1/classes/one"), 409)
    assert client.delete("/v1/classes/blot").json()["n_classes"] == 8
    assert problem(make_client().get("/v1/classes/blot"), 404)


def test_writing_needs_a_key_and_reading_none(client, vectors):
    client.headers.pop("X-API-Key")
    problem(add(client, {"name": "two", "vector": vectors["two"]}), 401)
    problem(client.delete("/v1/classes/blot"), 401)
    assert client.get("/v1/classes/blot").status_code == 200
    assert client.get("/v1/classes").status_code == 200


def test_numbers_as_labels_are_written_as_text(make_client, digits):
    X, y = digits.rows("train")
    table = digits.attributes_of(digits.seen_classes)
    places = {name: i for i, name in enumerate(table)}
    model = ESZSLClassifier().fit(
        X, [places[name] for name in y], {places[n]: v for n, v in table.items()}
    )
    client = make_client(model)
    vector = digits.attributes_of(digits.unseen_classes)["six"].astype(float).tolist()
    assert add(client, {"name": "042", "vector": vector}).json()["names"] == ["42"]
    assert "are numbers" in problem(add(client, {"name": "six", "vector": vector}), 422)
    assert problem(add(client, {"name": "3", "vector": vector}), 409)
    assert client.get("/v1/classes/42").json()["name"] == "42"
    assert client.delete("/v1/classes/042").json()["names"] == ["42"]
    assert problem(client.get("/v1/classes/six"), 404)


def test_names_and_descriptions_keep_the_same_rule_as_everywhere(client, vectors):
    detail = problem(add(client, {"name": "One", "vector": vectors["two"]}), 422)
    assert detail == "class 'One' differs from class 'one' by case or blanks only"
    assert "zero-width" in problem(
        add(client, {"name": "tw\u200bo", "vector": vectors["two"]}), 422
    )
    assert "blank" in problem(add(client, {"name": " two", "vector": vectors["two"]}), 422)
    assert add(client, {"name": "two", "vector": vectors["two"]}).json()["warnings"] == []
    answer = add(client, {"name": "deux", "vector": vectors["two"]})
    assert answer.status_code == 201
    assert answer.json()["warnings"] == [
        "class 'deux' is described like class 'two': the two cannot be told apart"
    ]


# ---------------------------------------------------------------------- what a body may cost
def test_the_key_comes_before_the_body(client, http_scope):
    """Not a byte of the body is asked for before the key is known to be good."""
    taken = []

    async def receive():
        taken.append(1)
        return {"type": "http.request", "body": b"{" * 1000, "more_body": True}

    def statuses(method, path, headers):
        sent = []

        async def send(message):
            sent.append(message)

        scope = http_scope(method, path, headers)
        asyncio.run(client.app(scope, receive, send))
        return sent[0]["status"]

    for headers in ([], [(b"x-api-key", b"another key of length")]):
        assert statuses("POST", "/v1/classes", headers) == 401
        assert statuses("DELETE", "/v1/classes/blot", headers) == 401
    assert not taken
    assert statuses("POST", "/v1/classes", [(b"x-api-key", KEY.encode())]) == 413
    assert taken


def test_add_takes_json_and_nothing_that_a_page_can_send_unasked(client, vectors):
    body = json.dumps({"classes": [{"name": "two", "vector": vectors["two"]}]})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = client.post("/v1/classes", content=body, headers={"Content-Type": kind})
        assert "application/json" in problem(answer, 415)
    kind = "Application/JSON; charset=utf-8"
    headers = {"Content-Type": kind}
    assert client.post("/v1/classes", content=body, headers=headers).status_code == 201


def test_the_first_mistake_ends_the_reading_of_classes():
    keys = b",".join(b'"%d":1' % i for i in range(300_000))
    for body in (
        b'{"classes":[{"name":"x",' + keys + b"}]}",
        b"{" + keys + b"}",
        b'{"classes":[' + b'{"name":1},' * 100_000 + b"{}]}",
        b"[" * 4_000_000,
        b'{"classes":' + b"[" * 4_000_000,
    ):
        tracemalloc.start()
        with pytest.raises(Problem) as caught:
            decode(body, NewClasses)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert caught.value.status_code == 422
        assert len(caught.value.detail) < 200
        assert peak < 100_000


def test_a_body_of_countless_values_is_not_decoded(make_served):
    settings = ServiceSettings(Path("model"))
    app = FastAPI()
    install_problems(app)
    app.include_router(build_router(Service.of(make_served(), settings)))
    attributes = json.dumps({f"k{i}": 1 for i in range(300_000)})
    body = f'{{"classes":[{{"name":"x","attributes":{attributes}}}]}}'
    headers = {"Content-Type": "application/json"}
    answer = TestClient(app).post("/v1/classes", content=body, headers=headers)
    assert "more than 270,000 values" in problem(answer, 413)
