"""The Open Inference Protocol, as a public client speaks it and as it is refused."""

from __future__ import annotations

import shutil
import tracemalloc

import numpy as np
import pytest
from fastapi.testclient import TestClient

from hgkt.estimators import load_model
from hgkt.serving import ServiceSettings, create_app

triton = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")

KEY = "a key of some length"
MODEL = "digits"


@pytest.fixture(scope="module")
def folder(digits_folder, tmp_path_factory):
    return shutil.copytree(digits_folder, tmp_path_factory.mktemp("inference") / MODEL)


@pytest.fixture(scope="module")
def rows(digits):
    return digits.rows("test_unseen")[0][:5].astype(np.float32)


@pytest.fixture(scope="module")
def expected(folder, rows):
    model = load_model(folder)
    return model.predict(rows), model.decision_function(rows).max(axis=1)


@pytest.fixture(scope="module")
def address(folder, run_service):
    with run_service(folder, max_rows=100, max_body_bytes=100_000) as found:
        yield found.removeprefix("http://")


@pytest.fixture
def client(address):
    with triton.InferenceServerClient(address) as found:
        yield found


@pytest.fixture(scope="module")
def plain(folder, tmp_path_factory):
    database = f"sqlite:///{tmp_path_factory.mktemp('registry') / 'own.sqlite'}"
    settings = ServiceSettings(folder, database, max_rows=100)
    with TestClient(create_app(settings)) as found:
        yield found


def features(X, kind="FP32", binary=False):
    tensor = triton.InferInput("features", X.shape, kind)
    return [tensor.set_data_from_numpy(X, binary_data=binary)]


# ---------------------------------------------------------------------- with tritonclient
def test_a_public_client_reads_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(MODEL)
    assert not client.is_model_ready("another")
    assert not client.is_model_ready(MODEL, "2")  # versions are not known
    assert client.get_server_metadata()["extensions"] == []
    metadata = client.get_model_metadata(MODEL)
    assert metadata["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, 64]}]
    assert metadata["platform"] == "hgkt_hgkt"
    assert {"name": "label", "datatype": "BYTES", "shape": [-1]} in metadata["outputs"]


@pytest.mark.parametrize("named", [True, False])
def test_a_public_client_gets_the_models_answers(client, rows, expected, named):
    outputs = None
    if named:
        names = ("score", "label", "seen")
        outputs = [triton.InferRequestedOutput(name, binary_data=False) for name in names]
    answer = client.infer(MODEL, features(rows), outputs=outputs, request_id="number 7")
    labels = answer.as_numpy("label")
    if labels.dtype == object and isinstance(labels[0], bytes):
        labels = np.array([label.decode() for label in labels])
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(answer.as_numpy("score"), expected[1])
    assert answer.as_numpy("seen").dtype == bool
    response = answer.get_response()
    assert response["id"] == "number 7"
    assert response["parameters"] == {"revision": 0}


def test_a_public_client_ranks_among_classes(client, rows):
    asked = {"top_k": 3, "among": ["one", "four", "blot", "nine"]}
    answer = client.infer(MODEL, features(rows), parameters=asked)
    labels, scores = answer.as_numpy("top_labels"), answer.as_numpy("top_scores")
    assert labels.shape == scores.shape == (5, 3)
    assert set(labels.ravel()) <= {"one", "four", "blot", "nine"}
    assert (np.diff(scores, axis=1) <= 0).all()
    np.testing.assert_array_equal(answer.as_numpy("label"), labels[:, 0])
    added = client.infer(MODEL, features(rows), parameters={"among": "unseen"})
    assert set(added.as_numpy("label")) == {"blot"}
    assert not added.as_numpy("seen").any()


@pytest.mark.parametrize(("kind", "dtype"), [("FP16", np.float16), ("FP64", np.float64)])
def test_other_precisions_are_taken(client, rows, expected, kind, dtype):
    answer = client.infer(MODEL, features(rows.astype(dtype), kind))
    labels = answer.as_numpy("label").tolist()
    np.testing.assert_array_equal(labels, expected[0])


def test_a_public_client_reads_what_is_wrong(client, rows):
    def refused(status, *arguments, **options):
        with pytest.raises(triton.InferenceServerException) as caught:
            client.infer(*arguments, **options)
        assert caught.value.status() == str(status)
        return caught.value.message()

    assert refused(404, "birds", features(rows)) == (
        f"there is no model 'birds'; this service has '{MODEL}'"
    )
    assert "[n, 64] is expected" in refused(422, MODEL, features(rows[:, :7]))
    assert "outputs[0].name: Invalid enum value 'probability'" in refused(
        422, MODEL, features(rows), outputs=[triton.InferRequestedOutput("probability")]
    )
    assert "at most 100 are accepted" in refused(413, MODEL, features(rows.repeat(30, axis=0)))
    assert "larger than 100,000 bytes" in refused(413, MODEL, features(rows.repeat(100, axis=0)))
    broken = rows.copy()
    broken[2, 3] = np.nan
    assert "not valid JSON" in refused(422, MODEL, features(broken))
    compressed = {"request_compression_algorithm": "gzip"}
    assert "compressed bodies" in refused(415, MODEL, features(rows), **compressed)
    classification = [triton.InferRequestedOutput("label", class_count=3)]
    assert "use top_k" in refused(422, MODEL, features(rows), outputs=classification)


def test_a_public_client_sends_the_key(folder, run_service, rows, tmp_path):
    database = f"sqlite:///{tmp_path / 'own.sqlite'}"
    closed = run_service(folder, database=database, api_keys=(KEY,), require_key="all")
    with closed as address, triton.InferenceServerClient(address[7:]) as client:
        assert client.is_server_ready()
        with pytest.raises(triton.InferenceServerException, match="needs an API key"):
            client.infer(MODEL, features(rows))
        answer = client.infer(MODEL, features(rows), headers={"X-API-Key": KEY})
        assert answer.as_numpy("label").shape == (5,)


# ---------------------------------------------------------------------- by hand
def infer(plain, rows, **changes):
    tensor = {"name": "features", "shape": list(rows.shape), "datatype": "FP32"}
    document = {"inputs": [tensor | {"data": rows.tolist()}]} | changes
    return plain.post(f"/v2/models/{MODEL}/infer", json=document)


def test_nested_and_flat_data_are_the_same(plain, rows, expected):
    flat = [{"name": "features", "shape": [5, 64], "datatype": "FP64"}]
    flat[0]["data"] = rows.ravel().tolist()
    answers = [infer(plain, rows).json(), infer(plain, rows, inputs=flat).json()]
    assert answers[0] == answers[1]
    label, seen, score = answers[0]["outputs"]
    assert (label["name"], label["datatype"], label["shape"]) == ("label", "BYTES", [5])
    assert label["data"] == expected[0].tolist()
    assert score["data"] == expected[1].tolist()
    assert all(isinstance(value, bool) for value in seen["data"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"inputs": []}, "inputs: Expected `array` of length >= 1"),
        ({"inputs": [{"name": "x"}]}, "inputs[0].name: Invalid enum value 'x'"),
        ({"inputs": {"name": "features"}}, "inputs: Expected `array`"),
        ({"parameters": {"top_k": 0}}, "top_k: Expected `int` >= 1"),
        ({"parameters": {"top_k": True}}, "top_k: Expected `int`"),
        ({"parameters": {"among": 3}}, "among: Expected `str | array`"),
        ({"parameters": {"among": ["unicorn"]}}, "among names class 'unicorn'"),
    ],
)
def test_wrong_requests_are_told_in_both_tongues(plain, rows, changes, sentence):
    answer = infer(plain, rows, **changes)
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert sentence in answer.json()["error"]
    assert answer.json()["error"] == answer.json()["detail"]


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        ({"datatype": "BYTES"}, "inputs[0].datatype: Invalid enum value 'BYTES'"),
        ({"shape": [5]}, "inputs[0].shape: Expected `array` of length 2"),
        ({"shape": [-5, 64]}, "inputs[0].shape[0]: Expected `int` >= 1"),
        ({"shape": [4, 64]}, "but data of 320 numbers"),
        ({"shape": [5, 63]}, "[n, 64] is expected"),
        ({"shape": [5, 64, 1]}, "inputs[0].shape: Expected `array` of length 2"),
        ({"data": ["a"] * 320}, "features[0]"),
        ({"data": "text"}, "features"),
        ({"data": [[1.0]]}, "1 numbers; 64 are expected"),
        ({"data": None}, "features"),
        ({"parameters": {"content_type": "np"}, "data": [0.5] * 319}, "data of 319 numbers"),
    ],
)
def test_wrong_tensors_are_told(plain, rows, tensor, sentence):
    own = {"name": "features", "shape": [5, 64], "datatype": "FP32", "data": rows.tolist()}
    answer = infer(plain, rows, inputs=[own | tensor])
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


def test_inference_counts_as_predictions(plain, rows):
    before = plain.get("/metrics").text
    infer(plain, rows)
    after = plain.get("/metrics").text

    def count(text, name):
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    for name, more in (("hgkt_predictions_total", 5), ('hgkt_requests_total{endpoint="/v2', 1)):
        assert count(after, name) == count(before, name) + more


def test_not_ready_before_the_service_runs(folder, tmp_path):
    app = create_app(ServiceSettings(folder, f"sqlite:///{tmp_path / 'own.sqlite'}"))
    client = TestClient(app)  # without its lifespan
    assert client.get("/v2/health/live").json() == {"live": True}
    for path in ("/v2/health/ready", f"/v2/models/{MODEL}/ready"):
        assert client.get(path).status_code == 503


BOMB = 16 * 2**20
BOMBS = {
    "inputs": b'{"inputs":[' + b"{}," * (BOMB // 3) + b"{}]}",
    "tensors": b'{"inputs":[%s]}'
    % b",".join([b'{"name":"features","datatype":"FP32","shape":[1,64]}'] * (BOMB // 60)),
    "shape": b'{"inputs":[{"name":"features","datatype":"FP32","shape":[%s1]}]}'
    % (b"1," * (BOMB // 2)),
    "data": b'{"inputs":[{"name":"features","datatype":"FP32","shape":[1,64],"data":[%s1]}]}'
    % (b"1," * (BOMB // 2)),
    "outputs": b'{"outputs":[%s{"name":"label"}],"inputs":[%s]}'
    % (b'{"name":"a"},' * (BOMB // 13), b'{"name":"f","datatype":"FP32","shape":[1]}'),
    "parameters": b'{"parameters":{"among":[%s""]},"inputs":[%s]}'
    % (b'"",' * (BOMB // 3), b'{"name":"f","datatype":"FP32","shape":[1]}'),
    "unknown": b'{"unknown":[' + b"[]," * (BOMB // 3) + b"[]]}",
    "deep": b'{"inputs":' + b"[" * BOMB,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_large_mistake_costs_little(plain, name):
    body = BOMBS[name]
    tracemalloc.start()
    try:
        answer = plain.post(f"/v2/models/{MODEL}/infer", content=body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status_code in (413, 422)
    assert peak < 8 * len(body)
