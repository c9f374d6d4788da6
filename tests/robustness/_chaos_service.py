"""The service that `chaos.py` kills: started, looked into and ended by process numbers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
import psutil

_HGKT = [sys.executable, "-m", "hgkt"]
_MARK = "HGKT_CHAOS_MARK"
_SHARED = "hgkt-serve-"


def save_tiny_model(folder: Path, seed: int) -> Path:
    """Save a model of three features and two attributes, another for every seed."""
    from hgkt.estimators import HGKTClassifier

    rng = np.random.default_rng(seed)
    X = rng.random((20, 3))
    model = HGKTClassifier(calibration=0, device="cpu")
    model.fit(X, ["a", "b"] * 10, {"a": [0.0, 1.0], "b": [1.0, 0.0]})
    saved: Path = model.save(folder)
    return saved


class RunningService:
    """`hgkt serve` on a fixed port, with a mark by which all its processes are known.

    Parameters
    ----------
    model : Path
        Model folder.
    database : str
        Address of the class registry.
    n_workers : int
        Number of server processes.
    grace, shutdown_timeout : float
        How it ends when told to.
    """

    def __init__(
        self,
        model: Path,
        database: str,
        n_workers: int,
        grace: float = 0.0,
        shutdown_timeout: float = 10.0,
    ) -> None:
        self.n_workers = n_workers
        self._place = _held_port()
        self.port = int(self._place.getsockname()[1])
        self.number = 0
        self._folders = shared_folders()
        self._mark = uuid.uuid4().hex
        self._log = Path(tempfile.gettempdir()) / f"hgkt-chaos-{self._mark}.log"
        options = {
            "--model": model, "--port": self.port, "--workers": n_workers, "--grace": grace,
            "--shutdown-timeout": shutdown_timeout,
        }  # fmt: skip
        self._words = ["serve", *(str(word) for option in options.items() for word in option)]
        self._environment = {**os.environ, _MARK: self._mark, "HGKT_DATABASE": database}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it may take a while to answer."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [*_HGKT, *self._words],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=self._environment,
            )
        self.number = self._process.pid

    def running(self) -> bool:
        """Return whether the parent lives."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return what it wrote on stderr, all starts together."""
        return self._log.read_text() if self._log.exists() else ""

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        """Wait until /ready answers 200."""
        from hgkt.client import Client
        from hgkt.exceptions import ServiceError

        with Client(f"http://127.0.0.1:{self.port}") as client:
            try:
                client.wait_until_ready(seconds)
            except ServiceError as error:
                raise RuntimeError(f"{error} {self.log()[-2000:]}") from error

    def workers(self) -> list[int]:
        """Return the worker processes; where there are none, what they are made by."""
        beside = {own: parent for own, parent in self._marked().items() if own != self.number}
        forked = [own for own, parent in beside.items() if parent != self.number]
        return sorted(forked or beside)

    def kill(self) -> None:
        """Kill the parent."""
        if self.number and self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.number, signal.SIGKILL)
            self.wait(10.0)

    def close(self) -> None:
        """Kill the parent and forget the log."""
        self.kill()
        self._log.unlink(missing_ok=True)
        self._place.close()

    def wait(self, seconds: float) -> int | None:
        """Wait for the parent's end; return its exit code where it is known."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=seconds)
        return None

    def stop(self) -> int:
        """Tell it to stop; return how many temporary folders are left of all its starts."""
        os.kill(self.number, signal.SIGTERM)
        self.wait(60.0)
        return len(shared_folders() - self._folders)

    def orphans(self, seconds: float = 10.0) -> int:
        """Return how many of its processes are left after a while."""
        deadline = time.monotonic() + seconds
        while (left := self._marked()) and time.monotonic() < deadline:
            time.sleep(0.03)  # reading what all processes were started with takes its time
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return len(left)

    def _marked(self) -> dict[int, int]:
        """Return its processes, and the parent of each."""
        return {
            process.pid: process.info["ppid"]
            for process in psutil.process_iter(["environ", "ppid"])
            if (process.info["environ"] or {}).get(_MARK) == self._mark
        }


def shared_folders() -> set[Path]:
    """Return the temporary folders that services of several workers keep."""
    return set(Path(tempfile.gettempdir()).glob(f"{_SHARED}*"))


def _held_port() -> socket.socket:
    """Return a socket that keeps a port for the service, which may bind it too."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place
