"""Queues that end, and a door for those who ask whether the service is well."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from hgkt.serving.problems import Problem
from hgkt.serving.queues import Pace, Paced, WorkQueue


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back():
    queue = WorkQueue(1, 2, "predictions")
    go = threading.Event()

    async def main():
        running = [asyncio.create_task(queue.run(go.wait, 10)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(Problem) as caught:
            await queue.run(go.wait, 10)
        with pytest.raises(Problem):
            queue.check()
        go.set()
        results = await asyncio.gather(*running)
        return caught.value, results, await queue.run(go.wait, 10)

    problem, results, later = asyncio.run(main())
    assert (problem.status_code, problem.headers) == (503, {"Retry-After": "1"})
    assert "too many predictions are waiting" in problem.detail
    assert (results, later) == ([True] * 3, True)


def test_work_that_fails_leaves_its_place():
    queue = WorkQueue(1, 1, "predictions")

    async def main():
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                await queue.run(divmod, 1, 0)
        return await queue.run(divmod, 7, 2)

    assert asyncio.run(main()) == (3, 1)


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_does_not_wait_for_a_crowd(path):
    done = []

    async def app(scope, receive, send):
        time.sleep(0.001)  # what beginning a request takes the event loop
        done.append(scope["path"])

    async def main():
        paced = Paced(app, Pace())
        crowd = [
            asyncio.create_task(paced({"type": "http", "path": "/v1/predict"}, None, None))
            for _ in range(200)
        ]
        await asyncio.sleep(0)
        await paced({"type": "http", "path": path}, None, None)
        n_before = len(done)
        await asyncio.gather(*crowd)
        return n_before

    assert asyncio.run(main()) < 30
    assert len(done) == 201
