"""Signals at any moment: what is told, what is still answered, and that it ends."""

from __future__ import annotations

import errno
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

HGKT = [sys.executable, "-m", "hgkt"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

pytestmark = [
    pytest.mark.endure,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
]


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.fixture
def place():
    """A folder for temporary files that no other test's service uses."""
    with tempfile.TemporaryDirectory(prefix="ending-") as folder:
        yield Path(folder)


def shared_folders(place):
    return set(place.glob("hgkt-serve-*"))


def refused(port):
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def workers_of(service):
    found = {}
    assert service.until(lambda: found.update(service.ask("/ready")) or len(found) > 1)
    return set(found)


class Client(threading.Thread):
    """Predicts without a pause, as long as the service says that it is ready."""

    def __init__(self, port, row):
        super().__init__(daemon=True)
        self.port, self.body = port, json.dumps({"features": [row]})
        self.n_answers, self.failures, self.told = 0, [], False

    def run(self):
        while not self.told:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.request("GET", "/ready")
                answer = connection.getresponse()
                answer.read()
                self.told = answer.status == 503
                for _ in range(0 if self.told else random.randrange(1, 4)):
                    headers = {"Content-Type": "application/json"}
                    connection.request("POST", "/v1/predict", self.body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    self.n_answers += 1
                    if answer.status != 200:
                        self.failures.append(answer.status)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                return
            finally:
                connection.close()


@pytest.mark.parametrize("n_workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_client_that_honours_readiness_sees_no_failure(digits_folder, digits, serve, n_workers):
    row = digits.rows("test_seen")[0][0].tolist()
    # Longer than any client takes to look at /ready; a second signal skips what is left.
    arguments = ("--model", digits_folder, "--workers", n_workers, "--grace", 120)
    with serve(*arguments) as service:
        clients = [Client(service.port, row) for _ in range(6)]
        for client in clients:
            client.start()
        assert service.until(lambda: min(client.n_answers for client in clients) > 3)
        # To all processes at once, as terminals and service managers do.
        os.killpg(service.process.pid, signal.SIGTERM)
        assert service.until(lambda: service.call("GET", "/ready")[0] == 503)
        # It still answers, whoever comes.
        assert service.call("GET", "/health")[0] == 200
        status, text, _ = service.call("POST", "/v1/predict", {"features": [row]})
        assert status == 200, text
        for client in clients:
            client.join(timeout=60)
        assert all(client.told for client in clients)
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=60)
    assert service.process.returncode == 0, errors
    assert "Traceback" not in errors
    assert [client.failures for client in clients] == [[]] * 6
    assert sum(client.n_answers for client in clients) > 20


@pytest.mark.parametrize("n_workers", [1, 2])
def test_who_has_connected_is_answered(digits_folder, digits, serve, n_workers):
    rows = digits.rows("test_seen")[0][:100]
    body = json.dumps({"features": rows.tolist(), "explain": False}).encode()
    head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
    arguments = ("--model", digits_folder, "--workers", n_workers, "--grace", 5)
    with serve(*arguments, "--shutdown-timeout", 60) as service:
        connections = []
        for _ in range(24):
            connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            connection.sendall(request)
            connections.append(connection)
        service.process.send_signal(signal.SIGTERM)
        answers = [http.client.HTTPResponse(connection) for connection in connections]
        for answer in answers:
            answer.begin()
            assert len(json.loads(answer.read())["predictions"]) == 100
        assert {answer.status for answer in answers} == {200}
        assert service.process.wait(timeout=60) == 0
        assert refused(service.port)


def test_a_second_signal_skips_the_grace_and_a_half_sent_request_does_not_hold(
    digits_folder, serve
):
    arguments = ("--model", digits_folder, "--grace", 120, "--shutdown-timeout", 1)
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with (
        serve(*arguments) as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=30) as half,
    ):
        half.sendall(head)
        service.process.send_signal(signal.SIGTERM)
        assert service.until(lambda: service.call("GET", "/ready")[0] == 503)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=100) in (0, 1)  # the grace would not be over


@pytest.mark.parametrize("n_workers", [1, 3])
def test_a_signal_during_the_start_ends_the_process(digits_folder, n_workers, place):
    rng = random.Random(n_workers)
    command = [*HGKT, "serve", "--model", digits_folder, "--port", 0, "--workers", n_workers]
    command += ["--grace", 0]
    for moment in range(3):
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, "TMPDIR": str(place)},
        )
        time.sleep(0.3 + moment + rng.random())
        sign = rng.choice((signal.SIGTERM, signal.SIGINT))
        process.send_signal(sign)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -sign, 130), errors
        if process.returncode == 0:
            assert "Traceback" not in errors
    assert shared_folders(place) == set()


def test_a_service_whose_first_worker_cannot_start_ends_with_one_sentence(digits_folder):
    command = [*HGKT, "serve", "--model", digits_folder / "nothing", "--port", 0, "--workers", 2]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_first_worker_that_is_killed_while_it_starts_is_replaced(digits_folder):
    command = [*HGKT, "serve", "--model", digits_folder, "--port", 0, "--workers", 2]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        workers = []
        while not workers and process.poll() is None:
            listed = ["ps", "-o", "pid=", "--ppid", str(process.pid)]
            workers = subprocess.run(listed, capture_output=True, text=True).stdout.split()
        os.kill(int(workers[0]), signal.SIGKILL)
        assert "serving" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()


def test_workers_die_with_their_parent_and_its_folder_is_swept(digits_folder, serve, place):
    with serve("--model", digits_folder, "--workers", 2, TMPDIR=str(place)) as service:
        workers = workers_of(service)
        (folder,) = shared_folders(place)
        service.process.kill()
        service.process.wait()
        assert service.until(lambda: not any(map(alive, workers)))
        assert service.until(lambda: refused(service.port))
        assert list(place.iterdir()) == [folder]  # nothing of the libraries stays behind
    with serve("--model", digits_folder, TMPDIR=str(place)):
        assert not folder.exists()


def test_a_stop_ends_in_time_when_workers_died_or_hang(digits_folder, serve):
    arguments = ("--workers", 2, "--grace", 1, "--shutdown-timeout", 1)
    with serve("--model", digits_folder, *arguments) as service:
        first, second = workers_of(service)
        os.kill(first, signal.SIGKILL)
        os.kill(second, signal.SIGSTOP)
        service.process.send_signal(signal.SIGTERM)
        _, errors = service.process.communicate(timeout=60)
        assert not alive(second)
    assert service.process.returncode == 1
    assert f"worker {second} did not end within 4 s and is killed" in errors
    assert "Traceback" not in errors
