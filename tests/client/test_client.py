"""The client against the real service."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import hgkt
from hgkt.client import ClassInfo, RetryPolicy
from hgkt.data import load_dataset
from hgkt.exceptions import (
    DataError,
    HGKTError,
    MissingExtraError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnavailableError,
)

KEY = "a key of some length"


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits.rows("train")
    model = hgkt.HGKTClassifier(calibration=0.3, device="cpu")
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    return model.add_classes({"two": digits.attributes_of([2])["two"]})


@pytest.fixture(scope="module")
def address(model, digits, run_service, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client") / "digits"
    model.save(folder, attribute_names=list(digits.attribute_names))
    with run_service(folder, api_keys=(KEY,), max_rows=100) as found:
        yield found


@pytest.fixture
def client(address):
    with hgkt.Client(address, KEY, batch_rows=50) as found:
        yield found
        for added in found.classes("added"):
            if added.name != "two":
                found.remove_class(added.name)


@pytest.fixture(scope="module", name="X")
def rows(digits):
    return digits.rows("test_unseen")[0]


# ---------------------------------------------------------------------- predictions
def test_predictions_are_the_models_own_over_many_batches(client, model, X):
    assert len(X) > 100  # more than the service takes at once
    labels = client.predict(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert labels.dtype.kind == "U"
    np.testing.assert_array_equal(client.predict(X[:3].tolist()), model.predict(X[:3]))
    np.testing.assert_array_equal(client.predict(X, among="unseen"), ["two"] * len(X))


def test_rankings_have_scores_and_their_revision(client, model, X):
    found = client.rank(X, top_k=3)
    scores = np.sort(model.decision_function(X), axis=1)[:, ::-1][:, :3]
    assert found.labels.shape == found.scores.shape == (len(X), 3)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.labels[:, 0], model.predict(X))
    np.testing.assert_array_equal(found.seen, found.labels[:, 0] != "two")
    few = client.rank(X[:4], top_k=5, among=["one", "two"])
    assert few.labels.shape == (4, 2)
    assert set(few.labels.ravel()) == {"one", "two"}
    assert found.revision == few.revision == client.model()["revision"]


def test_thousands_of_candidates_go_through(client, X):
    names = [f"a class with quite a long name, number {number}" for number in range(200)]
    rng = np.random.default_rng(0)
    client.add_classes({name: rng.random(20) for name in names})
    found = client.rank(X[:2], top_k=2, among=names)
    assert set(found.labels.ravel()) <= set(names)
    assert len(client.classes()) == 209


@pytest.mark.parametrize(
    "wrong", [[1.0, 2.0], [], [[]], [["a", "b"]], np.zeros((2, 3, 4)), [[1j]], [[np.nan] * 64]]
)
def test_what_is_no_rows_is_not_sent(client, wrong):
    with pytest.raises(DataError, match=r"rows of numbers are expected|NaN in row 0"):
        client.predict(wrong)


def test_refusals_are_the_services_sentences(client, X):
    with pytest.raises(ServiceRefusedError, match="rows of 64 float32 numbers") as caught:
        client.predict(X[:, :7])
    assert caught.value.status == 422
    assert len(caught.value.request_id) == 32
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ServiceRefusedError, match="among names class 'unicorn'"):
        client.predict(X[:1], among=["unicorn"])
    with pytest.raises(DataError, match="top_k"):
        client.rank(X[:1], top_k=0)
    with pytest.raises(HGKTError, match="this model reads feature vectors, not images"):
        client.predict_images([b"some bytes"])
    with pytest.raises(DataError, match=r"nothing.png cannot be read: No such file"):
        client.predict_images(["nothing.png"])
    with pytest.raises(DataError, match="there are no images"):
        client.predict_images([])


def test_images_are_sent_in_batches(run_service, tmp_path):
    from PIL import Image

    vision = pytest.importorskip("hgkt.vision")
    colors = {"red": (200, 20, 20), "blue": (20, 40, 200)}
    backbone = vision.load_backbone("efficientnet-lite0")
    images = [Image.new("RGB", (32, 32), color) for color in colors.values() for _ in range(2)]
    model = hgkt.HGKTClassifier(feature_map="l2", calibration=0.0)
    model.fit(backbone.extract(images), np.repeat([*colors], 2), {"red": [1, 0], "blue": [0, 1]})
    model.save(tmp_path / "colors", backbone=backbone.record)
    Image.new("RGB", (40, 30), colors["blue"]).save(tmp_path / "blue.png")
    Image.new("RGB", (40, 30), colors["red"]).save(tmp_path / "red.png")
    some = [tmp_path / "blue.png", str(tmp_path / "red.png"), (tmp_path / "red.png").read_bytes()]
    with run_service(tmp_path / "colors") as address, hgkt.Client(address) as client:
        assert client.predict_images(some * 6).tolist() == ["blue", "red", "red"] * 6
        for _ in range(2):  # the second time it is known already
            grown = client.grow_class("red", images=some[1:], idempotency_key="two-reds")
            assert (grown.revision, grown.n_examples) == (1, 2)
        reds = [Image.new("RGB", (40, 30), colors["red"])] * 2
        expected = model.partial_fit(backbone.extract(reds), ["red"] * 2)
        rows = backbone.extract(images)
        found = client.rank(rows, top_k=2, among=["blue", "red"])
        best = np.sort(expected.score_classes(rows), axis=1)[:, ::-1]
        np.testing.assert_allclose(found.scores, best, atol=1e-5)


def test_answers_say_how_sure_they_are(run_service, model, digits, X, tmp_path):
    sure = hgkt.HGKTClassifier(device="cpu")
    sure.fit(*digits.rows("train"), digits.attributes_of(digits.seen_classes))
    sure.save(tmp_path / "sure")
    with run_service(tmp_path / "sure") as address, hgkt.Client(address, batch_rows=20) as client:
        found = client.answers(X[:50], top_k=2, reject=0.3, coverage=0.8)
        expected = sure.answers(X[:50], reject=0.3, coverage=0.8)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(client.predict(X[:50], reject=0.3), expected.labels)
        assert hgkt.UNKNOWN in found.labels
        np.testing.assert_allclose(found.novelty, expected.novelty, atol=1e-6)
        best = np.sort(expected.probabilities, axis=1)[:, ::-1][:, :2]
        np.testing.assert_allclose(found.probabilities, best, atol=1e-6)
        assert [set(row) for row in found.sets] == [set(row.tolist()) for row in expected.sets()]
        assert client.answers(X[:2]).sets is None


# ---------------------------------------------------------------------- classes
def test_classes_come_and_go(client, digits, X):
    six = digits.attributes_of([6])["six"]
    before = client.model()["revision"]
    change = client.add_class("six", vector=six)
    assert (change.names, change.revision, change.n_classes) == (("six",), before + 1, 10)
    assert "six" in client.predict(X)
    named = dict(zip(digits.attribute_names, six.tolist(), strict=True))
    twin = client.add_classes({"sixth": named})
    assert "six" in twin.warnings[0]
    added = client.classes("added")
    assert [item.name for item in added] == ["two", "six", "sixth"]
    assert not added[1].seen
    assert added[1].added_at.startswith("20")
    assert client.classes("seen", query="NINE") == [ClassInfo("nine", seen=True, kind="learned")]
    assert client.remove_class("sixth").names == ("sixth",)
    removed = client.remove_class("six")
    assert (removed.names, removed.n_classes) == (("six",), 9)


def test_wrong_changes_are_told(client, address, digits):
    six = digits.attributes_of([6])["six"]
    for status, sentence, change in (
        (409, "'one'", lambda: client.add_class("one", vector=six)),
        (409, "learned from instances", lambda: client.remove_class("one")),
        (404, r"'a/b\?c'", lambda: client.remove_class("a/b?c")),
        (422, "needs one of vector, attributes and text", lambda: client.add_class("new")),
        (422, "not", lambda: client.add_classes({"new": "a sentence, of which it knows nothing"})),
    ):
        with pytest.raises(ServiceRefusedError, match=sentence) as caught:
            change()
        assert caught.value.status == status
    with pytest.raises(DataError, match="must be one row of numbers"):
        client.add_class("new", vector=[[1.0]])
    with pytest.raises(DataError, match="'new' must be finite"):
        client.add_class("new", attributes={"segment a": float("inf")})
    with hgkt.Client(address, "not the key of this one") as stranger:
        with pytest.raises(ServiceRefusedError, match="unknown API key"):
            stranger.remove_class("two")
        assert stranger.predict(np.zeros((1, 64)), among="unseen") == ["two"]


# ---------------------------------------------------------------------- the service
def test_probes_and_the_card(client):
    assert client.health()
    assert client.ready()
    assert client.wait_until_ready() is client
    assert client.model()["n_features"] == 64


def test_a_service_that_is_not_there():
    with hgkt.Client("http://127.0.0.1:9", retry=RetryPolicy(retries=1, first=0.01)) as client:
        assert not client.health()
        assert not client.ready()
        with pytest.raises(ServiceUnavailableError, match=r"does not answer: .*refused") as caught:
            client.predict([[1.0]])
        assert caught.value.status is None
        assert isinstance(caught.value, ConnectionError)
        with pytest.raises(ServiceError, match=r"not ready after 0\.1 s"):
            client.wait_until_ready(0.1)


def test_wrong_settings_are_told():
    with pytest.raises(DataError, match="is no address of a service"):
        hgkt.Client("localhost:8000")
    with pytest.raises(DataError, match="timeout"):
        hgkt.Client("http://localhost", timeout=0)
    with pytest.raises(DataError, match="batch_rows"):
        hgkt.Client("http://localhost", batch_rows=0)
    with pytest.raises(DataError, match="retries"):
        RetryPolicy(retries=-1)
    assert KEY not in repr(hgkt.Client("http://localhost", KEY))


def test_without_httpx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hgkt\[client\]'"):
        hgkt.Client("http://localhost")


# ---------------------------------------------------------------------- the life of a class
def test_a_class_lives(client, digits, X):
    six = digits.attributes_of([6])["six"]
    sixes = X[digits.rows("test_unseen")[1] == "six"]
    (check,) = client.check_classes({"six": six})
    assert check["name"] == "six"
    assert check["sentences"]
    first = client.add_class("six", vector=six, reason="it came")
    described = np.mean(client.predict(sixes[80:]) == "six")
    grown = client.grow_class("six", sixes[:80], reason="photographs", idempotency_key="lives")
    assert (grown.names, grown.n_examples) == (("six",), 80)
    assert grown.revision == first.revision + 2  # in two batches
    again = client.grow_class("six", sixes[:80], reason="photographs", idempotency_key="lives")
    assert again == grown
    assert np.mean(client.predict(sixes[80:]) == "six") > described
    (info,) = client.classes(query="six")
    assert (info.kind, info.n_examples, info.seen) == ("grown", 80, True)
    assert client.rename_class("six", "a/six").names == ("a/six",)
    changed = client.edit_class("a/six", vector=six / 2, new_name="six", reason="too loud")
    assert changed.names == ("six",)
    client.remove_class("six", reason="a trial")
    log = list(client.events(after=first.revision - 1))
    assert [change.kind for change in log] == ["add", "grow", "grow", "rename", "edit", "remove"]
    assert [change.reason for change in log][-2:] == ["too loud", "a trial"]
    assert log[3].after["name"] == "a/six"
    assert list(client.events(name="a/six"))[-1].kind == "edit"
    back = client.rollback(grown.revision, reason="no trial")
    assert back.names == ("six",)
    then = client.predict(sixes[80:], revision=first.revision)
    assert np.mean(then == "six") == described
    with pytest.raises(ServiceRefusedError, match="the newest is") as caught:
        client.predict(sixes[:1], revision=10**6)
    assert caught.value.status == 404
    with pytest.raises(DataError, match="one of the three"):
        client.grow_class("six")
