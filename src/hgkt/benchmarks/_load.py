"""Load on a server from other processes, and the same work on the estimator itself."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

N_BODIES = 4  # distinct batches, so that none is served from a processor's cache
_N_PROCESSES = 2
_ARROW = "application/vnd.apache.arrow.stream"
_HEADERS = {
    "json": {"Content-Type": "application/json"},
    "octets": {"Content-Type": "application/octet-stream"},
    "arrow": {"Content-Type": _ARROW, "Accept": _ARROW},
}


@dataclass(frozen=True)
class Load:
    """What clients send.

    Parameters
    ----------
    port : int
        Where the server listens on this machine.
    form : {"json", "octets", "arrow"}
        Kind of body; Arrow asks for an Arrow answer too.
    n_rows, n_features : int
        Size of a batch.
    n_clients : int
        Connections that always have one request under way.
    seconds : float
        How long.
    """

    port: int
    form: str
    n_rows: int
    n_features: int
    n_clients: int
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What clients saw.

    Parameters
    ----------
    latencies : ndarray
        Seconds of every answered request.
    wall : float
        Seconds from the first request to the last answer.
    server_cpu : float or None
        Seconds of processor time that the server took.
    client_cpu : float
        Seconds that the clients took.
    n_failures : int
        Requests that were not answered with 200.
    """

    latencies: NDArray[np.float64]
    wall: float
    server_cpu: float | None
    client_cpu: float
    n_failures: int


def batch(n_rows: int, n_features: int, seed: int) -> NDArray[np.float32]:
    """Return feature rows, non-negative as those of a network's last layer."""
    rng = np.random.default_rng(seed)
    return np.abs(rng.standard_normal((n_rows, n_features), dtype=np.float32))


def encode(rows: NDArray[np.float32], form: str) -> bytes:
    """Return a batch as the body of a request."""
    if form == "json":
        return json.dumps({"features": rows.tolist()}).encode()
    if form == "octets":
        return rows.astype("<f4").tobytes()
    import pyarrow as pa

    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    table = pa.table({"features": lists})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def put_load(load: Load, server: int, meanwhile: AbstractContextManager[Any]) -> Outcome:
    """Send requests from two processes, so that no client's interpreter is the limit.

    Parameters
    ----------
    load : Load
        What to send.
    server : int
        Number of the server's process, whose processor time is taken.
    meanwhile : context manager
        Entered when the clients begin and left when they have ended.
    """
    n_processes = min(_N_PROCESSES, load.n_clients)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(n_processes + 1)
    shares = [len(range(i, load.n_clients, n_processes)) for i in range(n_processes)]
    pipes, processes = [], []
    for share in shares:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_client_process, args=(load, share, barrier, there))
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    barrier.wait()
    before = cpu_seconds(server)
    with meanwhile:
        parts = [pipe.recv() for pipe in pipes]
        after = cpu_seconds(server)
    for process in processes:
        process.join()
    server_cpu = None if before is None or after is None else after - before
    latencies = np.concatenate([np.array(part[0]) for part in parts])
    wall = max(part[2] for part in parts) - min(part[1] for part in parts)
    client_cpu, n_failures = sum(part[3] for part in parts), sum(part[4] for part in parts)
    return Outcome(latencies, wall, server_cpu, client_cpu, n_failures)


def _client_process(load: Load, n_clients: int, barrier: Any, pipe: Any) -> None:
    bodies = [encode(batch(load.n_rows, load.n_features, i), load.form) for i in range(N_BODIES)]
    latencies: list[float] = []
    failures: list[int] = []
    barrier.wait()
    cpu, start = time.process_time(), time.monotonic()
    deadline = start + load.seconds
    threads = [
        threading.Thread(target=_client, args=(load, bodies, i, deadline, latencies, failures))
        for i in range(n_clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = time.monotonic()
    pipe.send((latencies, start, end, time.process_time() - cpu, len(failures)))
    pipe.close()


def _client(
    load: Load,
    bodies: list[bytes],
    first: int,
    deadline: float,
    latencies: list[float],
    failures: list[int],
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", load.port, timeout=120)
    turn = first
    while turn == first or time.monotonic() < deadline:
        start = time.perf_counter()
        connection.request("POST", "/v1/predict", bodies[turn % N_BODIES], _HEADERS[load.form])
        response = connection.getresponse()
        response.read()
        latencies.append(time.perf_counter() - start)
        if response.status != 200:
            failures.append(response.status)
        turn += 1
    connection.close()


class DirectCalls:
    """The estimator in a process of its own, called without a server.

    Parameters
    ----------
    folder : Path
        Model folder.
    """

    def __init__(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_direct_process, args=(folder, there))
        self._process.start()
        there.close()

    def measure(self, n_rows: int, n_threads: int, seconds: float) -> tuple[float, float]:
        """Return rows a second, and processor seconds a row, of `n_threads` callers."""
        self._pipe.send((n_rows, n_threads, seconds))
        n_done, wall, cpu = self._pipe.recv()
        return n_done * n_rows / wall, cpu / (n_done * n_rows)

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join()
        self._pipe.close()


def _direct_process(folder: Path, pipe: Any) -> None:
    from hgkt.estimators import load_model

    model = load_model(folder)
    while (asked := pipe.recv()) is not None:
        n_rows, n_threads, seconds = asked
        batches = [batch(n_rows, model.n_features_in_, seed) for seed in range(N_BODIES)]
        model.predict(batches[0])
        pipe.send(_timed_calls(model.predict, batches, n_threads, seconds))


def _timed_calls(
    call: Callable[[Any], Any], batches: list[Any], n_threads: int, seconds: float
) -> tuple[int, float, float]:
    counts = [0] * n_threads

    def work(number: int) -> None:
        while not counts[number] or time.monotonic() < deadline:
            call(batches[(number + counts[number]) % len(batches)])
            counts[number] += 1

    cpu, start = time.process_time(), time.monotonic()
    deadline = start + seconds
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts), time.monotonic() - start, time.process_time() - cpu


def cpu_seconds(process: int) -> float | None:
    """Return the processor time that a process has taken; None where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Have processes that start now compute each matrix product on one thread."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
