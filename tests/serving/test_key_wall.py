"""`--require-key all`: nothing but probes and the empty page for strangers."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from hgkt.exceptions import DataError
from hgkt.serving import ServiceSettings, create_app

KEY = "a key of some length"
OPEN = ("/health", "/ready", "/v2/health/live", "/v2/health/ready", "/", "/page/main.js")


@pytest.fixture
def settings(digits_folder, tmp_path):
    return ServiceSettings(
        digits_folder,
        f"sqlite:///{tmp_path / 'own.sqlite'}",
        api_keys=(KEY,),
        require_key="all",
        samples="digits",
    )


def addresses(app):
    """Return every method and path of the application, with something in place of parameters."""
    values = {"{name}": "blot", "{sample_id}": "0", "{model}": "model", "{version}": "1"}
    for path, operations in app.openapi()["paths"].items():
        for parameter, value in values.items():
            path = path.replace(parameter, value)
        yield from ((method.upper(), path) for method in operations)
    yield from (("GET", path) for path in ("/", "/page/main.js", "/docs", "/openapi.json"))


def test_strangers_get_probes_and_the_empty_page_only(settings):
    app = create_app(settings)
    with TestClient(app) as client:
        found = set(addresses(app))
        assert {("GET", path) for path in OPEN} <= found
        assert ("GET", "/metrics") in found
        for method, path in found:
            answer = client.request(method, path)
            if path in OPEN:
                assert answer.status_code in (200, 405), path
                continue
            assert answer.status_code == 401, path
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            with_key = client.request(method, path, headers={"X-API-Key": KEY})
            assert with_key.status_code != 401, path


@pytest.mark.parametrize(
    "path", ["/HEALTH", "//health", "/health/", "/page/../metrics", "/nowhere"]
)
def test_near_misses_are_not_open(settings, path):
    app = create_app(settings)
    with TestClient(app) as client:
        address = str(client.base_url).rstrip("/")
        assert client.get(address + path).status_code in (401, 404)


def test_a_body_without_a_key_is_not_read(settings):
    taken = []

    def body():
        for _ in range(100):
            taken.append(1)
            yield bytes(1000)

    app = create_app(settings)
    with TestClient(app) as client:
        assert client.post("/v1/predict", content=body()).status_code == 401
        bearer = {"Authorization": f"bearer {KEY}"}
        assert client.get("/metrics", headers=bearer).status_code == 200
        refused = client.get("/metrics").json()
        assert refused["detail"].startswith("this request needs an API key")


def test_by_default_predictions_are_open(settings):
    with TestClient(create_app(settings.model_copy(update={"require_key": "changes"}))) as client:
        assert client.get("/metrics").status_code == 200
        assert client.delete("/v1/classes/blot").status_code == 401


def test_settings_want_a_key_to_require(settings):
    with pytest.raises(DataError, match="a key is required of all requests, but there is none"):
        ServiceSettings(settings.model, require_key="all")
    with pytest.raises(DataError, match="require_key: Input should be"):
        ServiceSettings(settings.model, require_key="some")
