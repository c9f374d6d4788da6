from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from hgkt.exceptions import DataError, DownloadError
from hgkt.serving.auth import require_key
from hgkt.serving.database import RegistryError
from hgkt.serving.events import ClassExistsError, ClassLearnedError, UnknownClassError
from hgkt.serving.middleware import Door, RequestEnvelope
from hgkt.serving.problems import MEDIA_TYPE, Problem, install_problems
from hgkt.serving.settings import ServiceSettings, read_api_keys, read_database_url

KEYS = ("the first key of all", "another key, longer")
SETTINGS = ServiceSettings(Path("model"), api_keys=KEYS)


def replaced(**changes):
    return ServiceSettings(**{"model": Path("model"), "api_keys": KEYS} | changes)


# ---------------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"port": 70_000}, "port: Input should be less than or equal to 65535"),
        ({"workers": 0}, "workers: Input should be greater than or equal to 1"),
        ({"max_rows": 0}, "max_rows"),
        ({"max_body_bytes": 1.5}, "max_body_bytes"),
        ({"poll_seconds": 0.0}, "poll_seconds"),
        ({"device": "abacus"}, "device: Input should be"),
        ({"api_keys": ("short",)}, "too short"),
        ({"api_keys": ("with a\nline break in it",)}, "printable ASCII"),
    ],
)
def test_settings_refuse_nonsense(changes, message):
    with pytest.raises(DataError, match=message):
        replaced(**changes)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])
def test_settings_refuse_an_open_door_unless_told_so(host):
    with pytest.raises(DataError, match="can be reached from other machines"):
        ServiceSettings(Path("model"), host=host)
    assert ServiceSettings(Path("model"), host=host, allow_open=True)
    assert ServiceSettings(Path("model"), host=host, api_keys=KEYS)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_settings_need_no_key_on_this_machine(host):
    assert ServiceSettings(Path("model"), host=host).local()


def test_settings_come_from_the_environment_and_hide_secrets(monkeypatch):
    monkeypatch.setenv("HGKT_SERVE_MODEL", "birds")
    monkeypatch.setenv("HGKT_SERVE_DATABASE", "postgresql://ann:hunter2@db/birds")
    monkeypatch.setenv("HGKT_SERVE_API_KEYS", json.dumps(KEYS))
    monkeypatch.setenv("HGKT_SERVE_POLL_SECONDS", "0.5")
    settings = ServiceSettings()
    assert (settings.model, settings.poll_seconds, settings.api_keys) == (Path("birds"), 0.5, KEYS)
    assert ServiceSettings(Path("fish")).model == Path("fish")
    assert "hunter2" not in repr(settings)
    assert KEYS[0] not in repr(settings)
    for name, wrong in (("API_KEYS", '["hunter2'), ("POLL_SECONDS", "hunter2")):
        monkeypatch.setenv(f"HGKT_SERVE_{name}", wrong)
        with pytest.raises(DataError, match=f"(?i){name}") as caught:
            ServiceSettings()
        assert "hunter2" not in str(caught.value)
        monkeypatch.delenv(f"HGKT_SERVE_{name}")


def test_api_keys_are_read_from_a_file(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_text(f"# who writes\n{KEYS[0]}\n\n  {KEYS[1]}  \n{KEYS[0]}\n")
    path.chmod(0o600)
    with caplog.at_level(logging.WARNING):
        assert read_api_keys(path) == KEYS
        assert not caplog.records
        path.chmod(0o644)
        assert read_api_keys(path) == KEYS
    assert "everybody on this machine may read it" in caplog.text
    path.write_text("# nothing but a comment\n")
    with pytest.raises(DataError, match="holds no API key"):
        read_api_keys(path)
    path.write_text("tooshort\n")
    with pytest.raises(DataError, match="line 1") as caught:
        read_api_keys(path)
    assert "tooshort" not in str(caught.value)
    path.write_bytes(b"a key that is \xff no text\n")
    with pytest.raises(DataError, match="cannot be read as API keys"):
        read_api_keys(path)
    with pytest.raises(DataError, match="missing does not exist"):
        read_api_keys(tmp_path / "missing")


def test_the_registrys_address_is_read_from_a_file(tmp_path):
    path = tmp_path / "url"
    path.write_text("postgresql://ann:hunter2@db/birds\n")
    assert read_database_url(path) == "postgresql://ann:hunter2@db/birds"
    for text in ("", "hunter2 hunter3"):
        path.write_text(text)
        with pytest.raises(DataError, match="and nothing else") as caught:
            read_database_url(path)
        assert "hunter" not in str(caught.value)
    with pytest.raises(DataError, match="missing does not exist"):
        read_database_url(tmp_path / "missing")


# ---------------------------------------------------------------------- keys
def guarded(settings):
    app = FastAPI()
    install_problems(app)

    @app.post("/write", dependencies=[Depends(require_key(settings))])
    def write() -> str:
        return "written"

    return TestClient(app)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_opens_in_both_headers(key):
    client = guarded(SETTINGS)
    assert client.post("/write", headers={"X-API-Key": key}).json() == "written"
    assert client.post("/write", headers={"Authorization": f"Bearer {key}"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": KEYS[0][:-1]},
        {"X-API-Key": KEYS[0] + "x"},
        {"X-API-Key": ",".join(KEYS)},
        {"X-API-Key": b"\xff\xfe unreadable"},
        {"Authorization": "Bearer nothing of the kind"},
        {"Authorization": f"Basic {KEYS[0]}"},
    ],
)
def test_no_other_key_opens(headers):
    answer = guarded(SETTINGS).post("/write", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    assert answer.json()["detail"].startswith("this request ")
    assert KEYS[0] not in answer.text


def test_without_keys_everybody_passes_and_none_is_asked_for():
    client = guarded(ServiceSettings(Path("model")))
    assert client.post("/write").status_code == 200
    described = client.get("/openapi.json").json()
    assert "security" not in described["paths"]["/write"]["post"]
    described = guarded(SETTINGS).get("/openapi.json").json()
    assert len(described["paths"]["/write"]["post"]["security"]) == 2


# ---------------------------------------------------------------------- hosts and other sites
def hosted(**changes):
    app = FastAPI()
    install_problems(app)

    @app.api_route("/", methods=["GET", "POST", "DELETE"])
    def touch() -> str:
        return "touched"

    app.add_middleware(Door, hosts=replaced(**changes).answered_hosts())
    app.add_middleware(RequestEnvelope)
    return TestClient(app)


@pytest.mark.parametrize(
    ("changes", "known", "unknown"),
    [
        (
            {},
            ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"],
            ["evil.org", "10.0.0.1"],
        ),
        ({"host": "127.9.9.9"}, ["127.9.9.9:8000", "localhost"], ["127.1.1.1", ""]),
        ({"host": "0.0.0.0"}, ["anything.org", "10.0.0.1:80"], []),
        (
            {"allowed_hosts": ("Models.example.org", "*.internal")},
            ["models.example.org", "a.internal:80"],
            ["localhost", "example.org", "internal", "a.internal.evil.org", "evilinternal"],
        ),
    ],
)
def test_the_service_answers_to_its_own_names_only(changes, known, unknown):
    client = hosted(**changes)
    for name in known:
        assert client.get("/", headers={"Host": name}).status_code == 200, name
    for name in unknown:
        answer = client.get("/", headers={"Host": name})
        assert answer.status_code == 421, name
        assert answer.headers["Content-Type"] == MEDIA_TYPE


@pytest.mark.parametrize("host", ["127.0.0.1:1@evil.org", "localhost/x", "a b", "[::1", "a:b"])
def test_a_host_that_is_none_is_refused(host):
    answer = hosted().get("/", headers={"Host": host})
    assert answer.status_code == 400
    assert "Host" in answer.json()["detail"]


def test_two_hosts_are_refused():
    headers = [("Host", "localhost"), ("Host", "localhost")]
    assert hosted().get("/", headers=headers).status_code == 400


@pytest.mark.parametrize("name", ["", "a b", "http://a", "a*b", "*.", "[::1]"])
def test_settings_refuse_hosts_that_are_none(name):
    with pytest.raises(DataError, match="the allowed host"):
        replaced(allowed_hosts=(name,))


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, False),
        ({"Origin": "http://localhost"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example.org"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://localhost:3000"}, True),
        ({"Origin": "https://evil.org"}, True),
        ({"Origin": "null"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
    ],
)
def test_pages_of_other_sites_may_look_and_not_touch(headers, refused):
    client = hosted()
    assert client.get("/", headers=headers).status_code == 200
    for call in (client.post, client.delete):
        assert call("/", headers=headers).status_code == (403 if refused else 200)


# ---------------------------------------------------------------------- problems
ERRORS = {
    "data": (DataError("the sentence"), 422),
    "exists": (ClassExistsError("zebra"), 409),
    "learned": (ClassLearnedError("zebra"), 409),
    "unknown": (UnknownClassError("zebra"), 404),
    "full": (RegistryError("full", "db"), 507),
    "locked": (RegistryError("locked", "db"), 503),
    "unreachable": (RegistryError("unreachable", "db"), 503),
    "other": (DownloadError("the sentence"), 500),
    "own": (Problem(418, "the sentence", {"X-Own": "yes"}), 418),
    "surprise": (KeyError("secret detail"), 500),
    "surrogate": (DataError("half \ud800"), 422),
}


@pytest.fixture
def failing():
    app = FastAPI()
    install_problems(app)
    app.add_middleware(RequestEnvelope)

    @app.get("/fail/{kind}")
    def fail(kind: str, number: int = 0) -> None:
        raise ERRORS[kind][0]

    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_is_a_problem(failing, kind):
    answer = failing.get(f"/fail/{kind}")
    assert answer.status_code == ERRORS[kind][1]
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    document = answer.json()
    assert set(document) == {"type", "title", "status", "detail", "request_id"}
    assert (document["type"], document["status"]) == ("about:blank", answer.status_code)
    assert document["title"]
    assert "Traceback" not in answer.text
    assert "secret" not in answer.text
    if kind == "own":
        assert (document["title"], answer.headers["X-Own"]) == ("I'm a Teapot", "yes")
    if answer.status_code == 503:
        assert answer.headers["Retry-After"] == "1"


def test_an_unexpected_error_is_in_the_log(failing, caplog):
    failing.get("/fail/surprise")
    assert "unexpected error at GET /fail/surprise" in caplog.text
    assert "secret detail" in caplog.text


def test_framework_errors_are_problems_too(failing):
    missing = failing.get("/nowhere")
    assert (missing.status_code, missing.json()["detail"]) == (404, "there is nothing at /nowhere")
    refused = failing.post("/fail/data")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET")
    assert refused.json()["detail"] == "/fail/data does not answer to POST"
    invalid = failing.get("/fail/data", params={"number": "many"})
    assert invalid.status_code == 422
    assert invalid.json()["detail"].startswith("query number: ")
    assert all(a.headers["Content-Type"] == MEDIA_TYPE for a in (missing, refused, invalid))
