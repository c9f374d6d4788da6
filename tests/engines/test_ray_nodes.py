"""A Ray cluster of two nodes, of which one is killed with its workers."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path

import pytest

pytest.importorskip("ray")

pytestmark = pytest.mark.endure
DRIVER = """
import errands, json, sys
from hgkt.engines import map_tasks, open_engine

tasks = [(sys.argv[2], number) for number in range(5)]
with open_engine("ray", address=sys.argv[1]) as engine:
    found = [task[1] for task, _ in map_tasks(engine, errands.meet, tasks)]
print(json.dumps({"n_workers": engine.n_workers, "found": sorted(found)}))
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of two nodes, of one and two cores, and what kills the second."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # whatever this machine's own clusters do
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    folder = tempfile.mkdtemp(prefix="ray-")  # its sockets need a short path
    port, common = address.rpartition(":")[2], ["--node-ip-address=127.0.0.1", "--block"]
    head = _start(
        [*common, "--head", f"--port={port}", "--num-cpus=1", f"--temp-dir={folder}",
         "--include-dashboard=false"]
    )  # fmt: skip
    second = None
    try:
        _wait(lambda: _listens(address))
        second = _start([*common, f"--address={address}", "--num-cpus=2"])
        yield address, lambda: _kill(second)
    finally:
        for node in (second, head):
            if node is not None:
                _kill(node)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_tasks_of_a_killed_node_run_again_on_the_other(cluster, meeting):
    address, kill_second = cluster
    _wait(lambda: _n_nodes(address) == 2)
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, address, meeting.address], stdout=subprocess.PIPE, text=True
    )
    lines = list(meeting.arrivals(3))
    kill_second()
    for _ in range(2):  # a line whose other end is gone can be read: it is at its end
        lines.remove(wait(lines)[0])
    (other,) = lines
    other.send("go")
    for _ in range(4):  # two were lost with the node and run again, two had not begun
        (line,) = meeting.arrivals(1)
        line.send("go")
    said, _ = driver.communicate(timeout=120)
    assert said.strip() == '{"n_workers": 3, "found": [0, 1, 2, 3, 4]}'


def _start(options: list[str]) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("ray")), "start", "--disable-usage-stats"]
    return subprocess.Popen(
        [*command, *options],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _kill(node: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()


def _n_nodes(address: str) -> int:
    code = (
        "import ray, sys; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR'); "
        "print(sum(node['Alive'] for node in ray.nodes()))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, address], capture_output=True, text=True, check=True
    )
    return int(said.stdout.split()[-1])


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        socket.create_connection((host, int(port)), timeout=1).close()
        return True
    return False


def _wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)
