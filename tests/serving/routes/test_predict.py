"""Predictions over HTTP against the estimator itself."""

from __future__ import annotations

import json
import math
import threading
import time
import tracemalloc

import numpy as np
import pytest
from fastapi.testclient import TestClient
from joblib import cpu_count
from tests.evidence import attribute_evidence

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.estimators.explain import seen_pulls
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.problems import Problem
from hgkt.serving.ranking import rank
from hgkt.serving.routes.bodies import decode_rows_body, json_rows
from hgkt.serving.routes.predict import PredictBody

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    model.add_classes(digits.attributes_of(digits.unseen_classes))
    path = tmp_path_factory.mktemp("served") / "digits"
    return model.save(path, data="digits", attribute_names=list(digits.attribute_names))


@pytest.fixture(scope="module")
def client(folder):
    settings = ServiceSettings(folder, max_rows=500)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder)


@pytest.fixture(scope="module", name="X")
def rows(digits):
    return digits.rows("test_unseen")[0][:40]


def check(answer, model, X, k=1, columns=None):
    """Compare with an independent ranking: a full sort of the estimator's scores."""
    columns = np.arange(len(model.classes_)) if columns is None else np.asarray(columns)
    scores = model.score_classes(X)[:, columns]
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert len(answer["predictions"]) == len(X)
    for row, prediction in enumerate(answer["predictions"]):
        names = model.classes_[columns[order[row]]].tolist()
        assert [item["label"] for item in prediction["top"]] == names
        assert [item["score"] for item in prediction["top"]] == pytest.approx(
            scores[row, order[row]].tolist(), rel=1e-5
        )
        assert prediction["top"][0] == {key: prediction[key] for key in ("label", "seen", "score")}
        for item in prediction["top"]:
            assert item["seen"] == (item["label"] in model.seen_classes_)


def test_predict_json_equals_the_estimator(client, model, X):
    response = client.post("/v1/predict", json={"features": X.tolist(), "top_k": 3})
    assert response.status_code == 200
    check(response.json(), model, X, k=3)
    assert response.json()["revision"] == 0


def test_predict_octets_equal_json(client, model, X):
    response = client.post(
        "/v1/predict?top_k=10", content=X.astype("<f4").tobytes(), headers=OCTETS
    )
    check(response.json(), model, X, k=10)
    as_json = client.post("/v1/predict", json={"features": X.tolist(), "top_k": 10})
    assert response.json() == as_json.json()


def test_a_query_of_defaults_is_no_query(client, model, X):
    row = X[:1].astype("<f4").tobytes()
    plain = client.post("/v1/predict", content=row, headers=OCTETS).json()
    asked = client.post("/v1/predict?top_k=1&among=all", content=row, headers=OCTETS).json()
    assert plain == asked
    scores = model.score_classes(X)[0]
    found = plain["predictions"][0]
    assert (found["label"], found["score"]) == (
        str(model.classes_[scores.argmax()]),
        pytest.approx(scores.max(), rel=1e-5),
    )


def test_predict_among_groups_and_names(client, model, X):
    seen = np.isin(model.classes_, model.seen_classes_)
    for among, columns in (("seen", np.flatnonzero(seen)), ("unseen", np.flatnonzero(~seen))):
        answer = client.post("/v1/predict", json={"features": X.tolist(), "among": among})
        check(answer.json(), model, X, columns=columns)
        octets = client.post(f"/v1/predict?among={among}", content=X.tobytes(), headers=OCTETS)
        assert octets.json() == answer.json()
    names = ["six", "one", "six"]
    columns = [model.classes_.tolist().index(name) for name in names[:2]]
    asked = {"features": X.tolist(), "among": names, "top_k": 5}
    answer = client.post("/v1/predict", json=asked).json()
    check(answer, model, X, k=2, columns=columns)
    octets = client.post(
        "/v1/predict?among=six&among=one&top_k=5", content=X.tobytes(), headers=OCTETS
    )
    assert octets.json() == answer


def test_predict_explains_with_margin_pulls_and_attributes(client, model, digits, X):
    answer = client.post("/v1/predict", json={"features": X[:5].tolist(), "explain": True})
    scores = np.sort(model.score_classes(X[:5]), axis=1)
    for row, prediction in enumerate(answer.json()["predictions"]):
        assert len(prediction["top"]) == 1
        explanation = prediction["explanation"]
        assert explanation["margin"] == pytest.approx(scores[row, -1] - scores[row, -2], rel=1e-5)
        label = prediction["label"]
        pulls = seen_pulls(model, X[row], label, 8)
        assert [pull["label"] for pull in explanation["pulls"]] == [p.label for p in pulls]
        evidence = merged_evidence(model, digits, X[row], label, 20)
        found = explanation["attributes"]
        assert [item["name"] for item in found] == [name for name, _ in evidence[:6]]
        weights = [weight for _, weight in evidence[:6]]
        assert [item["weight"] for item in found] == pytest.approx(weights, rel=1e-5, abs=5e-7)


def test_predict_places_an_instance_on_the_map(client, model, digits):
    X, y = digits.rows("test_seen")
    first = [np.flatnonzero(y == label)[0] for label in ("one", "zero")]
    body = {"features": X[first].tolist(), "explain": True}
    answers = client.post("/v1/predict", json=body).json()["predictions"]
    points = client.get("/v1/map").json()["points"]
    places = {point["name"]: (point["x"], point["y"]) for point in points}
    for answer, label in zip(answers, ("one", "zero"), strict=True):
        assert answer["label"] == label
        away = {name: math.dist(answer["explanation"]["place"], at) for name, at in places.items()}
        assert label in sorted(away, key=away.__getitem__)[:3]


def merged_evidence(model, digits, x, label, n):
    """The first `n` attributes, strongest first; one and its complement count as one."""
    weights = {
        digits.attribute_names[item.position]: item.weight
        for item in attribute_evidence(model, x, label)
        if item.position < n
    }
    for name in [name for name in weights if name.startswith("no ")]:
        weights[name.removeprefix("no ")] += weights.pop(name)
    found = [item for item in weights.items() if item[1]]
    return sorted(found, key=lambda item: -abs(item[1]))


def test_predict_explains_among_one_class_without_a_margin(client, X):
    asked = {"features": X[:1].tolist(), "explain": True, "among": ["one"]}
    explanation = client.post("/v1/predict", json=asked).json()["predictions"][0]["explanation"]
    assert explanation["margin"] is None
    assert explanation["pulls"]


def test_predict_lets_no_number_of_a_text_speak(digits, model, X, tmp_path):
    kinds = {"attribute_blocks": [14, 6], "attribute_kinds": ["att", "text"]}
    names = list(digits.attribute_names[:14])
    path = model.save(tmp_path / "model", **kinds, attribute_names=names)
    asked = {"features": X[:8].tolist(), "explain": True}
    with TestClient(create_app(ServiceSettings(path))) as client:
        answers = client.post("/v1/predict", json=asked).json()["predictions"]
    for row, answer in enumerate(answers):
        evidence = merged_evidence(model, digits, X[row], answer["label"], 14)
        found = [item["name"] for item in answer["explanation"]["attributes"]]
        assert found == [name for name, _ in evidence[: len(found)]]
        assert len(found) == 6


def refused(client, status, **request) -> str:
    response = client.post("/v1/predict", **request)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert "\n" not in problem["detail"]
    return problem["detail"]


ROW = [0.5] * 64


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (422, b"", "the body is empty"),
        (422, b"{", "not valid JSON"),
        (422, b'{"features": []}', "features: Expected `array` of length >= 1"),
        (422, b'{"features": [[1, 2]]}', "row 0 of features has 2 numbers; 64 are expected"),
        (422, json.dumps({"features": [ROW, ROW[:3]]}).encode(), "row 1 of features has 3 numbers"),
        (422, json.dumps({"features": [[*ROW[:63], "1"]]}).encode(), "features[0][63]"),
        (422, json.dumps({"features": [[*ROW[:63], True]]}).encode(), "features[0][63]"),
        (422, json.dumps({"features": [[*ROW[:63], None]]}).encode(), "features[0][63]"),
        (422, json.dumps({"features": [[*ROW[:63], float("nan")]]}).encode(), "not valid JSON"),
        (422, json.dumps({"features": [[*ROW[:63], 1e300]]}).encode(), "infinity (inf) in row 0"),
        (422, b'{"features": [[' + b"0," * 63 + b"1" + b"0" * 500 + b"]]}", "features"),
        (422, json.dumps({"features": [ROW], "top_k": 0}).encode(), "top_k"),
        (422, json.dumps({"features": [ROW], "top": 2}).encode(), "unknown field `top`"),
        (422, json.dumps({"features": [ROW], "among": ["yak"]}).encode(), "class 'yak', which"),
        (422, json.dumps({"features": [ROW], "among": []}).encode(), "among"),
        (422, json.dumps({"features": [ROW], "among": "none"}).encode(), "among"),
        (413, json.dumps({"features": [ROW] * 501}).encode(), "more than 500 rows"),
        (413, json.dumps({"features": [ROW] * 65, "explain": True}).encode(), "65 rows are to be"),
    ],
)
def test_predict_refuses_json_in_one_sentence(client, status, body, words):
    assert words in refused(
        client, status, content=body, headers={"Content-Type": "application/json"}
    )


def test_predict_refuses_octets_in_one_sentence(client, X):
    def sentence(content, status=422, **query):
        return refused(client, status, content=content, headers=OCTETS, params=query)

    assert "the body has 255 bytes" in sentence(X.tobytes()[:255])
    assert "the body is empty" in sentence(b"")
    bad = X.copy()
    bad[3, 2] = np.nan
    assert "NaN in row 3" in sentence(bad.tobytes())
    assert "501 rows; at most 500" in sentence(np.zeros((501, 64), "f4").tobytes(), 413)
    assert "'yak', which the model has not" in sentence(X.tobytes(), among="yak")
    assert "top_k" in sentence(X.tobytes(), top_k=0)


def test_predict_refuses_other_media_types(client, X):
    assert "content type" in refused(
        client, 415, content=b"1,2", headers={"Content-Type": "text/csv"}
    )
    packed = {**OCTETS, "Content-Encoding": "gzip"}
    assert "compressed bodies" in refused(client, 415, content=b"x", headers=packed)


def test_predict_serves_a_calibrated_model_with_numbers_as_labels(digits, tmp_path):
    X, y = digits.rows("train")
    numbers = {name: number for number, name in enumerate(digits.class_names)}
    seen = digits.attributes_of(digits.seen_classes)
    model = HGKTClassifier(device="cpu").fit(
        X, [numbers[name] for name in y], {numbers[name]: row for name, row in seen.items()}
    )
    model.set_params(calibration=0.2)
    app = create_app(ServiceSettings(model.save(tmp_path / "numbers")))
    with TestClient(app) as client:
        asked = {"features": X[:9].tolist(), "top_k": 2, "explain": True, "among": ["3", "1", "8"]}
        answer = client.post("/v1/predict", json=asked).json()
    columns = [model.classes_.tolist().index(number) for number in (3, 1, 8)]
    expected = model.score_classes(X[:9])[:, columns].argmax(axis=1)
    labels = [prediction["label"] for prediction in answer["predictions"]]
    assert labels == [["3", "1", "8"][best] for best in expected]
    assert answer["predictions"][0]["explanation"]["pulls"][0]["label"].isdigit()
    assert answer["predictions"][0]["explanation"]["attributes"][0]["name"].isdigit()


def test_predict_image_says_that_the_model_reads_vectors(client):
    response = client.post("/v1/predict/image", files=[("images", ("a.png", b"x"))])
    assert response.status_code == 409
    assert response.json()["detail"] == "this model reads feature vectors, not images"


# ---------------------------------------------------------------------- bodies that cost too much
def costly(n_bytes):
    """Return bodies of which every byte is a trap."""
    strings = json.dumps(["a"] * 64).encode() + b","
    return {
        "strings": b'{"features":[' + strings * (n_bytes // len(strings)) + b"[]]}",
        "empty rows": b'{"features":[' + b"[]," * (n_bytes // 3) + b"[]]}",
        "no rows": b'{"features":[' + b"1," * (n_bytes // 2) + b"1]}",
        "one row": b'{"features":[[' + b"1," * (n_bytes // 2) + b"1]]}",
        "one number": b'{"features":[[' + b"1" * n_bytes + b"]]}",
        "blanks": b'{"features":[' + b" " * n_bytes + b"[1]]}",
        "deep": b'{"features":' + b"[" * n_bytes,
        "unknown": b"{" + b",".join(b'"%d":1' % i for i in range(n_bytes // 10)) + b"}",
        "escaped": b'{"\\u0066eatures":[' + b"[]," * (n_bytes // 3) + b"[]]}",
        "names": b'{"features":[[1]],"among":[' + b'"",' * (n_bytes // 3) + b'""]}',
        "twice": b'{"features":[[' + b"1," * 63 + b'1]],"features":[' + b"[]," * (n_bytes // 3),
    }


@pytest.mark.parametrize("kind", costly(100))
def test_the_first_mistake_ends_a_body(client, kind):
    body = costly(4_000_000)[kind]
    parse(body)  # what is made once is not counted
    tracemalloc.start()
    status = parse(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert status in (413, 422)
    assert peak < len(body)
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/predict", content=body, headers=headers)
    assert answer.status_code in (413, 422)
    assert len(answer.json()["detail"]) < 200


def parse(body):
    with pytest.raises(Problem) as caught:
        json_rows(decode_rows_body(body, PredictBody, 64, 4096).features, 64, 4096)
    return caught.value.status_code


def test_rows_are_found_wherever_they_stand(client, model, X):
    rows = json.dumps(X[:3].tolist())
    classes = json.dumps([*model.classes_.tolist()[:4]])
    for text in (
        '{"features":%s,"among":%s}',
        '{"top_k":1,"features" :\n%s , "among": %s, "explain":false}',
        ' {"features":%s,"among":%s} ',
    ):
        answer = client.post(
            "/v1/predict",
            content=(text % (rows.replace(", ", " ,\r\n\t "), classes)).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 200, answer.text
        check(answer.json(), model, X[:3], columns=range(4))
    for text in (
        '{"more":{"features":%s}}',
        '{"among":"\\"features\\":[[1]]"}',
        '[{"features":%s}]',
        '{"features":%s} %s',
        '"features":%s',
        '{"features":%s,}',
        '{"features":%s',
    ):
        body = text.replace("%s", rows).encode()
        headers = {"Content-Type": "application/json"}
        assert client.post("/v1/predict", content=body, headers=headers).status_code == 422, text


def test_numbers_of_json_are_read_exactly():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 7)) * 10.0 ** rng.integers(-30, 30, size=(50, 7))
    body = json.dumps({"features": rows.tolist(), "top_k": 5}).encode()
    asked = decode_rows_body(body, PredictBody, 7, 50)
    found = json_rows(asked.features, 7, 50)
    np.testing.assert_array_equal(found, rows.astype(np.float32))
    assert (asked.top_k, asked.among, asked.explain) == (5, "all", False)


def test_an_answer_has_an_end(folder, X):
    settings = ServiceSettings(folder, max_ranked=40)
    with TestClient(create_app(settings)) as few:
        rows = {"features": X[:10].tolist()}
        assert few.post("/v1/predict", json={**rows, "top_k": 4}).status_code == 200
        answer = few.post("/v1/predict", json={**rows, "top_k": 5})
    assert answer.status_code == 413
    assert "at most 40 scores" in answer.json()["detail"]


def test_predictions_beyond_the_queue_are_told_to_come_back(folder, X, monkeypatch):
    settings = ServiceSettings(folder, max_waiting=1)
    app = create_app(settings)
    with TestClient(app) as client:
        go = threading.Event()

        def slow(*arguments):
            go.wait(100)
            return rank(*arguments)

        monkeypatch.setattr("hgkt.serving.routes.predict.rank", slow)
        answers = []
        body = X[:2].tobytes()  # one row may be answered without a queue

        def ask():
            answers.append(client.post("/v1/predict", content=body, headers=OCTETS))

        threads = [threading.Thread(target=ask) for _ in range(cpu_count() + 6)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while len(answers) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(refused) == 5
        assert client.get("/health").status_code == 200
        go.set()
        for thread in threads:
            thread.join()
    assert refused[0].headers["Retry-After"] == "1"
    assert sorted(a.status_code for a in answers) == [200] * (cpu_count() + 1) + [503] * 5
