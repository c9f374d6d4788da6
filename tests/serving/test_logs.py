"""Request ids, lines of the log, and keys that show in none of them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import io
import json
import logging
import logging.config
import re
import subprocess
import sys
import time
from urllib.parse import quote

import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.requests import ClientDisconnect

from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.auth import key_id
from hgkt.serving.logs import CURRENT, Lines, RequestContext, logging_config, request_id
from hgkt.serving.middleware import CLIENT_GONE, RequestEnvelope
from hgkt.serving.problems import Problem

KEY = "c0rrect/horse&battery+ staple"
MADE = re.compile(r"[0-9a-f]{32}")


# ---------------------------------------------------------------------- ids
@pytest.mark.parametrize("given", ["7f3", "a" * 128, "01J9Z-3:x/y+z=~._"])
def test_a_sane_id_is_kept(given):
    assert request_id([given]) == given


@pytest.mark.parametrize(
    "given",
    [
        [],
        [""],
        ["a" * 129],
        ["two words"],
        ["line\nbreak"],
        ["zwölf"],
        ['"}{"'],
        ["one", "two"],
    ],
)
def test_otherwise_an_id_is_made(given):
    ids = {request_id(given) for _ in range(3)}
    assert len(ids) == 3
    assert all(MADE.fullmatch(found) for found in ids)


# ---------------------------------------------------------------------- masking
@pytest.mark.parametrize(
    ("path", "query"),
    [
        (f"/v1/classes/{KEY}", ""),
        ("/v1/classes/" + quote(KEY, safe=""), ""),
        ("/v1/predict", f"api_key={quote(KEY)}"),
        ("/v1/predict", f"among={KEY}"),
    ],
)
def test_a_known_key_shows_nowhere_in_the_log(path, query, caplog):
    with caplog.at_level(logging.INFO, "hgkt.access"):
        call(fine, path, query=query.encode())
    for piece in ("c0rrect", "horse", "battery", "staple"):
        assert piece not in caplog.text


def test_a_path_is_one_printable_line_of_bounded_length(caplog):
    with caplog.at_level(logging.INFO, "hgkt.access"):
        call(fine, "/a\nb\x1b[31mé", query=b"x=1")
        assert caplog.records[-1].fields["path"] == "/a%0Ab%1B%5B31m%C3%A9"
        call(fine, "/" + "a" * 5000)
        assert len(caplog.records[-1].fields["path"]) == 1000


def test_a_key_has_a_name_that_does_not_tell_it():
    assert re.fullmatch(r"[0-9a-f]{8}", key_id(KEY))
    assert key_id(KEY) == key_id(KEY) != key_id(KEY + "x")


# ---------------------------------------------------------------------- lines
def lines_of(formatter, act):
    """Return what `act` logs below the logger ``lines``, as the formatter writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger("lines")
    logger.addHandler(handler)
    try:
        act(logger)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


def mishap(logger):
    try:
        raise ValueError(f"bad key {KEY}")
    except ValueError:
        logger.exception("with %s and %s", KEY, quote(KEY, safe=""))


def test_json_lines_are_objects_with_the_request_and_without_keys():
    def act(logger):
        CURRENT.set(RequestContext("7f3"))
        mishap(logger)

    text = contextvars.copy_context().run(lines_of, Lines("json", [KEY]), act)
    (line,) = text.splitlines()
    document = json.loads(line)
    assert document["message"] == "with *** and ***"
    assert document["exception"].endswith("ValueError: bad key ***")
    assert document["request_id"] == "7f3"
    assert (document["level"], document["logger"]) == ("error", "lines")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", document["time"])
    assert "horse" not in line


def test_text_lines_outside_of_a_request_have_no_id():
    text = lines_of(Lines("text", [KEY]), mishap)
    first, *rest = text.splitlines()
    assert re.fullmatch(r"\S+Z ERROR lines with \*\*\* and \*\*\*", first)
    assert rest[-1] == "ValueError: bad key ***"
    assert "horse" not in text


# ---------------------------------------------------------------------- the middleware
def call(app, path="/x", headers=(), query=b"", kind="http"):
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind,
        "method": "GET",
        "path": path,
        "query_string": query,
        "headers": list(headers),
        "client": ("10.0.0.9", 4711),
    }
    asyncio.run(RequestEnvelope(app, [KEY])(scope, receive, send))
    return sent


async def fine(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"12345", "more_body": True})
    await send({"type": "http.response.body", "body": b"678"})


def test_an_access_line_says_who_asked_what_and_how_it_went(caplog):
    headers = [
        (b"x-request-id", b"7f3"),
        (b"authorization", f"Bearer {KEY}".encode()),
    ]
    with caplog.at_level(logging.INFO, "hgkt.access"):
        start, *_ = call(fine, "/v1/model", headers, b"token=abc")
    assert (b"x-request-id", b"7f3") in start["headers"]
    fields = caplog.records[-1].fields
    assert fields.pop("duration_ms") >= 0
    assert fields == {
        "method": "GET",
        "path": "/v1/model",
        "status": 200,
        "bytes": 8,
        "client": "10.0.0.9",
        "key_id": key_id(KEY),
    }
    assert f"key={key_id(KEY)}" in caplog.text
    assert f"key 1 of 1 has the id {key_id(KEY)}" in caplog.text
    assert "horse" not in caplog.text


def test_a_wrong_key_is_unknown_and_no_key_is_none(caplog):
    with caplog.at_level(logging.INFO, "hgkt.access"):
        call(fine, headers=[(b"x-api-key", b"nothing of the kind")])
        assert caplog.records[-1].fields["key_id"] == "unknown"
        call(fine)
        assert caplog.records[-1].fields["key_id"] is None


def test_an_unexpected_error_is_one_line_and_a_problem_with_the_id(caplog):
    async def broken(scope, receive, send):
        raise KeyError("secret detail")

    with caplog.at_level(logging.INFO, logger="hgkt"):
        start, body = call(broken, headers=[(b"x-request-id", b"7f3")], query=b"key=abc")
    problem = json.loads(body["body"])
    assert (start["status"], problem["status"], problem["request_id"]) == (500, 500, "7f3")
    assert (b"x-request-id", b"7f3") in start["headers"]
    assert "secret" not in body["body"].decode()
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == ["unexpected error at GET /x"]
    assert errors[0].exc_info is not None


def test_half_an_answer_is_broken_off(caplog):
    async def half(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError("too late")

    with pytest.raises(KeyError):
        call(half)
    assert "unexpected error at GET /x" in caplog.text


def test_a_client_that_went_is_no_error(caplog):
    async def reads(scope, receive, send):
        raise ClientDisconnect

    with caplog.at_level(logging.INFO, logger="hgkt"):
        assert call(reads) == []
    assert caplog.records[-1].fields["status"] == CLIENT_GONE
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def test_what_is_not_http_passes():
    async def lifespan(scope, receive, send):
        await send({"type": "lifespan.startup.complete"})

    assert call(lifespan, kind="lifespan") == [{"type": "lifespan.startup.complete"}]


def test_every_problem_of_the_service_has_the_id(digits_folder, tmp_path):
    database = f"sqlite:///{tmp_path / 'own.sqlite'}"
    settings = ServiceSettings(
        digits_folder, database, api_keys=("a key of some length",), max_body_bytes=1000
    )
    with TestClient(create_app(settings)) as client:
        large = {"content": bytes(2000), "headers": {"X-Request-ID": "own-id"}}
        for status, answer in (
            (404, client.get("/nowhere", headers={"X-Request-ID": "own-id"})),
            (401, client.delete("/v1/classes/blot", headers={"X-Request-ID": "own-id"})),
            (413, client.post("/v1/predict", **large)),
            (413, client.post("/v2/models/model/infer", **large)),
        ):
            assert answer.status_code == status
            assert answer.headers["X-Request-ID"] == answer.json()["request_id"] == "own-id"
        made = client.get("/health").headers["X-Request-ID"]
        assert MADE.fullmatch(made)
        assert made != client.get("/health").headers["X-Request-ID"]


def test_threads_of_a_request_log_its_id(digits_folder, tmp_path):
    app = create_app(ServiceSettings(digits_folder, f"sqlite:///{tmp_path / 'own.sqlite'}"))

    @app.get("/worker")
    def in_a_thread() -> None:
        logging.getLogger("lines").warning("from a thread")
        raise Problem(418, "no coffee")

    def act(_logger):
        with TestClient(app) as client:
            client.get("/worker", headers={"X-Request-ID": "7f3"})

    assert "[7f3] from a thread" in lines_of(Lines(), act)


# ---------------------------------------------------------------------- the real server
def wait_until_ready(client):
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if client.get("/ready").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service does not become ready")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.endure
def test_the_command_logs_json_and_no_key(digits_folder, tmp_path, workers):
    keys = tmp_path / "keys"
    keys.write_text(KEY + "\n")  # readable by all: a warning, in JSON too
    keys.chmod(0o644)
    command = [sys.executable, "-m", "hgkt", "serve", "--grace", 0]
    command += ["--model", digits_folder, "--port", 0, "--api-key-file", keys, "--access-log"]
    command += [
        "--workers",
        workers,
        "--log-format",
        "json",
        "--database",
        f"sqlite:///{tmp_path / 'own.sqlite'}",
    ]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=address, headers={"X-API-Key": KEY}) as client:
            wait_until_ready(client)
            own = {"X-Request-ID": "7f3", "X-Forwarded-For": "203.0.113.9"}
            client.get("/health", headers=own)
            client.get(f"/v1/classes/{quote(KEY, safe='')}?x={quote(KEY, safe='')}&Token=other")
        process.terminate()
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    lines = [json.loads(line) for line in errors.splitlines()]
    assert "everybody on this machine may read it" in lines[0]["message"]
    health = next(line for line in lines if line.get("path") == "/health")
    assert (health["request_id"], health["status"]) == ("7f3", 200)
    assert (health["key_id"], health["client"]) == (key_id(KEY), "203.0.113.9")
    assert any(line.get("path") == "/v1/classes/***" for line in lines)
    assert "horse" not in errors


def test_logging_config_is_quiet_unless_asked_for(capsys, monkeypatch):
    for name in ("uvicorn", "uvicorn.error"):  # a server that ran before may have left its own
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    before = logging.root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in ("hgkt", "uvicorn", "uvicorn.access")}
    try:
        logging.config.dictConfig(logging_config("text", access_log=False))
        logging.getLogger("hgkt.access").info("not shown")
        logging.getLogger("uvicorn.error").warning("shown")
    finally:
        logging.root.handlers[:] = before
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    assert re.fullmatch(r"\S+ WARNING uvicorn.error shown\n", capsys.readouterr().err)
