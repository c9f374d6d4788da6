"""What the client does when a service falters: a server that answers as it is told."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import hgkt
from hgkt.client import RetryPolicy
from hgkt.client.connection import seconds_of
from hgkt.exceptions import ServiceError, ServiceRefusedError, ServiceUnavailableError

KEY = "a key of some length"
FAST = RetryPolicy(retries=4, first=0.01, most=0.02)
CARD = (200, {}, {"revision": 7})
CHANGE = {"revision": 8, "names": ["six"], "n_classes": 9, "warnings": [], "n_examples": 0}
REMOVED = (200, {}, CHANGE)
BUSY = {"status": 503, "detail": "too many predictions are waiting"}
HANG_UP = "hang up"


@contextmanager
def scripted(*answers):
    """Serve these answers, one per request; yield the address and what was asked, and when."""
    asked, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((time.monotonic(), self.command, self.path, dict(self.headers), body))
            answer = left.pop(0)
            if answer == HANG_UP:
                self.close_connection = True
                return
            status, headers, document = answer
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("trouble", [(503, {}, BUSY), (502, {}, b"<html>"), (429, {}, {}), HANG_UP])
def test_what_may_pass_is_tried_again(trouble):
    with scripted(trouble, trouble, CARD) as (address, asked):
        with hgkt.Client(address, retry=FAST) as client:
            assert client.model() == {"revision": 7}
        assert len(asked) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 409, 413, 422, 500, 507])
def test_what_does_not_pass_is_told_at_once(status):
    problem = {"status": status, "detail": "the sentence", "request_id": "7f3"}
    with scripted((status, {"X-Request-ID": "7f3"}, problem)) as (address, asked):
        with hgkt.Client(address, retry=FAST) as client, pytest.raises(ServiceError) as caught:
            client.model()
        assert len(asked) == 1
    error = caught.value
    assert (str(error), error.status, error.request_id) == ("the sentence", status, "7f3")
    assert isinstance(error, ServiceRefusedError if status < 500 else ServiceUnavailableError)


def test_a_change_keeps_its_idempotency_key_over_retries():
    script = (HANG_UP, (503, {}, BUSY), REMOVED, REMOVED, REMOVED)
    with scripted(*script) as (address, asked), hgkt.Client(address, KEY, retry=FAST) as client:
        assert client.remove_class("six/é").names == ("six",)
        client.remove_class("six")
        client.remove_class("six", idempotency_key="change-42")
    keys = [headers["Idempotency-Key"] for _, _, _, headers, _ in asked]
    assert len(keys[0]) == 36
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert keys[4] == "change-42"
    assert asked[0][2] == "/v1/classes/six%2F%C3%A9"
    assert {headers["X-API-Key"] for *_, headers, _ in asked} == {KEY}


def test_the_last_sentence_is_told_when_tries_are_used_up():
    with scripted(*[(503, {}, BUSY)] * 5) as (address, asked):
        refused = pytest.raises(ServiceUnavailableError, match="too many predictions are waiting")
        with hgkt.Client(address, retry=FAST) as client, refused:
            client.model()
        assert len(asked) == 5


def test_retry_after_is_waited_for(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr("hgkt.client.connection.time.sleep", pauses.append)
    with scripted((503, {"Retry-After": "1"}, BUSY), CARD) as (address, asked):
        with hgkt.Client(address, retry=FAST) as client:
            client.model()
        assert len(asked) == 2
    (pause,) = pauses
    assert 1.0 <= pause < 1.5  # a little later than asked, so that not all come at once


def test_retry_after_beyond_the_timeout_ends_it():
    with scripted((503, {"Retry-After": "30"}, BUSY)) as (address, asked):
        with hgkt.Client(address, timeout=20.0) as client, pytest.raises(ServiceUnavailableError):
            client.model()
        assert len(asked) == 1


def test_a_silent_service_ends_with_the_timeout():
    over = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_GET(self):
            over.wait(60)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        with hgkt.Client(address, timeout=0.3) as client:
            with pytest.raises(ServiceUnavailableError, match="timed out"):
                client.model()
            assert not client.ready()
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def test_another_service_is_recognised():
    page = (200, {"Content-Type": "text/html"}, b"<html>")
    script = (page, page, page, (404, {}, b"<html>"))
    with scripted(*script) as (address, _), hgkt.Client(address, retry=FAST) as client:
        for ask in (client.model, client.classes, lambda: client.predict([[1.0]])):
            with pytest.raises(ServiceError, match=r"text/html, .* is it another service"):
                ask()
        with pytest.raises(ServiceRefusedError, match=r"/v1/model answered 404 Not Found"):
            client.model()


def test_pauses_grow_are_drawn_and_respect_the_service():
    policy = RetryPolicy(first=0.5, most=2.0)
    for number, limit in enumerate([0.5, 1.0, 2.0, 2.0]):
        drawn = [policy.pause(number) for _ in range(200)]
        assert 0 <= min(drawn) < 0.2 * limit
        assert 0.8 * limit < max(drawn) <= limit
    assert policy.limit(5000) == 2.0
    asked_for = [policy.pause(0, "3") for _ in range(50)]
    assert len(set(asked_for)) > 40
    assert all(3.0 <= pause <= 3.5 for pause in asked_for)


def test_retry_after_may_be_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 58 < seconds_of(later) <= 60
    assert seconds_of("-5") == seconds_of("") == seconds_of(None) == seconds_of("²") == 0.0
