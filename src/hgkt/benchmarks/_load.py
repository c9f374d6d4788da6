"""Load on a server from other processes, and the same work on the estimator itself."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
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
_SPAWN = multiprocessing.get_context("spawn")
_start: Any = None  # a barrier, in the processes of clients


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
    """What threads saw that called something again and again.

    Parameters
    ----------
    latencies : sequence of float
        Seconds of every call.
    start, end : float
        When the first call began and the last one ended.
    cpu : float
        Seconds of processor time of their processes.
    n_failures : int
        Requests that were not answered with 200.
    """

    latencies: Sequence[float]
    start: float
    end: float
    cpu: float
    n_failures: int = 0

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.latencies) / (self.end - self.start)


def batches(n_rows: int, n_features: int) -> list[NDArray[np.float32]]:
    """Return feature rows, non-negative as those of a network's last layer."""
    draws = [np.random.default_rng(seed) for seed in range(N_BODIES)]
    return [np.abs(rng.standard_normal((n_rows, n_features), dtype=np.float32)) for rng in draws]


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


def put_load(
    load: Load, server: int, meanwhile: AbstractContextManager[Any]
) -> tuple[Outcome, float | None]:
    """Send requests from two processes, so that no client's interpreter is the limit.

    Parameters
    ----------
    load : Load
        What to send.
    server : int
        Number of the server's process.
    meanwhile : context manager
        Entered when the clients begin and left when they have ended.

    Returns
    -------
    outcome : Outcome
        What the clients saw.
    server_cpu : float or None
        Seconds of processor time that the server took.
    """
    n_processes = min(_N_PROCESSES, load.n_clients)
    shares = [len(range(i, load.n_clients, n_processes)) for i in range(n_processes)]
    barrier = _SPAWN.Barrier(n_processes + 1)
    with ProcessPoolExecutor(
        n_processes, mp_context=_SPAWN, initializer=_set_start, initargs=(barrier,)
    ) as pool:
        clients = [pool.submit(_send, load, share) for share in shares]
        barrier.wait()
        before = cpu_seconds(server)
        with meanwhile:
            parts = [client.result() for client in clients]
            after = cpu_seconds(server)
    whole = Outcome(
        [seconds for part in parts for seconds in part.latencies],
        min(part.start for part in parts),
        max(part.end for part in parts),
        sum(part.cpu for part in parts),
        sum(part.n_failures for part in parts),
    )
    return whole, None if before is None or after is None else after - before


def _set_start(barrier: Any) -> None:
    global _start
    _start = barrier


def _send(load: Load, n_clients: int) -> Outcome:
    """Work of a client process: one thread and connection per client."""
    bodies = [encode(rows, load.form) for rows in batches(load.n_rows, load.n_features)]
    connections = [
        http.client.HTTPConnection("127.0.0.1", load.port, timeout=120) for _ in range(n_clients)
    ]
    failures: list[int] = []

    def request(client: int, turn: int) -> None:
        body = bodies[(client + turn) % N_BODIES]
        connections[client].request("POST", "/v1/predict", body, _HEADERS[load.form])
        response = connections[client].getresponse()
        response.read()
        if response.status != 200:
            failures.append(response.status)

    _start.wait()
    found = _call_for(request, n_clients, load.seconds)
    for connection in connections:
        connection.close()
    return Outcome(found.latencies, found.start, found.end, found.cpu, len(failures))


def _call_for(call: Callable[[int, int], Any], n_threads: int, seconds: float) -> Outcome:
    """Let threads do `call(thread, turn)` again and again, at least once each."""
    latencies: list[float] = []

    def work(thread: int) -> None:
        turn = 0
        while turn == 0 or time.monotonic() < deadline:
            begun = time.perf_counter()
            call(thread, turn)
            latencies.append(time.perf_counter() - begun)
            turn += 1

    cpu, start = time.process_time(), time.monotonic()
    deadline = start + seconds
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Outcome(latencies, start, time.monotonic(), time.process_time() - cpu)


@contextmanager
def direct_calls(folder: Path) -> Iterator[Callable[[int, int, float], Outcome]]:
    """Yield what finds the best classes and scores in a process of its own, without a server.

    Parameters
    ----------
    folder : Path
        Model folder.
    """
    with ProcessPoolExecutor(1, mp_context=_SPAWN) as pool:
        yield lambda *load: pool.submit(_rank, folder, *load).result()


def _rank(folder: Path, n_rows: int, n_threads: int, seconds: float) -> Outcome:
    """Find what a request is answered with; `predict` would leave out the scores."""
    from hgkt.estimators.ranking import rank_classes

    model = _model(folder)
    rows, columns = batches(n_rows, model.n_features_in_), model.candidates("all")
    rank_classes(model, rows[0], columns, 1)
    return _call_for(
        lambda i, turn: rank_classes(model, rows[(i + turn) % N_BODIES], columns, 1),
        n_threads,
        seconds,
    )


@cache
def _model(folder: Path) -> Any:
    from hgkt.estimators import load_model

    return load_model(folder)


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
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(before)
