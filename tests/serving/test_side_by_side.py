"""Several models in one service: each request finds its own, and switching loses none."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from hgkt import Client
from hgkt.cli.main import app
from hgkt.exceptions import DataError, ModelFolderError
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.settings import ModelFolder

pytestmark = pytest.mark.endure

KEY = "a key of some length"
OWN = {"X-API-Key": KEY}


@pytest.fixture
def settings(digits_folder, retrained_folder, tmp_path):
    return ServiceSettings(
        digits_folder,
        f"sqlite:///{tmp_path / 'classes.sqlite'}",
        called="v1",
        beside=(ModelFolder("v2", retrained_folder),),
        api_keys=(KEY,),
        poll_seconds=0.02,
    )


@pytest.fixture
def client(settings):
    with TestClient(create_app(settings)) as client:
        yield client


def add(client, digits, prefix="", name="two"):
    vector = digits.attributes_of([digits.class_names.index(name)])[name].tolist()
    body = {"classes": [{"name": name, "vector": vector}]}
    answer = client.post(f"{prefix}/v1/classes", json=body, headers=OWN)
    assert answer.status_code == 201, answer.text


def test_requests_go_to_the_current_model_or_to_the_one_they_name(client, digits):
    listed = client.get("/v1/models").json()
    assert (listed["alias"], listed["current"]) == ("current", "v1")
    assert [(m["name"], m["n_classes"], m["current"]) for m in listed["models"]] == [
        ("v1", 9, True), ("v2", 8, False)
    ]  # fmt: skip
    assert len({m["identity"] for m in listed["models"]}) == 2
    add(client, digits, "/models/v2")
    names = {path: client.get(f"{path}/v1/model") for path in ("", "/models/v1", "/models/v2")}
    assert [a.json()["n_added_classes"] for a in names.values()] == [1, 1, 1]
    assert [a.headers["X-Model"] for a in names.values()] == ["v1", "v1", "v2"]
    assert [a.json()["name"] for a in names.values()] == ["v1", "v1", "v2"]
    assert client.get("/v1/classes/two").status_code == 404
    assert client.get("/models/v2/v1/classes/two").status_code == 200

    assert client.get("/v2/models/v2").json()["name"] == "v2"
    assert client.get("/v2/models/current/ready").json() == {"ready": True, "name": "v1"}
    rows = digits.rows("test_seen")[0][:3]
    tensor = {"name": "features", "shape": rows.shape, "datatype": "FP32", "data": rows.tolist()}
    found = client.post("/v2/models/v2/infer", json={"inputs": [tensor]}).json()
    assert (found["model_name"], found["parameters"]["revision"]) == ("v2", 1)

    for path in ("/v2/models/v3", "/models/v3/v1/model"):
        assert client.get(path).status_code == 404
        told = client.get(path).json()["detail"]
        assert told == "there is no model 'v3'; this service has 'v1', 'v2'"
    assert client.get("/models/v2/models/v2/v1/model").status_code == 404


def test_a_models_own_path_is_a_whole_service(client):
    assert client.get("/models/v2", follow_redirects=False).headers["location"] == "v2/"
    page = client.get("/models/v2")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert client.get("/models/v2/page/main.js").status_code == 200
    assert "http://localhost/models/v2/v1/predict" in client.get("/models/v2/docs").text
    assert "/v1/alias" in client.get("/openapi.json").json()["paths"]
    assert client.get("/models/v2/ready").json() == {"status": "ready", "revision": 0}
    refused = client.put("/models/v2/v1/model")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET")


def test_the_alias_is_guarded_idempotent_and_counted(client, caplog):
    body = {"model": "v2"}
    assert client.put("/v1/alias", json=body).status_code == 401
    assert client.get("/v1/models").json()["current"] == "v1"
    first = client.put("/v1/alias", json=body, headers=OWN)
    assert first.json() == {"alias": "current", "model": "v2", "previous": "v1", "adopted": []}
    again = client.put("/v1/alias", json=body, headers=OWN)
    assert again.json() == {"alias": "current", "model": "v2", "previous": "v2", "adopted": []}
    assert client.get("/v1/model").headers["X-Model"] == "v2"
    assert client.app.state.switch.store.read().revision == 1
    (line,) = [r.getMessage() for r in caplog.records if "was switched" in r.getMessage()]
    assert "from model v1 to v2 by key " in line
    assert KEY not in line
    text = client.get("/metrics").text
    assert 'hgkt_model_current{model="v2"} 1.0' in text
    assert 'hgkt_model_requests_total{model="v1"}' in text
    assert "hgkt_classes 8.0" in text
    unknown = client.put("/v1/alias", json={"model": "v3"}, headers=OWN)
    assert unknown.status_code == 404
    assert client.put("/v1/alias", json={"name": "v1"}, headers=OWN).status_code == 422


def test_the_next_model_takes_over_classes_when_it_is_switched_to(client, digits):
    add(client, digits)
    body = {"model": "v2", "adopt": "v1"}
    first = client.put("/v1/alias", json=body, headers=OWN).json()
    assert (first["previous"], first["adopted"]) == ("v1", ["two"])
    assert client.get("/v1/classes/two").headers["X-Model"] == "v2"
    (line,) = client.get("/v1/events").json()["events"]
    assert (line["kind"], line["reason"][:15]) == ("add", "adopted from v1")
    add(client, digits, "/models/v1", "six")  # a straggler
    assert client.put("/v1/alias", json=body, headers=OWN).json()["adopted"] == ["six"]
    assert client.get("/v1/models").json()["models"][1]["revision"] == 2


def test_other_processes_and_restarts_follow_the_alias(settings, database):
    settings = ServiceSettings(**(vars(settings) | {"database": database}))
    with TestClient(create_app(settings)) as one, TestClient(create_app(settings)) as other:
        assert one.put("/v1/alias", json={"model": "v2"}, headers=OWN).status_code == 200
        for _ in range(200):
            if other.get("/v1/models").json()["current"] == "v2":
                break
        else:
            pytest.fail("the other process does not follow")
        assert other.get("/ready").status_code == 200
    with TestClient(create_app(settings)) as later:
        assert later.get("/v1/models").json()["current"] == "v2"
    # Another alias of the same database is another's affair.
    apart = ServiceSettings(**(vars(settings) | {"alias": "live"}))
    with TestClient(create_app(apart)) as stranger:
        assert stranger.get("/v1/models").json()["current"] == "v1"


def test_an_alias_of_a_model_that_is_not_served_is_told(settings, retrained_folder, caplog):
    first = create_app(settings)
    first.state.switch.store.point(first.state.switch.identity("v2"), "v2")
    for served in first.state.models.values():
        served.close()
    same = ServiceSettings(**(vars(settings) | {"beside": (ModelFolder("w", settings.model),)}))
    with TestClient(create_app(same)) as client:
        assert client.get("/v1/models").json()["current"] == "v1"
    assert "stands for the model 'v2', which is not served here" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"database": None}, "several models keep their classes in one class registry"),
        ({"called": "v2"}, "two models are called 'v2'"),
        ({"called": "a/b"}, "'a/b' cannot be the name"),
        ({"called": "current"}, "'current' is the alias"),
    ],
)
def test_models_that_cannot_be_told_apart_are_refused(settings, change, message):
    with pytest.raises(DataError, match=message):
        create_app(ServiceSettings(**(vars(settings) | change)))


def test_a_broken_model_beside_is_refused_at_the_start(settings, tmp_path):
    beside = (ModelFolder("v2", tmp_path / "nothing"),)
    with pytest.raises(ModelFolderError):
        create_app(ServiceSettings(**(vars(settings) | {"beside": beside})))


# ---------------------------------------------------------------------- the real server
class Load:
    """Clients that ask without a pause; every answer is kept."""

    def __init__(self, service, rows, n_clients=3):
        self.statuses, self.models = [], []
        self._body = json.dumps({"features": rows.tolist()})
        self._port, self._stop = service.port, threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(n_clients)]

    def _ask(self):
        headers = {"Content-Type": "application/json"}
        while not self._stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            try:
                connection.request("POST", "/v1/predict", self._body, headers)
                answer = connection.getresponse()
                answer.read()
                self.statuses.append(answer.status)
                self.models.append(answer.headers["X-Model"])
            except OSError as error:
                self.statuses.append(repr(error))
            finally:
                connection.close()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_details):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("n_workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_switching_under_load_fails_no_request_and_outlives_a_kill(
    n_workers, digits_folder, retrained_folder, digits, tmp_path, serve
):
    arguments = [
        "--model", f"v1={digits_folder}", "--model", f"v2={retrained_folder}",
        "--database", f"sqlite:///{tmp_path / 'classes.sqlite'}", "--workers", n_workers,
    ]  # fmt: skip
    rows = np.asarray(digits.rows("test_seen")[0][:5])

    def currents(service):
        found = service.ask("/v1/models")
        return {json.loads(text)["current"] for text in found.values()}, len(found)

    with serve(*arguments) as service:
        assert service.until(lambda: currents(service) == ({"v1"}, n_workers))
        with Load(service, rows) as load, Client(f"http://127.0.0.1:{service.port}") as client:
            for name in ("v2", "v1", "v2"):
                n_before = len(load.models)
                assert client.switch_model(name)["model"] == name
                assert service.until(lambda name=name: currents(service) == ({name}, n_workers))
                service.until(lambda n=n_before: len(load.models) > n + 30)
        vector = digits.attributes_of([2])["two"].tolist()
        body = {"classes": [{"name": "two", "vector": vector}]}
        assert service.call("POST", "/models/v1/v1/classes", body)[0] == 201
        assert set(load.statuses) == {200}
        assert set(load.models) == {"v1", "v2"}
        os.killpg(service.process.pid, signal.SIGKILL)
        service.process.wait(timeout=60)
    with serve(*arguments, "--adopt", "v1") as service:
        assert currents(service)[0] == {"v2"}
        assert service.call("GET", "/v1/classes/two")[0] == 200
        history = CliRunner().invoke(
            app, ["classes", "log", "--server", f"http://127.0.0.1:{service.port}/models/v2"]
        )
        assert "adopted from v1" in history.stdout
        with Client(f"http://127.0.0.1:{service.port}") as client:
            assert [model["name"] for model in client.models()["models"]] == ["v1", "v2"]
        assert 'hgkt_model_current{model="v2"} 1.0' in service.call("GET", "/metrics")[1]
