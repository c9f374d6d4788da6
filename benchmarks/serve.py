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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _script import served
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
    """What runs while loads are put on it: the server, and direct calls of the same model."""

    sizes: Sizes
    port: int
    process: int
    direct: Callable[[int, int, float], Outcome]


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
    with tempfile.TemporaryDirectory() as folder, one_thread_each():
        model = _save_model(sizes, Path(folder) / "model")
        with _server(model) as (port, process), direct_calls(model) as direct:
            setting = Setting(sizes, port, process, direct)
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


@contextmanager
def _server(model: Path) -> Iterator[tuple[int, int]]:
    """Start the real server and wait for it; yield its port and process number."""
    with served(model, "--grace", "0") as (port, process):
        with Client(f"http://127.0.0.1:{port}", timeout=60) as client:
            client.wait_until_ready()
        yield port, process


def _measure(setting: Setting, form: str, n_rows: int, n_clients: int) -> dict[str, Any]:
    sizes = setting.sizes
    load = Load(setting.port, form, n_rows, sizes.n_features, n_clients, sizes.seconds)
    call = n_rows, min(n_clients, machine()["n_cpus"]), sizes.seconds / 2
    changes: list[int] = []
    probes: list[float] = []
    before = setting.direct(*call)
    beside = _adding(setting, changes), _probing(setting.port, probes)
    outcome, cpu = put_load(load, setting.process, beside)
    alone = before, setting.direct(*call)
    n_requests = len(outcome.latencies)
    direct_rate = n_rows * sum(part.rate for part in alone) / 2
    direct_cpu = 1000 * sum(part.cpu / len(part.latencies) for part in alone) / 2
    server_cpu = None if cpu is None else 1000 * cpu / n_requests
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
        "server_cpu_ms": server_cpu,
        "direct_cpu_ms": direct_cpu,
        "n_failures": outcome.n_failures,
        "n_changes": len(changes),
    }


@contextmanager
def _adding(setting: Setting, revisions: list[int]) -> Iterator[None]:
    """Add a class and remove it again, at a low rate; collect the revisions reached."""
    stop = threading.Event()
    vector = np.random.default_rng(2).random(setting.sizes.n_attributes).tolist()
    add = ("POST", "/v1/classes", {"classes": [{"name": "passing", "vector": vector}]})
    remove = ("DELETE", "/v1/classes/passing")
    pause = setting.sizes.seconds_between_adds / 2

    def change() -> None:
        while not stop.wait(pause):
            revisions.append(_call(setting.port, *add)[1]["revision"])
            stop.wait(pause)
            revisions.append(_call(setting.port, *remove)[1]["revision"])

    with _in_a_thread(change, stop):
        yield


@contextmanager
def _probing(port: int, latencies: list[float]) -> Iterator[None]:
    """Ask for ``/health`` again and again, as a probe does over a new connection; collect times."""
    stop = threading.Event()

    def probe() -> None:
        while True:
            begun = time.perf_counter()
            _call(port, "GET", "/health")
            latencies.append(time.perf_counter() - begun)
            if stop.wait(_SECONDS_BETWEEN_PROBES):
                return

    with _in_a_thread(probe, stop):
        yield


@contextmanager
def _in_a_thread(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run something beside the block, until `stop` tells it to end."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _call(port: int, method: str, path: str, content: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        body = None if content is None else json.dumps(content)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# ---------------------------------------------------------------------- load
N_BODIES = 4  # distinct batches, so that none is served from a processor's cache
_N_PROCESSES = 2
_HEADERS = {
    "json": {"Content-Type": "application/json"},
    "octets": {"Content-Type": "application/octet-stream"},
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
    load: Load, server: int, meanwhile: Sequence[AbstractContextManager[Any]]
) -> tuple[Outcome, float | None]:
    """Send requests from two processes, so that no client's interpreter is the limit.

    Parameters
    ----------
    load : Load
        What to send.
    server : int
        Number of the server's process.
    meanwhile : sequence of context managers
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
        with ExitStack() as stack:
            for manager in meanwhile:
                stack.enter_context(manager)
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
    from hgkt.estimators.scoring import rank_classes

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
