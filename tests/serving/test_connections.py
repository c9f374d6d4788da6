"""Connections of the real server: heads, requests sent ahead, few open files, a changed folder."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys

import pytest

from hgkt.estimators import load_model

pytestmark = [
    pytest.mark.endure,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and limits are POSIX"),
]
HOST = b"Host: 127.0.0.1\r\n"


def talk(port, content):
    """Send bytes as they are; return all that is answered until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        with contextlib.suppress(OSError):  # it may be refused before all of it is sent
            connection.sendall(content)
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(65536):
                found += part
        return found


@pytest.fixture(scope="module")
def port(digits_folder, module_serve):
    with module_serve("--model", digits_folder) as service:
        yield service.port


@pytest.mark.parametrize(
    "content",
    [
        b"GET /health?" + b"a" * 40_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"X-Long: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"X-Many: aaaaaaaaaa\r\n" * 2000 + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + HOST + b"X-Endless: " + b"a" * 300_000,
        b"POST /v1/predict HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
        b"X-Trailer: " + b"a" * 300_000,
    ],
    ids=["address", "header", "headers", "endless header", "endless trailer"],
)
def test_a_large_head_is_refused(port, content):
    answer = talk(port, content)
    # A request that was refused for something else before its end is not answered twice.
    assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 415 "))
    assert answer.count(b"HTTP/1.1") == 1
    if answer.startswith(b"HTTP/1.1 431 "):
        problem = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert problem["detail"] == "the head of the request is larger than 32,768 bytes"


def test_a_head_of_decent_size_passes(port):
    head = b"GET /health HTTP/1.1\r\n" + HOST + b"Connection: close\r\nX-Long: " + b"a" * 30_000
    assert talk(port, head + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_what_is_no_request_is_told_so_in_the_usual_form(port):
    answer = talk(port, b"\x16\x03\x01 hello\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"application/problem+json" in answer


def test_requests_sent_ahead_are_bounded_and_answered_in_order(port):
    one = b"GET /v1/samples/%d HTTP/1.1\r\n" + HOST + b"\r\n"
    last = (one % 4).replace(HOST, HOST + b"Connection: close\r\n")
    few = talk(port, b"".join(one % number for number in range(4)) + last)
    places = [few.index(b"no sample '%d'" % number) for number in range(5)]
    assert places == sorted(places)
    assert b"too many requests were sent ahead" in talk(port, one % 1 * 500)


def test_a_service_with_few_files_answers_again_when_connections_end(digits_folder, serve):
    with serve("--model", digits_folder) as service:
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        with contextlib.ExitStack() as stack:
            for _ in range(100):  # the listen queue takes those that cannot be accepted
                address = ("127.0.0.1", service.port)
                stack.enter_context(socket.create_connection(address, timeout=30))
        assert service.until(lambda: service.ask("/health"))
        assert service.process.poll() is None


def test_a_worker_refuses_a_folder_that_was_changed(digits_folder, serve, tmp_path):
    model = load_model(digits_folder)
    folder = model.save(tmp_path / "model")
    with serve("--model", folder, "--workers", 2) as service:
        assert service.until(lambda: len(service.ask("/ready")) == 2)
        first = service.ask("/ready")
        model.remove_classes(["blot"])
        model.save(folder, overwrite=True)
        os.kill(min(first), signal.SIGKILL)
        line = service.process.stderr.readline()
        while line and "cannot start" not in line:
            line = service.process.stderr.readline()
        assert "is not the one that the service was started with" in line
        assert set(service.ask("/ready")) == {max(first)}  # which goes on with what it has
        os.kill(max(first), signal.SIGKILL)
        _, errors = service.process.communicate(timeout=60)
        assert service.process.returncode != 0
        last = errors.splitlines()[-1]
        assert last.startswith(f"error: the model folder {folder} is not the one that the service")
        assert "Traceback" not in errors


def children(parent):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True)
    return {int(number) for number in found.stdout.split()}


def test_no_process_is_one_that_the_service_cannot_lose(digits_folder, serve):
    with serve("--model", digits_folder, "--workers", 2) as service:
        assert service.until(lambda: len(service.ask("/ready")) == 2)
        workers = set(service.ask("/ready"))
        assert children(service.process.pid) == workers  # there is nothing but workers
        for _ in range(3):
            for worker in children(service.process.pid):
                os.kill(worker, signal.SIGKILL)
                assert service.until(lambda gone=worker: gone not in service.ask("/ready"))
                assert service.until(lambda: len(service.ask("/ready")) == 2)
        assert service.process.poll() is None


def test_what_is_answered_when_a_connection_is_refused_is_no_error(digits_folder, serve):
    one = b"GET /v1/model HTTP/1.1\r\n" + HOST + b"\r\n"
    with serve("--model", digits_folder) as service:
        for number in range(100):
            talk(service.port, one * (1 + number % 4) + b"\x16\x03\x01 no request\r\n\r\n")
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=60)
    assert "Traceback" not in errors
