"""The model's card, the map and the samples."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from sklearn.decomposition import PCA

from hgkt.data import load_dataset
from hgkt.estimators import METHODS, HGKTClassifier
from hgkt.exceptions import DataError
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.samples import load_samples, spread


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits.rows("train")
    model = HGKTClassifier(calibration=0.3, device="cpu")
    return model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))


@pytest.fixture
def small_model():
    X = np.random.default_rng(0).random((8, 12))
    return HGKTClassifier(device="cpu").fit(X, ["a", "b"] * 4, {"a": [0.0, 1.0], "b": [1.0, 0.0]})


@pytest.fixture
def folder(model, digits, tmp_path):
    return model.save(
        tmp_path / "digits",
        data="digits",
        root="/somewhere/private",
        attribute_names=list(digits.attribute_names),
        attribute_blocks=[20],
        pixels=digits.about["pixels"],
    )


@pytest.fixture
def client(folder):
    with TestClient(create_app(ServiceSettings(folder, samples="digits"))) as client:
        yield client


def add(client, digits, name):
    vector = digits.attributes_of([digits.class_names.index(name)])[name].tolist()
    response = client.post("/v1/classes", json={"classes": [{"name": name, "vector": vector}]})
    assert response.status_code == 201, response.text


def test_model_card_says_what_is_served(client, digits, folder):
    card = client.get("/v1/model").json()
    assert card["name"] == folder.name
    assert card["method"] == "hgkt"
    assert (card["n_features"], card["n_attributes"]) == (64, 20)
    assert (card["n_classes"], card["n_seen_classes"], card["n_added_classes"]) == (8, 8, 0)
    assert card["attribute_names"] == list(digits.attribute_names)
    seen = digits.class_attributes[digits.seen_classes]
    np.testing.assert_allclose(card["attribute_ranges"], np.stack([seen.min(0), seen.max(0)], 1))
    assert card["accepts"] == {
        "vector": True,
        "attributes": True,
        "text": False,
        "name_alone": False,
        "images": False,
        "texts": False,
        "pixels": {"height": 8, "width": 8, "maximum": 16},
    }
    assert card["explains"] is True
    assert card["needs_key"] is False
    assert card["n_samples"] == 60
    assert card["limits"]["rows"] == 4096
    assert card["parameters"]["calibration"] == 0.3
    assert card["about"]["data"] == "digits"


def test_model_card_tells_no_paths_of_the_machine(client):
    assert "private" not in client.get("/v1/model").text


def test_model_card_follows_the_classes(client, digits):
    add(client, digits, "two")
    card = client.get("/v1/model").json()
    assert (card["n_classes"], card["n_added_classes"], card["revision"]) == (9, 1, 1)
    ranges = np.array(card["attribute_ranges"])
    seen = digits.class_attributes[digits.seen_classes]
    np.testing.assert_allclose(ranges[:, 1], seen.max(0))


def test_map_equals_principal_components_of_the_seen_classes(client, model, digits):
    before = client.get("/v1/map").json()
    rows = model.class_embeddings_.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    reference = PCA(2).fit(rows)
    places = np.array([[point["x"], point["y"]] for point in before["points"]])
    np.testing.assert_allclose(np.abs(places), np.abs(reference.transform(rows)), atol=1e-6)
    np.testing.assert_allclose(before["explained"], reference.explained_variance_ratio_)
    add(client, digits, "six")
    after = client.get("/v1/map").json()
    assert after["revision"] == 1
    assert after["points"][:-1] == before["points"]
    assert after["points"][-1]["name"] == "six"
    assert after["points"][-1]["seen"] is False


def test_map_of_a_method_without_embeddings_shows_attributes(digits, tmp_path):
    X, y = digits.rows("train")
    model = METHODS.load("dap")().fit(X, y, digits.attributes_of(digits.seen_classes))
    with TestClient(create_app(ServiceSettings(model.save(tmp_path / "dap")))) as client:
        answer = client.get("/v1/map").json()
        assert len(answer["points"]) == 8
        assert client.get("/v1/model").json()["method"] == "dap"


def test_samples_show_the_pixels_that_their_features_are(client, digits):
    samples = client.get("/v1/samples").json()["samples"]
    assert len(samples) == 60
    unseen = [sample for sample in samples if not sample["seen"]]
    assert {sample["label"] for sample in unseen} == {"two", "six"}
    assert len({sample["label"] for sample in samples}) == 10
    for sample in samples[::17]:
        detail = client.get(f"/v1/samples/{sample['id']}").json()
        assert detail["label"] == sample["label"]
        kind, _, content = sample["thumbnail"].partition(",")
        assert kind == "data:image/png;base64"
        image = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))), dtype=float)
        ink = 16 * (1 - image / 255)
        np.testing.assert_allclose(ink.ravel(), detail["features"], atol=0.04)
    missing = client.get("/v1/samples/60")
    assert missing.status_code == 404
    assert missing.json()["detail"] == "there is no sample '60'"


def test_samples_are_empty_without_a_data_set(folder):
    with TestClient(create_app(ServiceSettings(folder))) as client:
        assert client.get("/v1/samples").json() == {"samples": []}
        assert client.get("/v1/model").json()["n_samples"] == 0


def test_samples_of_another_width_are_refused(small_model):
    with pytest.raises(DataError, match="has 64 features a row; the model expects 12"):
        load_samples(small_model, "digits")


def test_spread_takes_rows_of_all_classes_evenly():
    labels = np.repeat(np.arange(5), 20)
    rows = np.arange(100)
    chosen = spread(labels, rows, 12)
    assert np.bincount(labels[chosen]).tolist() == [3, 3, 2, 2, 2]
    assert len(set(chosen)) == 12
    assert len(spread(labels, rows, 3)) == 3
    assert spread(labels, rows[:0], 3) == []
