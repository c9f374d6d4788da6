"""How sure answers are, over HTTP: the same as the model says."""

from __future__ import annotations

import numpy as np
import pytest
from fastapi.testclient import TestClient

from hgkt.estimators import HGKTClassifier
from hgkt.serving import ServiceSettings, create_app

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits.rows("train")
    fitted = HGKTClassifier(device="cpu").fit(X, y, digits.attributes_of(digits.seen_classes))
    return fitted.add_classes(digits.attributes_of(digits.unseen_classes))


@pytest.fixture(scope="module")
def rows(digits):
    return digits.rows("test_unseen")[0][:30]


@pytest.fixture(scope="module")
def client(model, tmp_path_factory):
    folder = model.save(tmp_path_factory.mktemp("sure") / "model")
    with TestClient(create_app(ServiceSettings(folder))) as found:
        yield found


def test_probabilities_novelty_and_sets_are_the_models(client, model, rows):
    body = {"features": rows.tolist(), "top_k": 10, "reject": 0.4, "coverage": 0.7}
    found = client.post("/v1/predict", json=body).json()["predictions"]
    expected = model.answers(rows, reject=0.4, coverage=0.7)
    chances = dict(zip(expected.classes.tolist(), expected.probabilities.T, strict=True))
    sets = expected.sets()
    assert any(row["label"] is None for row in found)
    for number, row in enumerate(found):
        assert row["novelty"] == pytest.approx(expected.novelty[number], abs=1e-9)
        assert row["set"] == sets[number].tolist()
        for entry in row["top"]:
            assert entry["probability"] == pytest.approx(chances[entry["label"]][number], abs=1e-9)
        label = expected.labels[number]
        assert row["label"] == (None if label == "<unknown>" else label)


def test_octets_are_asked_by_the_query(client, model, rows):
    content = rows.astype("<f4").tobytes()
    found = client.post("/v1/predict?confidence=true", content=content, headers=OCTETS).json()
    chances = [row["probability"] for row in found["predictions"]]
    np.testing.assert_allclose(chances, model.predict_proba(rows).max(axis=1), atol=1e-9)
    assert found["predictions"][0]["set"] is None


def test_who_does_not_ask_gets_what_there_was(client, rows):
    found = client.post("/v1/predict", json={"features": rows[:1].tolist()}).json()
    assert set(found["predictions"][0]) == {"label", "seen", "score", "top", "explanation"}


@pytest.mark.parametrize("value", [0, 1, -1, "much"])
def test_shares_outside_zero_and_one_are_refused(client, rows, value):
    body = {"features": rows[:1].tolist(), "reject": value}
    assert client.post("/v1/predict", json=body).status_code == 422
    content = rows[:1].astype("<f4").tobytes()
    asked = client.post(f"/v1/predict?coverage={value}", content=content, headers=OCTETS)
    assert asked.status_code == 422


def test_a_model_without_thresholds_says_so(digits, rows, tmp_path):
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.1, device="cpu")
    model.fit(X, y, digits.attributes_of(digits.seen_classes))
    with TestClient(create_app(ServiceSettings(model.save(tmp_path / "model")))) as client:
        assert client.get("/v1/model").json()["confident"] is False
        body = {"features": rows[:1].tolist(), "confidence": True}
        found = client.post("/v1/predict", json=body)
    assert found.status_code == 422
    assert "cannot say how sure it is" in found.json()["detail"]
