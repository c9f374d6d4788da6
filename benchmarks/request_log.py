"""What request ids and access lines cost: microseconds per request, without any network.

Example: python benchmarks/request_log.py
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
from typing import Any

from hgkt.serving.logs import JsonLines, TextLines
from hgkt.serving.request_log import RequestLog

N_REQUESTS = 20_000
KEY = "a key of some length"
HEADERS = [
    (b"host", b"localhost:8000"),
    (b"content-type", b"application/octet-stream"),
    (b"x-api-key", KEY.encode()),
    (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
]


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    """Answer at once."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def seconds(app: Any) -> float:
    """Return the processor time of a request."""

    async def nothing(*_message: Any) -> None: ...

    start = time.process_time()
    for _ in range(N_REQUESTS):
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/predict",
            "query_string": b"top_k=3&among=unseen",
            "headers": HEADERS,
            "client": ("127.0.0.1", 5),
        }
        await app(scope, nothing, nothing)
    return (time.process_time() - start) / N_REQUESTS


def main() -> None:
    """Time the middleware without lines, and with lines of both kinds."""
    plain = asyncio.run(seconds(answer))
    app, logger = RequestLog(answer, [KEY]), logging.getLogger("hgkt.access")
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    print(f"ids alone: {1e6 * (asyncio.run(seconds(app)) - plain):.1f} µs per request")
    logger.setLevel(logging.INFO)
    for lines in (TextLines, JsonLines):
        handler = logging.StreamHandler(io.StringIO())
        handler.setFormatter(lines([KEY]))
        logger.handlers = [handler]
        cost = asyncio.run(seconds(app)) - plain
        print(f"with {lines.__name__}: {1e6 * cost:.1f} µs per request")


if __name__ == "__main__":
    main()
