"""Bodies that are too large, too slow or too many."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel

from hgkt.serving.intake import BodyIntake, Lane, lanes_of
from hgkt.serving.problems import Problem, install_problems
from hgkt.serving.settings import ServiceSettings


class Numbers(BaseModel):
    numbers: list[int]


def limited(max_bytes):
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

    return BodyIntake(app, [Lane(max_bytes, 100_000)], patience=10)


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
def slow(app):
    return BodyIntake(app.app, app.lanes, patience=0.05)


@pytest.mark.parametrize("path", ["/parsed", "/raw", "/careless"])
def test_a_body_that_stops_coming_is_not_waited_for(call, path):
    status, problem, n_taken = call(slow(limited(100)), path, [bytes(10)] * 5, pause=30)
    assert (status, problem["status"], n_taken) == (408, 408, 0)


def test_a_body_that_trickles_is_not_waited_for(call):
    app = slow(limited(300_000))
    status, problem, n_taken = call(app, "/raw", [b"x"] * 1000, pause=0.01)
    assert status == 408
    assert n_taken < 20
    assert "less than 65,536 bytes per second" in problem["detail"]
    # A slow one is taken as long as it is fast enough on the average.
    app = BodyIntake(app.app, app.lanes, patience=0.5)
    assert call(app, "/raw", [bytes(20_000)] * 12, pause=0.05)[:2] == (200, 240_000)


def test_waiting_for_the_client_to_go_has_no_end(call):
    async def app(scope, receive, send):
        assert (await receive())["more_body"] is False
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"1"})

    assert call(BodyIntake(app, [Lane(10, 10)], patience=0.3), "/", [b"x"], pause=0.2)[0] == 200


def test_bodies_wait_for_room_in_their_order_and_give_it_back():
    lane = Lane(max_bytes=100, max_held=150, max_waiting=2)

    async def main():
        await lane.enter(100, patience=5)
        entered = []

        async def come(name, n_bytes):
            await lane.enter(n_bytes, patience=5)
            entered.append(name)

        tasks = [asyncio.create_task(come("large", 80)), asyncio.create_task(come("small", 10))]
        await asyncio.sleep(0.01)
        assert entered == []  # the small one would fit, and does not jump the queue
        with pytest.raises(Problem) as caught:
            await lane.enter(1, patience=5)
        assert caught.value.status_code == 503
        lane.leave(100)
        await asyncio.gather(*tasks)
        assert (entered, lane.n_held) == (["large", "small"], 90)
        with pytest.raises(Problem) as caught:
            await lane.enter(100, patience=0.02)
        assert caught.value.headers["Retry-After"] == "1"
        assert lane.n_held == 90
        lane.leave(80)
        await lane.enter(100, patience=5)  # nobody is left waiting who gave up

    asyncio.run(main())


def test_a_full_lane_refuses_after_a_while_and_leaves_others_alone(call):
    lane = Lane(max_bytes=100, max_held=150)
    other = Lane(max_bytes=100, max_held=150, prefix="/careless")
    app = BodyIntake(limited(100).app, [other, lane], patience=0.05)
    lane.n_held = 100  # of requests under way
    for headers in ([(b"content-length", b"80")], [(b"transfer-encoding", b"chunked")]):
        status, problem, n_taken = call(app, "/raw", [bytes(80)], headers)
        assert (status, n_taken) == (503, 0)
        assert "try again" in problem["detail"]
    length = [(b"content-length", b"50")]
    assert call(app, "/raw", [bytes(50)], length)[:2] == (200, 50)
    assert call(app, "/careless", [bytes(80)], [(b"content-length", b"80")])[0] == 200
    assert (lane.n_held, other.n_held) == (100, 0)


def test_changes_of_classes_and_small_bodies_have_lanes_of_their_own():
    settings = ServiceSettings(Path("model"))
    changes, small, rest = lanes = lanes_of(settings)

    def lane(path, length):
        return next(each for each in lanes if each.takes(path, length))

    assert lane("/v1/classes", 10**9) is changes
    assert lane("/v1/predict", 1000) is small
    assert lane("/v1/predict", 2**21) is rest
    assert changes.max_bytes < rest.max_bytes == 64 * 2**20
    assert rest.max_held == 4 * rest.max_bytes
    tiny = ServiceSettings(Path("model"), max_bodies_bytes=1, max_body_bytes=1000)
    assert all(each.max_bytes <= each.max_held for each in lanes_of(tiny))
    assert {each.max_bytes for each in lanes_of(tiny)} == {1000}
