"""Much work does not keep little work waiting: each kind has threads of its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from joblib import cpu_count

from hgkt.serving import ServiceSettings, create_app, work_queue
from hgkt.serving.live_model import ServedModel
from hgkt.serving.routes import classes, predict

PATIENCE = 60.0


@pytest.fixture
def client(digits_folder, tmp_path):
    settings = ServiceSettings(digits_folder, f"sqlite:///{tmp_path / 'own.sqlite'}")
    with TestClient(create_app(settings)) as found:
        yield found


class Gate:
    """Holds those who come to a function until it is opened."""

    def __init__(self, work, holds=lambda *_arguments, **_options: True):
        self.work, self.holds = work, holds
        self.come, self.go = threading.Semaphore(0), threading.Event()

    def __call__(self, *arguments, **options):
        if self.holds(*arguments, **options):
            self.come.release()
            assert self.go.wait(PATIENCE)
        return self.work(*arguments, **options)


def many_rows(_model, X, *_more):
    return len(X) > 1


def octets(client, rows, query=""):
    headers = {"Content-Type": "application/octet-stream"}
    return client.post(f"/v1/predict{query}", content=rows.astype("<f4").tobytes(), headers=headers)


def tensors(client, rows):
    """Ask in a short body for much: thirty rows of 64 zeros, a hundred classes each."""
    tensor = {"name": "features", "shape": [30, 64], "datatype": "FP32", "data": [0] * 30 * 64}
    document = {"inputs": [tensor], "parameters": {"top_k": 100}}
    return client.post("/v2/models/model/infer", json=document)


def checks(client, _rows):
    new = [{"name": f"class {number}", "vector": [0.5] * 20} for number in range(20)]
    return client.post("/v1/classes/check", json={"classes": new})


@pytest.mark.parametrize(
    ("send", "place", "name", "holds"),
    [
        (partial(octets, query="?top_k=9"), predict, "rank", many_rows),
        (partial(octets, query="?explain=true"), predict, "rank", many_rows),
        (tensors, predict, "rank", many_rows),
        (checks, classes, "check_added", lambda *_arguments: True),
    ],
    ids=["ranked", "explained", "tensors", "checked"],
)
def test_one_row_and_a_change_pass_costly_requests(
    client, digits, monkeypatch, send, place, name, holds
):
    described = [{"name": f"n {i}", "vector": [i / 100] * 20} for i in range(1, 100)]
    assert client.post("/v1/classes", json={"classes": described}).status_code == 201
    gate = Gate(getattr(place, name), holds)
    monkeypatch.setattr(place, name, gate)
    rows = digits.rows("train")[0]
    n_rows = 60 if "explain" in str(send) else 240
    n_costly = cpu_count() + 3
    with ThreadPoolExecutor(n_costly + 2) as threads:
        try:
            costly = [threads.submit(send, client, rows[:n_rows]) for _ in range(n_costly)]
            for _ in range(cpu_count()):
                assert gate.come.acquire(timeout=PATIENCE)
            one = threads.submit(octets, client, rows[:1])
            new = {"classes": [{"name": "smudge", "vector": [0.25] * 20}]}
            change = threads.submit(client.post, "/v1/classes", json=new)
            assert one.result(timeout=PATIENCE).status_code == 200
            assert change.result(timeout=PATIENCE).status_code == 201
            assert not any(each.done() for each in costly)
        finally:
            gate.go.set()
        assert {each.result(timeout=PATIENCE).status_code for each in costly} == {200}


def test_earlier_revisions_take_a_share_of_the_time(monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def build():
        now[0] += 2.0  # an edition of many classes
        return now[0]

    monkeypatch.setattr(work_queue.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(work_queue.time, "sleep", sleep)
    queue = work_queue.Queues.of(ServiceSettings(Path("model"))).revisions

    async def ask():
        return [await queue.run(build) for _ in range(3)]

    assert asyncio.run(ask())[0] == 102.0  # the first one at once
    assert slept[1:] == [5.0, 5.0]  # no longer than anybody would wait
    monkeypatch.setattr(work_queue, "LONGEST_REST", 60.0)
    slept.clear()
    asyncio.run(ask())
    assert slept == [6.0, 6.0, 6.0]  # a quarter of the time


def test_earlier_revisions_are_made_one_at_a_time_and_not_without_end(client, digits, monkeypatch):
    new = {"classes": [{"name": "smudge", "vector": [0.25] * 20}]}
    assert client.post("/v1/classes", json=new).status_code == 201
    gate = Gate(ServedModel.at)
    monkeypatch.setattr(ServedModel, "at", lambda *arguments: gate(*arguments))
    row = digits.rows("train")[0][:1]
    with ThreadPoolExecutor(24) as threads:
        try:
            asked = [threads.submit(octets, client, row, "?revision=0") for _ in range(20)]
            assert gate.come.acquire(timeout=PATIENCE)
            assert threads.submit(octets, client, row).result(PATIENCE).status_code == 200
            # One is being made and eight wait; the others are refused while nothing moves.
            refused = [each.result() for each in islice(as_completed(asked, PATIENCE), 11)]
        finally:
            gate.go.set()
        statuses = [each.result(PATIENCE).status_code for each in asked]
    assert sorted(statuses) == [200] * 9 + [503] * 11
    assert {answer.status_code for answer in refused} == {503}
    assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
    assert all("earlier revisions are waiting" in answer.json()["detail"] for answer in refused)
