"""Several worker processes of the real server: one set of classes, one total, no interruption."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier

pytestmark = [
    pytest.mark.endure,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX"),
]


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture
def folder(digits, tmp_path):
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    return model.save(tmp_path / "digits")


def classes(service):
    answers = service.ask("/v1/model")
    return {worker: json.loads(text)["n_classes"] for worker, text in answers.items()}


def test_workers_share_classes_counts_and_survive_a_kill(folder, digits, serve):
    with serve("--model", folder, "--workers", 2) as service:
        assert service.until(lambda: len(classes(service)) == 2)
        vector = digits.attributes_of([2])["two"].tolist()
        body = {"classes": [{"name": "two", "vector": vector}]}
        status, text, _ = service.call("POST", "/v1/classes", body)
        assert status == 201, text
        assert service.until(lambda: list(classes(service).values()) == [9, 9], 5)

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
        assert service.until(lambda: service.call("GET", "/ready")[0] == 200)
        assert service.until(lambda: len(set(classes(service)) - {min(before)}) == 2)
        assert set(classes(service).values()) == {9}
        assert "hgkt_predictions_total 18.0" in service.call("GET", "/metrics")[1]

        service.process.terminate()
        _, errors = service.process.communicate(timeout=30)
        assert service.process.returncode == 0
        assert "Traceback" not in errors
