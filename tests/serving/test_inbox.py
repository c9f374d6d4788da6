"""Unknown items are kept, shown, grouped, made a class of, and come back when that is undone."""

from __future__ import annotations

import contextlib
import os
import stat
import threading

import numpy as np
import pytest
from fastapi.testclient import TestClient

from hgkt.estimators import HGKTClassifier
from hgkt.exceptions import DataError
from hgkt.serving import ServiceSettings, create_app
from hgkt.serving.inbox import Inbox, folder_address

KEY = "a key of some length"


@pytest.fixture(scope="module")
def folder(digits, tmp_path_factory):
    """A model of eight digits that can tell what is none of them."""
    X, y = digits.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, digits.attributes_of(digits.seen_classes))
    return model.save(tmp_path_factory.mktemp("sure") / "model")


@pytest.fixture
def make_client(folder, tmp_path):
    with contextlib.ExitStack() as stack:

        def call(keep="kept", **options):
            place = keep if keep in (None, "database") else str(tmp_path / keep)
            url = f"sqlite:///{tmp_path}/classes.sqlite"
            app = create_app(ServiceSettings(folder, url, keep_unknown=place, **options))
            return stack.enter_context(TestClient(app, raise_server_exceptions=False))

        yield call


@pytest.fixture
def news(digits):
    X, y = digits.rows("test_unseen")
    return X[:240].astype(np.float32), y[:240]


def ask(client, rows, **more):
    body = {"features": rows.tolist(), "reject": 0.4, **more}
    answer = client.post("/v1/predict", json=body)
    assert answer.status_code == 200, answer.text
    if client.app.state.unknown is not None:
        client.app.state.unknown.flush()
    return [one["label"] for one in answer.json()["predictions"]]


def vector(digits, name):
    return digits.attributes_of(digits.unseen_classes)[name].astype(float).tolist()


@pytest.mark.parametrize("keep", ["kept", "database"])
def test_a_group_becomes_a_class_and_undo_brings_its_items_back(make_client, news, digits, keep):
    client = make_client(keep)
    X, y = news
    labels = ask(client, X)
    n_unknown = labels.count(None)
    assert n_unknown > 20
    found = client.get("/v1/unknown", params={"limit": 3}).json()
    assert (found["n_items"], len(found["items"])) == (n_unknown, 3)
    assert {item["kind"] for item in found["items"]} == {"features"}
    group = client.get("/v1/unknown/groups").json()["groups"][0]
    assert group["example"]["id"] == group["items"][0]
    assert len(group["neighbours"]) == 3
    rejected = y[[label is None for label in labels]]
    name = max(set(rejected.tolist()), key=rejected.tolist().count)
    body = {"name": name, "items": group["items"], "vector": vector(digits, name)}
    key = {"Idempotency-Key": "one-try"}
    made = client.post("/v1/unknown/classes", json=body, headers=key)
    assert made.status_code == 201, made.text
    again = client.post("/v1/unknown/classes", json=body, headers=key)
    assert again.json() == made.json()  # it is not taught the same items twice
    made = made.json()
    assert (made["before"], made["revision"]) == (0, 1)
    assert [line["kind"] for line in client.get("/v1/events").json()["events"]] == ["add", "grow"]
    assert made["n_examples"] == len(group["items"])
    assert ask(client, X).count(name) > 0.3 * (y == name).sum()
    left = client.get("/v1/unknown").json()
    assert left["n_items"] <= n_unknown - len(group["items"])
    undone = client.post("/v1/rollback", json={"revision": made["before"]})
    assert undone.status_code == 200
    assert client.get("/v1/unknown").json()["n_items"] == n_unknown


def test_a_class_that_is_there_learns_from_items(make_client, news, digits):
    client = make_client()
    X, _ = news
    ask(client, X)
    items = client.get("/v1/unknown").json()["items"]
    body = {"name": "zero", "items": [items[0]["id"], items[0]["id"], items[1]["id"]]}
    made = client.post("/v1/unknown/classes", json=body).json()
    assert (made["n_examples"], made["revision"]) == (2, made["before"] + 1)


def test_only_rejected_rows_are_kept_and_each_once(make_client, news, digits):
    client = make_client()
    X, _ = news
    client.post("/v1/predict", json={"features": X[:50].tolist()})
    ask(client, X[:50], among="seen")
    assert client.get("/v1/unknown").json()["n_items"] == 0
    n_unknown = ask(client, X[:50]).count(None)
    ask(client, X[:50])
    assert client.get("/v1/unknown").json()["n_items"] == n_unknown > 0


def test_nothing_is_kept_unless_it_is_asked_for(make_client, news):
    client = make_client(None)
    ask(client, news[0][:20])
    assert client.get("/v1/model").json()["keeps_unknown"] is False
    assert client.get("/v1/unknown").status_code == 404


def test_model_says_what_is_kept(make_client):
    client = make_client(max_unknown=7, unknown_days=2.5)
    assert client.get("/v1/model").json()["keeps_unknown"] is True
    kept = client.get("/v1/unknown").json()
    assert (kept["keeps_items"], kept["max_items"], kept["days"]) == (False, 7, 2.5)


def test_kept_items_need_a_key(make_client, news):
    client = make_client(api_keys=(KEY,))
    ask(client, news[0][:40])
    calls = [
        ("GET", "/v1/unknown"),
        ("GET", "/v1/unknown/groups"),
        ("GET", f"/v1/unknown/{'0' * 32}/content"),
        ("POST", "/v1/unknown/classes"),
        ("DELETE", "/v1/unknown"),
        ("DELETE", f"/v1/unknown/{'0' * 32}"),
    ]
    for method, path in calls:
        assert client.request(method, path).status_code == 401, path
    assert client.get("/v1/unknown", headers={"X-API-Key": KEY}).json()["n_items"] > 0


def test_items_can_be_forgotten(make_client, news):
    client = make_client()
    n_unknown = ask(client, news[0][:60]).count(None)
    first = client.get("/v1/unknown").json()["items"][0]["id"]
    assert client.delete(f"/v1/unknown/{first}").json() == {"n_forgotten": 1}
    assert client.delete(f"/v1/unknown/{first}").status_code == 404
    assert client.delete("/v1/unknown").json() == {"n_forgotten": n_unknown - 1}
    assert client.get("/v1/unknown").json()["items"] == []


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"items": ["f" * 32]}, 404),
        ({"items": ["no id"]}, 422),
        ({"items": []}, 422),
        ({"vector": [1.0]}, 422),
        ({"vector": None}, 422),
        ({"name": ""}, 422),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    make_client, news, digits, change, status
):
    client = make_client()
    ask(client, news[0][:60])
    item = client.get("/v1/unknown").json()["items"][0]["id"]
    body = {"name": "six", "items": [item], "vector": vector(digits, "six"), **change}
    answer = client.post("/v1/unknown/classes", json=body)
    assert answer.status_code == status, answer.text
    assert client.get("/v1/model").json()["revision"] == 0


def test_a_model_without_thresholds_cannot_keep_unknown_items(digits_folder, tmp_path):
    settings = ServiceSettings(
        digits_folder, f"sqlite:///{tmp_path}/c.sqlite", keep_unknown=str(tmp_path / "kept")
    )
    with pytest.raises(DataError, match="--keep-unknown"):
        create_app(settings)


def test_the_oldest_items_go_where_too_many_come(database):
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    with Inbox(database, "model", max_items=4) as inbox, Inbox(database, "other") as other:
        for row in rows:
            inbox.keep(row[None])
        other.keep(rows)
        np.testing.assert_array_equal(inbox.items().features, rows[-4:])
        assert len(other.items()) == 10
        assert (inbox.forget(), len(other.items())) == (4, 10)


def test_items_go_when_their_time_is_over(database):
    with Inbox(database, "model", days=1e-9) as short, Inbox(database, "model") as long:
        short.keep(np.ones((1, 2)))
        assert len(short.items()) == 0
        assert len(long.items()) == 1
        short.keep(np.zeros((1, 2)))  # takes the older one away
        assert len(long.items()) == 1


def test_many_writers_keep_every_item(database):
    rows = np.arange(400, dtype=np.float32).reshape(4, 50, 2)

    def write(part):
        with Inbox(database, "model") as inbox:
            for row in part:
                inbox.keep(row[None])

    threads = [threading.Thread(target=write, args=(part,)) for part in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Inbox(database, "model") as inbox:
        found = inbox.items().features
    assert sorted(found[:, 0].tolist()) == sorted(rows[..., 0].ravel().tolist())


def test_an_item_keeps_its_image(database):
    with Inbox(database, "model") as inbox:
        inbox.keep(np.ones((1, 2)), [b"a picture"], "image")
        (name,) = inbox.items().ids
        assert inbox.content(name) == ("image", b"a picture")
        inbox.set_class([name], "okapi")
        assert [item.class_name for item in inbox.items().items] == ["okapi"]


def test_a_folder_of_items_is_its_owners_alone(tmp_path):
    place = tmp_path / "deep" / "kept"
    with Inbox(folder_address(place), "model") as inbox:
        inbox.keep(np.ones((1, 2)))
    for path in (place, *place.iterdir()):
        assert not stat.S_IMODE(os.stat(path).st_mode) & 0o077, path
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be kept"):
        folder_address(tmp_path / "file" / "kept")
