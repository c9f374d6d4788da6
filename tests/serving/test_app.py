"""The application as a whole: readiness, headers, metrics, the page, images, several workers."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image, ImageFile

from hgkt.data import load_dataset
from hgkt.estimators import METHODS, HGKTClassifier
from hgkt.exceptions import DataError, HGKTError, ModelFolderError
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.app import docs_page
from hgkt.serving.database import RegistryError
from hgkt.serving.metrics import Metrics
from hgkt.serving.readers import ImageReader, NotReadError, Upload
from hgkt.vision import load_backbone

KEY = "a key of some length"


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture
def folder(digits, tmp_path):
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    return model.save(tmp_path / "digits", attribute_names=list(digits.attribute_names))


@pytest.fixture
def client(folder):
    settings = ServiceSettings(folder, api_keys=(KEY,), max_body_bytes=200_000)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def vector(digits, name):
    return digits.attributes_of([digits.class_names.index(name)])[name].tolist()


def test_ready_says_whether_the_service_can_answer(folder, monkeypatch):
    app = create_app(ServiceSettings(folder))
    early = TestClient(app).get("/ready")
    assert early.status_code == 503
    assert early.json()["detail"] == "the service is starting or stopping"
    with TestClient(app) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/ready").json() == {"status": "ready", "revision": 0}
        monkeypatch.setattr(app.state.served, "trouble", "the registry is gone")
        late = client.get("/ready")
        assert (late.status_code, late.json()["detail"]) == (503, "the registry is gone")
        assert client.get("/health").status_code == 200
    assert TestClient(app).get("/ready").status_code == 503


def test_strangers_are_not_told_where_the_registry_is(folder, tmp_path):
    place = tmp_path / "secret place"
    place.mkdir()
    settings = ServiceSettings(folder, f"sqlite:///{place / 'classes.sqlite'}")
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        assert client.get("/ready").status_code == 200
        (place / "classes.sqlite").unlink()
        with pytest.raises(RegistryError, match="secret place"):
            client.app.state.served.refresh()
        for path in ("/ready", "/v2/health/ready", "/v1/events"):
            answer = client.get(path)
            assert answer.status_code == 503
            assert "was removed or replaced" in answer.text
            assert "secret" not in answer.text


def test_app_predicts_a_class_as_soon_as_it_is_added(client, digits):
    X = digits.rows("test_unseen")[0]
    asked = {"features": X.tolist(), "among": "unseen"}
    before = client.post("/v1/predict", json=asked)
    assert before.status_code == 422
    assert "no class has been added yet" in before.json()["detail"]
    body = {"classes": [{"name": name, "vector": vector(digits, name)} for name in ("two", "six")]}
    assert client.post("/v1/classes", json=body).status_code == 401
    added = client.post("/v1/classes", json=body, headers={"X-API-Key": KEY})
    document = added.json()
    assert (document["revision"], document["names"]) == (1, ["two", "six"])
    assert (document["n_classes"], document["warnings"]) == (10, [])
    after = client.post("/v1/predict", json=asked).json()
    labels = np.array([prediction["label"] for prediction in after["predictions"]])
    assert (labels == digits.rows("test_unseen")[1]).mean() > 0.8
    assert after["revision"] == 1
    assert not any(prediction["seen"] for prediction in after["predictions"])


def test_predictions_are_of_one_revision_while_classes_come_and_go(client, digits):
    """Readers never see half a change: each answer is exactly what its revision gives."""
    X = digits.rows("test_unseen")[0][:20]
    asked = {"features": X.tolist(), "top_k": 10}
    headers = {"X-API-Key": KEY}
    body = {"classes": [{"name": name, "vector": vector(digits, name)} for name in ("two", "six")]}
    answers, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            answers.append(client.post("/v1/predict", json=asked).json())

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(5):
        assert client.post("/v1/classes", json=body, headers=headers).status_code == 201
        for name in ("two", "six"):
            assert client.delete(f"/v1/classes/{name}", headers=headers).status_code == 200
    stop.set()
    for reader in readers:
        reader.join()
    n_classes = {0: 8, 1: 10, 2: 9}
    for answer in answers:
        expected = n_classes[answer["revision"] % 3]
        assert {len(prediction["top"]) for prediction in answer["predictions"]} == {expected}
    assert len(answers) > 5


def test_body_limit_holds_for_predictions(client):
    headers = {"Content-Type": "application/octet-stream"}
    response = client.post("/v1/predict", content=bytes(200_001), headers=headers)
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/problem+json"


def test_headers_keep_browsers_safe(client):
    for path in ("/", "/docs", "/v1/model", "/nothing", "/page/main.js"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-eval" not in policy
        assert "http" not in policy


def test_a_refused_method_is_told_which_ones_a_path_answers_to(client):
    paths = client.get("/openapi.json").json()["paths"]
    # A class may be called "check", or have a slash in its name.
    for below in ("/v1/classes/check", "/v1/classes/{name}/examples"):
        paths[below] |= paths["/v1/classes/{name}"]
    for path, operations in paths.items():
        answer = client.request("TRACE", path)
        assert answer.status_code == 405, path
        assert answer.headers["Allow"].split(", ") == sorted(map(str.upper, operations)), path
    assert client.put("/").headers["Allow"] == "GET"


def test_metrics_count_requests_predictions_and_classes(client, digits):
    X = digits.rows("test_seen")[0][:7]
    client.post("/v1/predict", json={"features": X.tolist()})
    client.post("/v1/predict", content=b"x", headers={"Content-Type": "text/plain"})
    body = {"classes": [{"name": "two", "vector": vector(digits, "two")}]}
    client.post("/v1/classes", json=body, headers={"X-API-Key": KEY})
    client.delete("/v1/classes/two", headers={"X-API-Key": KEY})
    for path in ("/a", "/b", "/v1/classes/one", "/v1/classes/yak"):
        client.get(path)
    text = client.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["hgkt_predictions_total"]) == 7
    assert float(values["hgkt_classes_added_total"]) == 1
    assert float(values["hgkt_classes_removed_total"]) == 1
    assert float(values["hgkt_classes"]) == 8
    assert float(values["hgkt_revision"]) == 2
    assert float(values['hgkt_requests_total{endpoint="/v1/predict",status="2xx"}']) == 1
    assert float(values['hgkt_requests_total{endpoint="/v1/predict",status="4xx"}']) == 1
    assert float(values['hgkt_requests_total{endpoint="other",status="4xx"}']) == 2
    assert float(values['hgkt_request_seconds_count{endpoint="/v1/predict"}']) == 2
    endpoints = set(re.findall(r'endpoint="([^"]+)"', text))
    assert endpoints <= {"/v1/predict", "/v1/classes", "/v1/classes/{name:path}", "other"}


def test_page_serves_its_own_files_and_no_others(client):
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r'(src|href)="(https?:)?//', page.text)
    names = re.findall(r'(?:src|href)="page/([^"]+)"', page.text)
    assert "plotly.min.js" in names
    for name in names:
        response = client.get(f"/page/{name}")
        assert response.status_code == 200, name
        tag = {"If-None-Match": response.headers["etag"]}
        assert client.get(f"/page/{name}", headers=tag).status_code == 304
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "app.py", "nothing.js"):
        assert client.get(f"/page/{name}").status_code == 404, name


def test_docs_show_every_endpoint_without_loading_anything(client):
    document = client.get("/openapi.json").json()
    page = client.get("/docs").text
    for path in document["paths"]:
        assert path in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(https?:)?//', page)


def test_docs_escape_what_the_document_says():
    document = {"info": {"title": "<b>", "version": "1"}, "paths": {"/<i>": {"get": {}}}}
    page = docs_page(document)
    assert "<b>" not in page
    assert "<i>" not in page


def test_unexpected_errors_tell_nothing(folder, monkeypatch):
    app = create_app(ServiceSettings(folder))
    with TestClient(app, raise_server_exceptions=False) as client:
        monkeypatch.setattr(app.state.served, "current", lambda: 1 / 0)
        response = client.get("/v1/map")
    assert response.status_code == 500
    assert "division" not in response.text


def test_settings_of_the_environment_are_served(folder, monkeypatch):
    settings = ServiceSettings(folder, api_keys=(KEY,), samples="digits")
    monkeypatch.setenv("HGKT_SERVE_MODEL", str(settings.model))
    monkeypatch.setenv("HGKT_SERVE_API_KEYS", json.dumps([KEY]))
    monkeypatch.setenv("HGKT_SERVE_SAMPLES", "digits")
    with TestClient(create_app(ServiceSettings())) as client:
        card = client.get("/v1/model").json()
    assert card["needs_key"] is True
    assert card["n_samples"] == 60


def test_create_app_refuses_what_cannot_work(tmp_path, folder):
    with pytest.raises(ModelFolderError):
        create_app(ServiceSettings(tmp_path / "nothing"))
    with pytest.raises(DataError, match="can be reached from other machines"):
        create_app(ServiceSettings(folder, host="0.0.0.0"))
    with pytest.raises(HGKTError, match="nosuch"):
        create_app(ServiceSettings(folder, samples="nosuch"))


# ---------------------------------------------------------------------- images
def png(color=(200, 10, 10), size=(8, 8)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


COLORS = {"red": (200, 20, 20), "green": (20, 200, 20), "blue": (20, 20, 200), "gray": (99, 99, 99)}


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0")


@pytest.fixture(scope="module")
def image_model(backbone):
    rng = np.random.default_rng(0)
    images, labels = [], []
    for name, color in COLORS.items():
        for _ in range(3):
            noise = rng.integers(0, 40, size=(32, 32, 3))
            pixels = np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)
            images.append(Image.fromarray(pixels))
            labels.append(name)
    table = {name: np.array(color) / 255 for name, color in COLORS.items()}
    # Its fit and its folder are small, where HGKT keeps 1280 × 1280 numbers twice.
    return METHODS.load("ridge")().fit(backbone.extract(images), labels, table)


@pytest.fixture
def image_client(image_model, backbone, tmp_path):
    folder = image_model.save(tmp_path / "colors", backbone=backbone.record)
    settings = ServiceSettings(folder, max_image_bytes=5000, max_image_pixels=10_000)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def test_images_are_classified_by_their_features(image_client, image_model, backbone):
    assert image_client.get("/v1/model").json()["accepts"]["images"] is True
    contents = [png((210, 30, 30)), png((30, 30, 210))]
    files = [("images", ("a.png", content)) for content in contents]
    response = image_client.post("/v1/predict/image?top_k=2&explain=true", files=files)
    assert response.status_code == 200, response.text
    X = backbone.extract([Image.open(io.BytesIO(content)) for content in contents])
    labels = [prediction["label"] for prediction in response.json()["predictions"]]
    assert labels == image_model.predict(X).tolist()
    asked = {"features": X.tolist(), "top_k": 2}
    by_vector = image_client.post("/v1/predict", json=asked).json()
    for one, other in zip(response.json()["predictions"], by_vector["predictions"], strict=True):
        assert one["score"] == pytest.approx(other["score"], abs=1e-4)
        assert one["explanation"]["attributes"]


def test_images_that_cannot_be_read_are_named(image_client):
    def refused(status, *files):
        fields = [("images", file) for file in files]
        response = image_client.post("/v1/predict/image", files=fields)
        assert response.status_code == status, response.text
        return response.json()["detail"]

    assert "image 2 ('b.png')" in refused(422, ("a.png", png()), ("b.png", b"nonsense"))
    assert "image 1" in refused(422, ("a.png", png()[:-30]))
    assert "image 1" in refused(422, ("a.png", png(size=(200, 100))))
    assert "image 1 has 5001 bytes; at most 5000" in refused(413, ("a.png", bytes(5001)))
    assert "too many images; at most 64" in refused(413, *[("a.png", png())] * 65)
    assert image_client.post("/v1/predict/image").status_code == 415


def test_images_of_a_request_are_bounded_together(image_model, backbone, tmp_path, monkeypatch):
    folder = image_model.save(tmp_path / "colors", backbone=backbone.record)
    settings = ServiceSettings(folder, max_request_pixels=30_000)

    def post(client, *sizes):
        fields = [("images", ("a.png", png(size=size))) for size in sizes]
        return client.post("/v1/predict/image", files=fields)

    with TestClient(create_app(settings)) as client:
        # A picture counts at least as large as it is made for the network.
        assert post(client, (8, 8)).status_code == 413
    settings = settings.model_copy(update={"max_request_pixels": 200_000})
    with TestClient(create_app(settings)) as client:
        assert post(client, (100, 100), (100, 100)).status_code == 200
        opened = []
        monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: opened.append(image))
        answer = post(client, (100, 100), (400, 400), (100, 100))
        assert answer.status_code == 413
        assert "images 1 to 2 exceed" in answer.json()["detail"]
        assert not opened  # nothing is decoded before all are counted


def test_a_row_does_not_wait_behind_images(image_model, backbone, tmp_path, monkeypatch):
    folder = image_model.save(tmp_path / "colors", backbone=backbone.record)
    go, began = threading.Event(), threading.Event()

    def slow(self, uploads):
        began.set()
        go.wait(100)
        return np.zeros((len(uploads), 1280), dtype=np.float32)

    monkeypatch.setattr(ImageReader, "features", slow)
    with TestClient(create_app(ServiceSettings(folder, max_waiting_images=2))) as client:
        answers = []

        def send():
            fields = [("images", ("a.png", png()))]
            answers.append(client.post("/v1/predict/image", files=fields).status_code)

        threads = [threading.Thread(target=send) for _ in range(5)]
        for thread in threads:
            thread.start()
        assert began.wait(60)
        row = client.post("/v1/predict", json={"features": [[0.5] * 1280]})
        assert row.status_code == 200
        deadline = time.monotonic() + 60
        while len(answers) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert answers == [503, 503]
        go.set()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [200, 200, 200, 503, 503]


def test_images_come_as_files_of_a_form(image_client):
    def refused(status, **request):
        response = image_client.post("/v1/predict/image", **request)
        assert response.status_code == status, response.text
        return response.json()["detail"]

    alone = {"Content-Type": "image/png"}
    assert "multipart/form-data" in refused(415, content=png(), headers=alone)
    assert "one file at least" in refused(422, files=[("other", ("a.png", png()))])
    assert "a file is expected" in refused(422, files=[("images", (None, "text"))])
    broken = {"Content-Type": "multipart/form-data"}
    assert "Missing boundary" in refused(400, content=b"--b\r\n", headers=broken)
    many = [("field", (None, "text"))] * 65
    assert "cannot be read" in refused(400, files=many)


def test_images_of_other_weights_are_refused_in_one_sentence(image_model, backbone, tmp_path):
    record = {**backbone.record, "sha256": "0" * 64}
    app = create_app(ServiceSettings(image_model.save(tmp_path / "other", backbone=record)))
    with TestClient(app) as client:
        assert client.get("/v1/model").json()["accepts"]["images"] is False
        response = client.post("/v1/predict/image", files=[("images", ("a.png", png()))])
    assert response.status_code == 409
    assert response.json()["detail"].startswith("images cannot be read here: ")


def image_reader(monkeypatch, load):
    monkeypatch.setattr("hgkt.items.images.load_backbone", load)
    model = SimpleNamespace(n_features_in_=64, about_={"backbone": {"name": "x"}})
    return ImageReader(model, ServiceSettings("model"))


def test_image_reader_says_why_it_cannot(monkeypatch):
    def broken(*_arguments):
        raise DataError("the weights are not found")

    def missing(*_arguments):
        raise ImportError("torch is missing")

    assert image_reader(monkeypatch, broken).obstacle() == (
        "images cannot be read here: the weights are not found"
    )
    narrow = image_reader(monkeypatch, lambda *_: SimpleNamespace(n_features=5))
    with pytest.raises(NotReadError, match="makes 5 features"):
        narrow.features([Upload("a", io.BytesIO())])
    assert image_reader(monkeypatch, missing).obstacle().startswith("images cannot be read here: ")


def test_image_reader_loads_once_for_many_requests(monkeypatch):
    loads = []

    def load(*_arguments):
        loads.append(1)
        return SimpleNamespace(n_features=64)

    reader = image_reader(monkeypatch, load)
    threads = [threading.Thread(target=reader.obstacle) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [1]


def test_metrics_objects_do_not_disturb_each_other():
    first, second = Metrics(), Metrics()
    first.predictions.inc(3)
    assert b"hgkt_predictions_total 3.0" in first.exposition(1, 1)
    assert b"hgkt_predictions_total 0.0" in second.exposition(1, 1)
