"""Several worker processes of the real server: one set of classes, one total, no interruption."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier

HGKT = [sys.executable, "-c", "from hgkt.cli.main import run; run()"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "300"}
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture
def folder(digits, tmp_path):
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    return model.save(tmp_path / "digits")


class Service:
    """A running server: requests over connections of their own, so that any worker may answer."""

    def __init__(self, process, port):
        self.process, self.port = process, port

    def call(self, method, path, document=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, text, int(response.headers.get("X-Worker", 0))
        finally:
            connection.close()

    def ask(self, path):
        """Return the answer by worker, of many requests."""
        found = {}
        for _ in range(40):
            try:
                status, text, worker = self.call("GET", path)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
                continue
            if status == 200:
                found[worker] = text
            if len(found) > 1:
                break
        return found

    def until(self, condition, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.05)
        return False


@contextmanager
def served(*arguments):
    process = subprocess.Popen(
        [*HGKT, "serve", "--port", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)$", line.strip())
        assert found, line + process.stderr.read()
        service = Service(process, int(found[1]))
        assert service.until(lambda: service.ask("/ready"))
        yield service
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)
        for stream in (process.stdout, process.stderr):
            stream.close()


def classes(service):
    answers = service.ask("/v1/model")
    return {worker: json.loads(text)["n_classes"] for worker, text in answers.items()}


def test_workers_share_classes_counts_and_survive_a_kill(folder, digits):
    with served("--model", folder, "--workers", 2) as service:
        assert service.until(lambda: len(classes(service)) == 2)
        vector = digits.attributes_of([2])["two"].tolist()
        body = {"classes": [{"name": "two", "vector": vector}]}
        status, text, _ = service.call("POST", "/v1/classes", body)
        assert status == 201, text
        start = time.monotonic()
        assert service.until(lambda: list(classes(service).values()) == [9, 9], 5)
        assert time.monotonic() - start < 5

        X = digits.rows("test_unseen")[0][:3]
        for _ in range(6):
            status, text, _ = service.call("POST", "/v1/predict", {"features": X.tolist()})
            assert status == 200
            assert json.loads(text)["revision"] == 1
        metrics = service.call("GET", "/metrics")[1]
        assert "hgkt_predictions_total 18.0" in metrics
        assert "hgkt_classes_added_total 1.0" in metrics
        assert "hgkt_classes 9.0" in metrics

        before = set(classes(service))
        os.kill(min(before), signal.SIGKILL)
        # The other one goes on answering while a new one is started.
        assert service.until(lambda: service.call("GET", "/ready")[0] == 200, 10)
        assert service.until(lambda: len(set(classes(service)) - {min(before)}) == 2)
        assert set(classes(service).values()) == {9}
        assert "hgkt_predictions_total 18.0" in service.call("GET", "/metrics")[1]

        service.process.terminate()
        _, errors = service.process.communicate(timeout=30)
        assert service.process.returncode == 0
        assert "Traceback" not in errors
