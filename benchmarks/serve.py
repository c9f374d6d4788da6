"""What the service costs beside the estimator: real server, real clients, classes being added."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.request import urlopen

import numpy as np
import psutil
from numpy.typing import NDArray

from _script import ONE_THREAD, served
from _timing import Size, document, make_problem
from hgkt.client import Client
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation.records import machine

_SECONDS_BETWEEN_PROBES = 0.02


@dataclass(frozen=True)
class Sizes:
    """How large each part of the benchmark is."""

    n_features: int
    n_attributes: int
    n_classes: int
    n_instances: int
    n_rows: int
    n_clients: tuple[int, ...]
    seconds: float
    seconds_between_adds: float


FULL = Sizes(2048, 85, 200, 2_000, 256, (1, 8, 64), 3.0, 2.0)
QUICK = Sizes(32, 8, 20, 100, 16, (1, 2), 0.2, 0.1)
FORMS = (("json", False), ("octets", False), ("json", True), ("octets", True))
_N_SEEN = 40


@dataclass(frozen=True)
class Setting:
    """What loads are put on: the server, and a process that calls the same model directly."""

    sizes: Sizes
    port: int
    process: int
    model: Path
    direct: ProcessPoolExecutor


def run(quick: bool = False) -> dict[str, Any]:
    """Measure the service beside the estimator in the same run.

    Parameters
    ----------
    quick : bool, default=False
        Small sizes; the figures then mean nothing.

    Returns
    -------
    dict
        ``loads``: a row for each kind of body and number of clients: requests and rows per second,
        latencies, processor milliseconds per request of server and clients; ``direct_rows_per_s``
        and ``ratio`` compare with finding the same answers in a process, with as many threads as
        predictions run at once in the server. ``health_p99_ms`` and ``health_max_ms`` are of
        ``/health``, asked beside the load.
    """
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, ONE_THREAD):
        model = _save_model(sizes, Path(folder) / "model")
        pool = ProcessPoolExecutor(1, mp_context=_SPAWN)
        with served(model, "--grace", "0") as (port, process), pool as direct:
            with Client(f"http://127.0.0.1:{port}", timeout=60) as client:
                client.wait_until_ready()
            setting = Setting(sizes, port, process, model, direct)
            loads = [
                _measure(setting, form, sizes.n_rows if batched else 1, n_clients)
                for form, batched in FORMS
                for n_clients in sizes.n_clients
            ]
    results = {"sizes": sizes, "loads": loads}
    notes = [
        "Server, clients and this program share the machine's processors: what the clients "
        "take, the server lacks. Processor times tell the service's own cost.",
        "One server process; matrix products on one thread, as many predictions at once as "
        "there are processors, in the server and in the direct calls alike.",
        f"Every {sizes.seconds_between_adds:g} s a class is added and removed again while the "
        "server is measured; what that costs is in the server's times.",
        f"/health is asked over a new connection {_SECONDS_BETWEEN_PROBES * 1000:g} ms after its "
        "last answer, as long as a load lasts.",
        "Direct calls are measured before and after each load, and averaged.",
        "Features are random numbers; the time of a prediction does not depend on them.",
    ]
    return document("serve", quick, results, notes, methods=[HGKTClassifier])


def _save_model(sizes: Sizes, folder: Path) -> Path:
    n_seen = min(_N_SEEN, sizes.n_classes // 2)
    size = Size("", sizes.n_instances, sizes.n_features, n_seen, sizes.n_attributes)
    model = make_problem(size, n_test=0).fit(HGKTClassifier(calibration=0, device="cpu"))
    rows = np.random.default_rng(1).random((sizes.n_classes - n_seen, sizes.n_attributes))
    model.add_classes({f"added {i:04d}": row for i, row in enumerate(rows)})
    saved: Path = model.save(folder)
    return saved


def _measure(setting: Setting, form: str, n_rows: int, n_clients: int) -> dict[str, Any]:
    sizes = setting.sizes
    load = Load(setting.port, form, n_rows, sizes.n_features, n_clients, sizes.seconds)
    call = setting.model, n_rows, min(n_clients, machine()["n_cpus"]), sizes.seconds / 2
    changes: list[int] = []
    probes: list[float] = []
    before = setting.direct.submit(_rank, *call).result()
    outcome, cpu = put_load(load, setting, changes, probes)
    alone = before, setting.direct.submit(_rank, *call).result()
    direct_rate = n_rows * sum(part.rate for part in alone) / 2
    direct_cpu = 1000 * sum(part.cpu / len(part.latencies) for part in alone) / 2
    p50, p99 = 1000 * np.percentile(outcome.latencies, [50, 99])
    health_p99, health_max = 1000 * np.percentile(probes, [99, 100])
    return {
        "form": form,
        "rows": n_rows,
        "clients": n_clients,
        "requests_per_s": outcome.rate,
        "p50_ms": p50,
        "p99_ms": p99,
        "health_p99_ms": health_p99,
        "health_max_ms": health_max,
        "rows_per_s": outcome.rate * n_rows,
        "direct_rows_per_s": direct_rate,
        "ratio": outcome.rate * n_rows / direct_rate,
        "server_cpu_ms": 1000 * cpu / len(outcome.latencies),
        "direct_cpu_ms": direct_cpu,
        "n_failures": outcome.n_failures,
        "n_changes": len(changes),
    }


@contextmanager
def _beside(setting: Setting, revisions: list[int], latencies: list[float]) -> Iterator[None]:
    """Change classes at a low rate and ask for ``/health``; collect revisions and times."""
    stop = threading.Event()
    address = f"http://127.0.0.1:{setting.port}"
    vector = np.random.default_rng(2).random(setting.sizes.n_attributes)
    pause = setting.sizes.seconds_between_adds / 2

    def change() -> None:
        with Client(address, timeout=60) as client:
            while not stop.wait(pause):
                revisions.append(client.add_class("passing", vector).revision)
                stop.wait(pause)
                revisions.append(client.remove_class("passing").revision)

    def probe() -> None:  # over a new connection each time, as an orchestrator does
        while True:
            begun = time.perf_counter()
            urlopen(f"{address}/health", timeout=60).read()
            latencies.append(time.perf_counter() - begun)
            if stop.wait(_SECONDS_BETWEEN_PROBES):
                return

    threads = [threading.Thread(target=work) for work in (change, probe)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ---------------------------------------------------------------------- load
N_BODIES = 4  # distinct batches, so that none is served from a processor's cache
_N_PROCESSES = 2
_TYPES = {"json": "application/json", "octets": "application/octet-stream"}
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Load:
    """What clients send.

    Parameters
    ----------
    port : int
        Where the server listens on this machine.
    form : {"json", "octets"}
        Kind of body.
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
        """Calls per second that were answered with 200."""
        return (len(self.latencies) - self.n_failures) / (self.end - self.start)


def batches(n_rows: int, n_features: int) -> list[NDArray[np.float32]]:
    """Return feature rows, non-negative as those of a network's last layer."""
    draws = [np.random.default_rng(seed) for seed in range(N_BODIES)]
    return [np.abs(rng.standard_normal((n_rows, n_features), dtype=np.float32)) for rng in draws]


def encode(rows: NDArray[np.float32], form: str) -> bytes:
    """Return a batch as the body of a request."""
    if form == "json":
        return json.dumps({"features": rows.tolist()}).encode()
    return rows.astype("<f4").tobytes()


def put_load(
    load: Load, setting: Setting, revisions: list[int], probes: list[float]
) -> tuple[Outcome, float]:
    """Send requests from two processes, so that no client's interpreter is the limit.

    Parameters
    ----------
    load : Load
        What to send.
    setting : Setting
        The server.
    revisions, probes : list
        Take what is seen meanwhile: changes of classes, and seconds of ``/health``.

    Returns
    -------
    outcome : Outcome
        What the clients saw.
    server_cpu : float
        Seconds of processor time that the server took.
    """
    n_processes = min(_N_PROCESSES, load.n_clients)
    shares = [len(range(i, load.n_clients, n_processes)) for i in range(n_processes)]
    pool = ProcessPoolExecutor(n_processes, mp_context=_SPAWN)
    with _SPAWN.Manager() as manager, pool:
        barrier = manager.Barrier(n_processes + 1)
        clients = [pool.submit(_send, load, share, barrier) for share in shares]
        barrier.wait()
        server = psutil.Process(setting.process)
        before = server.cpu_times()
        with _beside(setting, revisions, probes):
            parts = [client.result() for client in clients]
            after = server.cpu_times()
    whole = Outcome(
        [seconds for part in parts for seconds in part.latencies],
        min(part.start for part in parts),
        max(part.end for part in parts),
        sum(part.cpu for part in parts),
        sum(part.n_failures for part in parts),
    )
    return whole, after.user + after.system - before.user - before.system


def _send(load: Load, n_clients: int, barrier: Any) -> Outcome:
    """Work of a client process: one thread and connection per client."""
    bodies = [encode(rows, load.form) for rows in batches(load.n_rows, load.n_features)]
    connections = [
        http.client.HTTPConnection("127.0.0.1", load.port, timeout=120) for _ in range(n_clients)
    ]
    failures: list[int] = []

    def request(client: int, turn: int) -> None:
        body = bodies[(client + turn) % N_BODIES]
        connections[client].request(
            "POST", "/v1/predict", body, {"Content-Type": _TYPES[load.form]}
        )
        response = connections[client].getresponse()
        response.read()
        if response.status != 200:
            failures.append(response.status)

    barrier.wait()
    found = _call_for(request, n_clients, load.seconds)
    for connection in connections:
        connection.close()
    return replace(found, n_failures=len(failures))


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


def _rank(folder: Path, n_rows: int, n_threads: int, seconds: float) -> Outcome:
    """Find what a request is answered with; `predict` would leave out the scores."""
    from hgkt.estimators import load_model
    from hgkt.estimators.scoring import rank_classes

    model = load_model(folder)
    rows, columns = batches(n_rows, model.n_features_in_), model.candidates("all")
    rank_classes(model, rows[0], columns, 1)
    return _call_for(
        lambda i, turn: rank_classes(model, rows[(i + turn) % N_BODIES], columns, 1),
        n_threads,
        seconds,
    )
