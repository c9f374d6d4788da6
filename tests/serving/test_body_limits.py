"""Bodies as they come in: none too large, none too slow, and not too many at once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel

from hgkt.serving.middleware import BodyLimits
from hgkt.serving.problems import Problem, install_problems
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.work_queue import WorkQueue


class Numbers(BaseModel):
    numbers: list[int]


def limited(max_bytes, **limits):
    app = FastAPI()
    install_problems(app)

    @app.post("/parsed")
    def parsed(body: Numbers) -> int:
        return len(body.numbers)

    @app.post("/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.post("/careless")
    async def careless(request: Request) -> str:
        try:
            await request.body()
        except Exception:
            return "it went wrong, but the reason is lost"
        return "fine"

    settings = ServiceSettings(Path("model"), max_body_bytes=max_bytes, **limits)
    return BodyLimits(app, settings)


@pytest.fixture
def call(http_scope):
    def call(app, path, chunks, headers=(), pause=0.0):
        """Send a body in chunks, as a server hands it over, and count what is taken."""
        taken, sent = [], []
        waiting = [*chunks]

        async def receive():
            await asyncio.sleep(pause)
            if not waiting:
                return {"type": "http.disconnect"}
            taken.append(waiting.pop(0))
            return {"type": "http.request", "body": taken[-1], "more_body": bool(waiting)}

        async def send(message):
            sent.append(message)

        scope = http_scope("POST", path, headers)
        asyncio.run(app(scope, receive, send))
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], json.loads(body), len(taken)

    return call


def test_body_limit_refuses_by_the_announced_length_without_reading(call):
    length = [(b"content-length", b"101")]
    status, problem, n_taken = call(limited(100), "/parsed", [bytes(101)], length)
    assert (status, n_taken) == (413, 0)
    assert problem["detail"].startswith("the body is larger than 100 bytes")
    status, _, _ = call(limited(100), "/raw", [], [(b"content-length", b"9" * 400)])
    assert status == 413


@pytest.mark.parametrize("path", ["/parsed", "/raw", "/careless"])
def test_body_limit_refuses_a_stream_as_soon_as_it_is_too_long(call, path):
    status, problem, n_taken = call(limited(100), path, [bytes(40)] * 1000)
    assert (status, problem["status"]) == (413, 413)
    assert n_taken == 3


def test_body_limit_lets_the_rest_through(call):
    body = json.dumps({"numbers": list(range(10))}).encode()
    chunks = [body[:7], body[7:]]
    assert call(limited(len(body)), "/parsed", chunks)[:2] == (200, 10)
    assert call(limited(100), "/raw", [bytes(100)])[:2] == (200, 100)
    # A length that lies does not help.
    length = [(b"content-length", b"5")]
    assert call(limited(100), "/raw", [bytes(60), bytes(60)], length)[0] == 413


# ---------------------------------------------------------------------- time and number
@pytest.mark.parametrize("path", ["/parsed", "/raw", "/careless"])
def test_a_body_that_stops_coming_is_not_waited_for(call, path):
    status, problem, n_taken = call(
        limited(100, client_seconds=0.05), path, [bytes(10)] * 5, pause=30
    )
    assert (status, problem["status"], n_taken) == (408, 408, 0)


def test_a_body_that_trickles_is_not_waited_for(call):
    app = limited(300_000, client_seconds=0.05)
    status, problem, n_taken = call(app, "/raw", [b"x"] * 1000, pause=0.01)
    assert status == 408
    assert n_taken < 20
    assert "less than 65,536 bytes per second" in problem["detail"]
    # A slow one is taken as long as it is fast enough on the average.
    app = limited(300_000, client_seconds=0.5)
    assert call(app, "/raw", [bytes(20_000)] * 12, pause=0.05)[:2] == (200, 240_000)


def test_room_is_taken_by_bytes_that_came_and_changes_have_their_own(http_scope):
    """Strangers who announce much and send little keep nobody out, and no change in any case."""
    app = limited(1000, max_bodies_bytes=1500, max_class_bytes=1000)
    statuses = {}

    async def ask(path, first, rest, go, headers=()):
        parts = [first, rest]

        async def receive():
            if len(parts) == 1:
                await go.wait()
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message):
            if "status" in message:
                statuses.setdefault(path, []).append(message["status"])

        await app(http_scope("POST", path, headers), receive, send)

    async def main():
        go, now = asyncio.Event(), asyncio.Event()
        now.set()
        announced = [(b"content-length", b"1000")]
        slow = [
            asyncio.create_task(ask("/v1/classes/check", b"x", b"x", go, announced))
            for _ in range(24)
        ]
        await asyncio.sleep(0)
        await ask("/raw", bytes(900), b"", now)
        held = asyncio.create_task(ask("/slow", bytes(1000), b"", go))
        held_too = asyncio.create_task(ask("/raw", bytes(450), b"", go))
        await asyncio.sleep(0.05)
        await ask("/raw", bytes(900), b"", now)
        await ask("/v1/classes", bytes(900), b"", now)
        await ask("/v1/unknown/classes", bytes(900), b"", now)
        go.set()
        await asyncio.gather(held, held_too, *slow)

    @app.app.post("/slow")
    @app.app.post("/v1/classes")
    @app.app.post("/v1/unknown/classes")
    @app.app.post("/v1/classes/check")
    async def whole(request: Request) -> int:
        return len(await request.body())

    asyncio.run(main())
    assert statuses["/raw"][0] == 200
    assert 503 in statuses["/raw"]  # no room left by bytes that were sent
    assert statuses["/v1/classes"] == [200]
    assert statuses["/v1/unknown/classes"] == [200]
    assert statuses["/v1/classes/check"] == [200] * 24


# ---------------------------------------------------------------------- queues
def test_who_finds_no_room_is_told_so_after_sending_all(http_scope):
    """The connection of one who is still sending would be closed, and the answer lost."""
    app = limited(1000, max_bodies_bytes=1000, max_class_bytes=1000)
    told = []

    async def ask(name, parts, go):
        parts = list(parts)

        async def receive():
            if len(parts) == 1:
                await go.wait()
            told.append((name, len(parts)))
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message):
            if "status" in message:
                told.append((name, message["status"]))

        await app(http_scope("POST", "/raw"), receive, send)

    async def main():
        go = asyncio.Event()
        first = asyncio.create_task(ask("first", [bytes(900), b""], go))
        while not told:
            await asyncio.sleep(0)
        now = asyncio.Event()
        now.set()
        await ask("second", [bytes(200), bytes(200), bytes(200)], now)
        go.set()
        await first

    asyncio.run(main())
    assert told == [("first", 2), ("second", 3), ("second", 2), ("second", 1), ("second", 503),
                    ("first", 1), ("first", 200)]  # fmt: skip


def test_a_full_queue_refuses_at_once_and_work_that_fails_leaves_its_place():
    queue, go = WorkQueue(1, 1, "predictions"), threading.Event()

    async def main():
        waiting = [asyncio.create_task(queue.run(go.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many predictions are waiting") as caught:
            await queue.run(go.wait)
        assert caught.value.headers == {"Retry-After": "1"}
        go.set()
        await asyncio.gather(*waiting)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await queue.run(lambda: 1 / 0)
        assert await queue.run(lambda: 7) == 7

    asyncio.run(main())
