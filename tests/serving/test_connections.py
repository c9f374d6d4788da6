"""Connections of a real server: large heads, slow clients, and too many of either."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.serving.connections import PROTOCOL, STATE, ConnectionLimits, open_files_limit
from hgkt.serving.problems import install_problems

pytestmark = pytest.mark.endure

HGKT = [sys.executable, "-m", "hgkt"]
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
LIMITS = ConnectionLimits(max_connections=8, max_head_bytes=2000, patience=1.0)


def make_app(limits):
    @asynccontextmanager
    async def lifespan(_app):
        yield {STATE: limits}

    app = FastAPI(lifespan=lifespan)
    install_problems(app)

    @app.get("/health")
    async def health() -> str:
        return "ok"

    @app.get("/large")
    async def large() -> Response:
        return Response(bytes(20_000_000))

    @app.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    return app


@contextmanager
def serving(limits=LIMITS):
    # Without uvicorn's own configuration its log reaches the tests.
    config = uvicorn.Config(
        make_app(limits), port=0, http=PROTOCOL, ws="none", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(timeout=20)


def port_of(server):
    return server.servers[0].sockets[0].getsockname()[1]


def clients(server, busy=False):
    """Return the addresses of those who are connected; those whose request has begun if `busy`."""
    connections = list(server.server_state.connections)
    return [each.client for each in connections if each.cycle is not None or not busy]


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


@pytest.fixture
def port(server):
    return port_of(server)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), 60)


def read_all(connection):
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def status(answer):
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else 0


def ask(port, content):
    with connect(port) as connection:
        with suppress(OSError):
            connection.sendall(content)
        return read_all(connection)


def healthy(port):
    return status(ask(port, HEALTH + b"Connection: close\r\n\r\n")) == 200


CHUNKED = (
    b"POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
)


@pytest.mark.parametrize(
    "content",
    [
        HEALTH + b"X: " + b"x" * 2000 + b"\r\n\r\n",
        HEALTH + b"X: x\r\n" * 400 + b"\r\n",
        HEALTH + b"X: " + b"x" * 1_000_000,  # without an end
        b"GET /" + b"x" * 2000 + b" HTTP/1.1\r\n\r\n",
        CHUNKED + b"X: " + b"x" * 1_000_000,
    ],
    ids=["one", "many", "endless", "path", "trailer"],
)
def test_a_large_head_is_refused(port, content):
    answer = ask(port, content)
    assert status(answer) in (431, 0)  # 0: refused before all was sent, which loses the answer
    if len(content) < 10_000:
        head, _, document = answer.partition(b"\r\n\r\n")
        assert b"application/problem+json" in head
        assert "larger than 2,000 bytes" in json.loads(document)["detail"]
    assert healthy(port)


def test_a_head_of_decent_size_passes(port):
    last = b"X: " + b"x" * 1500 + b"\r\nConnection: close\r\n\r\n"
    assert status(ask(port, HEALTH + last)) == 200


def test_what_is_no_request_is_told_so_in_the_usual_form(port):
    head, _, document = ask(port, b"nonsense\r\n\r\n").partition(b"\r\n\r\n")
    assert status(head) == 400
    assert json.loads(document)["status"] == 400


@pytest.mark.parametrize("start", [b"", b"GET /hea", HEALTH, HEALTH + b"\r\n" + HEALTH])
def test_slow_clients_are_left(port, start):
    with connect(port) as connection:
        connection.sendall(start)
        answer = read_all(connection)
    if start == HEALTH:
        assert status(answer) == 408


def test_a_new_connection_takes_the_place_of_the_one_that_waits_the_longest():
    limits = ConnectionLimits(max_connections=4, patience=60)
    with serving(limits) as server, ExitStack() as stack:
        port, slow = port_of(server), []
        for number in range(1, 5):
            slow.append(stack.enter_context(connect(port)))
            wait_for(lambda n=number: len(clients(server)) == n)
        slow[3].sendall(b"GET /he")
        assert healthy(port)
        assert read_all(slow[0]) == b""
        slow[3].sendall(b"alth HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert status(read_all(slow[3])) == 200


def test_an_answer_that_nobody_reads_is_given_up(server, port):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        address = connection.getsockname()
        wait_for(lambda: address in clients(server, busy=True))
        wait_for(lambda: address not in clients(server))
        assert len(read_all(connection)) < 20_000_000


def test_an_answer_that_is_read_slowly_arrives(port):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        n_read, begin = 0, time.monotonic()
        while n_read < 20_000_000:  # four seconds, where nothing at all is allowed for one
            part = connection.recv(1_000_000)
            assert part
            n_read += len(part)
            time.sleep(max(0.0, 4 * n_read / 20_000_000 - (time.monotonic() - begin)))


def test_unread_answers_are_bounded_together():
    limits = ConnectionLimits(patience=60, max_unread_bytes=30_000_000)
    with serving(limits) as server, ExitStack() as stack:
        port, readers = port_of(server), []
        for _ in range(3):
            readers.append(stack.enter_context(connect(port)))
            readers[-1].sendall(
                b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            address = readers[-1].getsockname()
            wait_for(lambda a=address: a in clients(server, busy=True))
        wait_for(lambda: len(clients(server)) == 1)
        whole = [len(read_all(connection)) > 20_000_000 for connection in readers]
        assert whole == [False, False, True]


def test_requests_sent_ahead_are_bounded(port, caplog):
    request = HEALTH + b"\r\n"
    with connect(port) as connection:
        connection.sendall(request * 5)
        answers = b""
        while answers.count(b"ok") < 5:
            answers += connection.recv(65536)
    assert answers.count(b"HTTP/1.1 200") == 5
    assert ask(port, request * 5000).count(b"HTTP/1.1 200") < 100
    with connect(port) as connection:  # and goes away without waiting for the answers
        connection.sendall(request * 10)
    assert healthy(port)
    assert "Traceback" not in caplog.text


def test_a_client_that_goes_away_leaves_no_error_in_the_log(server, port, caplog):
    for _ in range(5):
        with connect(port) as connection:
            connection.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nhalf")
            address = connection.getsockname()
            wait_for(lambda a=address: a in clients(server, busy=True))
    assert healthy(port)
    assert not [record for record in caplog.records if record.levelname != "INFO"]


def test_connections_are_never_more_than_files_that_may_be_open():
    assert open_files_limit() >= resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_service_with_few_files_answers_whatever_is_connected(tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=data.attributes_of(data.seen_classes)).save(tmp_path / "m")
    process = subprocess.Popen(
        [*HGKT, "serve", "--port", "0", "--grace", "0", "--model", str(tmp_path / "m")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "1000"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
    )
    try:
        port = int(re.search(r":(\d+)$", process.stdout.readline().strip())[1])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                if healthy(port):
                    break
            except OSError:
                time.sleep(0.1)
        with ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(connect(port)).sendall(b"GET /he")
            assert healthy(port)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors
