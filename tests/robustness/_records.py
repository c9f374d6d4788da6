"""What campaigns share, with each other and with the benchmarks; of the hgkt of this folder."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from _script import RESULTS, arguments, one_thread, served, without_installation, write_record

without_installation()  # what is imported or started from here on is of this folder

from _timing import forget_peak, peak_mb  # noqa: E402

__all__ = [
    "RESULTS", "arguments", "ask", "forget_peak", "one_thread", "peak_mb", "served",
    "write_record",
]  # fmt: skip


def ask(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
) -> tuple[int, bytes]:
    """Send one request over a connection of its own; return status and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        # A request may be refused before all of it was sent; the answer has come then.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
