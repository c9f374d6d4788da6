"""What the service costs beside the estimator: real server, real clients, classes being added."""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hgkt.benchmarks import add_class
from hgkt.benchmarks._load import DirectCalls, Load, one_thread_each, put_load

_SERVE = [sys.executable, "-c", "from hgkt.cli.main import run; run()", "serve"]
_TARGET = 0.8


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


FULL = Sizes(2048, 85, 200, 2_000, 256, (1, 8, 64), 5.0, 2.0)
QUICK = Sizes(32, 8, 20, 100, 16, (1, 2), 0.2, 0.1)
FORMS = (("json", False), ("octets", False), ("json", True), ("octets", True), ("arrow", True))


def run(quick: bool = False) -> dict[str, Any]:
    """Measure the service beside the estimator in the same run.

    Parameters
    ----------
    quick : bool, default=False
        Small sizes; the figures then mean nothing.

    Returns
    -------
    dict
        ``loads``: a row for each kind of body and number of clients: requests and rows a second,
        latencies, processor milliseconds a request of server and clients; ``direct_rows_per_s``
        and ``ratio`` compare with calling ``predict`` in a process, with as many threads as
        predictions run at once in the server; ``cpu_ratio`` compares processor time a row.
        ``batches_reach_80_percent`` says which batched binary loads reach the target by wall clock.
    """
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder, one_thread_each():
        model = _save_model(sizes, Path(folder) / "model")
        with _server(model) as (port, process), _direct(model) as direct:
            loads = [
                _measure(sizes, port, process, direct, form, batched, n_clients)
                for form, batched in FORMS
                for n_clients in sizes.n_clients
            ]
    return {
        "name": "serve",
        "quick": quick,
        "sizes": asdict(sizes),
        "loads": loads,
        "batches_reach_80_percent": {
            f"{load['form']}, {load['clients']} clients": load["ratio"] >= _TARGET
            for load in loads
            if load["rows"] > 1 and load["form"] != "json"
        },
        "environment": {
            "machine": f"{platform.system()} {platform.machine()}",
            "n_cpus": _n_processors(),
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "notes": [
            "Server, clients and this program share the machine's processors: what the clients "
            "take, the server lacks. Processor times tell the service's own cost.",
            "One server process; matrix products on one thread, as many predictions at once as "
            "there are processors, in the server and in the direct calls alike.",
            f"Every {sizes.seconds_between_adds:g} s a class is added and removed again while the "
            "server is measured; what that costs is in the server's times.",
            "Direct calls are measured before and after each load, and averaged.",
            "Features are random numbers; the time of a prediction does not depend on them.",
        ],
    }


def _save_model(sizes: Sizes, folder: Path) -> Path:
    shapes = add_class.Sizes(sizes.n_features, (), (), (), 16, 0)
    model = add_class.fitted_model(shapes, "closed-form", sizes.n_attributes, sizes.n_instances)
    n_more = max(sizes.n_classes - len(model.classes_), 1)
    rows = np.random.default_rng(1).random((n_more, sizes.n_attributes))
    model.add_classes({f"added {i:04d}": row for i, row in enumerate(rows)})
    return model.save(folder)


@contextmanager
def _server(model: Path) -> Iterator[tuple[int, int]]:
    """Start the real server; yield its port and process number."""
    process = subprocess.Popen(
        [*_SERVE, "--model", str(model), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "1000"},
    )
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)$", process.stdout.readline().strip())
        if found is None:
            raise RuntimeError("the server did not start")
        port = int(found[1])
        _wait_until_ready(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait_until_ready(port: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if _call(port, "GET", "/ready")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the server was not ready after {seconds:g} s")


@contextmanager
def _direct(model: Path) -> Iterator[DirectCalls]:
    calls = DirectCalls(model)
    try:
        yield calls
    finally:
        calls.close()


def _measure(
    sizes: Sizes,
    port: int,
    process: int,
    direct: DirectCalls,
    form: str,
    batched: bool,
    n_clients: int,
) -> dict[str, Any]:
    n_rows = sizes.n_rows if batched else 1
    n_threads = min(n_clients, _n_processors())
    load = Load(port, form, n_rows, sizes.n_features, n_clients, sizes.seconds)
    before = direct.measure(n_rows, n_threads, sizes.seconds / 2)
    changes: list[int] = []
    outcome = put_load(load, process, _adding(port, sizes, changes))
    after = direct.measure(n_rows, n_threads, sizes.seconds / 2)
    n_requests = len(outcome.latencies)
    direct_rate = (before[0] + after[0]) / 2
    direct_cpu = 1000 * n_rows * (before[1] + after[1]) / 2
    server_cpu = None
    if outcome.server_cpu is not None:
        server_cpu = 1000 * outcome.server_cpu / n_requests
    rate = n_requests / outcome.wall
    p50, p99 = np.percentile(1000 * outcome.latencies, [50, 99])
    return {
        "form": form,
        "rows": n_rows,
        "clients": n_clients,
        "requests_per_s": rate,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "rows_per_s": rate * n_rows,
        "direct_rows_per_s": direct_rate,
        "ratio": rate * n_rows / direct_rate,
        "server_cpu_ms": server_cpu,
        "direct_cpu_ms": direct_cpu,
        "cpu_ratio": None if not server_cpu else direct_cpu / server_cpu,
        "client_cpu_ms": 1000 * outcome.client_cpu / n_requests,
        "n_failures": outcome.n_failures,
        "n_changes": len(changes),
    }


@contextmanager
def _adding(port: int, sizes: Sizes, revisions: list[int]) -> Iterator[None]:
    """Add a class and remove it again, at a low rate; collect the revisions reached."""
    stop = threading.Event()
    vector = np.random.default_rng(2).random(sizes.n_attributes).tolist()

    def change() -> None:
        while not stop.wait(sizes.seconds_between_adds / 2):
            body = {"classes": [{"name": "passing", "vector": vector}]}
            revisions.append(_call(port, "POST", "/v1/classes", body)[1]["revision"])
            stop.wait(sizes.seconds_between_adds / 2)
            revisions.append(_call(port, "DELETE", "/v1/classes/passing")[1]["revision"])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _call(port: int, method: str, path: str, document: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        body = None if document is None else json.dumps(document)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
