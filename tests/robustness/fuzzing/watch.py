"""Memory of a process and the time its /health takes, looked at from another process."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import psutil

_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_PAUSE = 0.02


class Watch:
    """Watches from the start to the end of the context; `lap` tells what was seen since the last.

    Beside the service a server that does nothing is asked in the same way. What that one takes is
    the machine's doing.

    Parameters
    ----------
    port, process : int
        Where the service listens, and its process number.
    """

    def __init__(self, port: int, process: int) -> None:
        context = get_context("spawn")
        idle_pipe, other = context.Pipe()
        self._idle = context.Process(target=_serve_nothing, args=(other,), daemon=True)
        self._idle.start()
        self._pipe, other = context.Pipe()
        watched = port, process, idle_pipe.recv(), other
        self._child = context.Process(target=_watch, args=watched, daemon=True)

    def __enter__(self) -> Watch:
        self._child.start()
        self._pipe.recv()
        return self

    def __exit__(self, *_details: object) -> None:
        for process in (self._child, self._idle):
            process.terminate()
            process.join()

    def lap(self) -> dict[str, Any]:
        """Return the worst since the last lap: milliseconds, and bytes above the start."""
        self._pipe.send("lap")
        found: dict[str, Any] = self._pipe.recv()
        return found


class _Samples:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: list[float] = []
        self.started: float | None = None

    def probe(self, port: int) -> None:
        """Time /health over and over; a probe under way counts with its time so far."""
        while True:
            self.started = time.perf_counter()
            try:
                with socket.create_connection(("127.0.0.1", port), 120) as connection:
                    connection.sendall(_REQUEST)
                    good = connection.recv(64).startswith(b"HTTP/1.1 200")
            except OSError:
                good = False
            taken = time.perf_counter() - self.started if good else float("inf")
            with self.lock:
                self.values.append(taken)
                self.started = None
            time.sleep(_PAUSE)

    def memory(self, process: int) -> None:
        """Look at the memory over and over."""
        watched = psutil.Process(process)
        while True:
            value = float(watched.memory_info().rss)
            with self.lock:
                self.values.append(value)
            time.sleep(_PAUSE / 4)

    def take(self) -> list[float]:
        with self.lock:
            values, self.values = self.values, []
            if self.started is not None:
                values.append(time.perf_counter() - self.started)
        return values


class _Nothing(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def _serve_nothing(pipe: Connection) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Nothing) as server:
        pipe.send(server.server_address[1])
        server.serve_forever()


def _watch(port: int, process: int, idle_port: int, pipe: Connection) -> None:
    health, idle, memory = _Samples(), _Samples(), _Samples()
    start = float(psutil.Process(process).memory_info().rss)
    for work, argument in (
        (health.probe, port),
        (idle.probe, idle_port),
        (memory.memory, process),
    ):
        threading.Thread(target=work, args=(argument,), daemon=True).start()
    pipe.send("ready")
    while True:
        pipe.recv()
        times, machine, sizes = health.take(), idle.take(), memory.take()
        pipe.send(
            {
                "n_probes": len(times),
                "health_ms": 1000 * max(times, default=0.0),
                "n_slow_probes": sum(taken > 0.1 for taken in times),
                "idle_server_ms": 1000 * max(machine, default=0.0),
                "n_slow_idle_probes": sum(taken > 0.1 for taken in machine),
                "peak_bytes": max(sizes, default=start) - start,
            }
        )
