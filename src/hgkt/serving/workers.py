"""Several server processes on one port: started, watched, replaced and ended by one parent.

The parent talks to a worker over a pipe and not by signals alone: a terminal and a service manager
signal all processes at once, and a worker sees the end of its parent at the end of the pipe.
"""

from __future__ import annotations

import contextlib
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from hgkt._processes import end_with_parent
from hgkt.exceptions import HGKTError
from hgkt.serving.pins import OtherModelError
from hgkt.serving.server import Ending, ServiceServer, close_sockets, tell_stopping

if TYPE_CHECKING:
    from hgkt.serving.settings import ServiceSettings

STOP, STOP_NOW, ALIVE, READY = b"stop", b"stop now", b"alive", b"ready"
NOT_STARTED, OTHER_MODEL = 3, 4
"""Exit codes of a worker that could not start, and of one that must not."""
_BEAT_SECONDS = 1.0
_SILENCE_SECONDS = 60.0  # a worker that says nothing for so long hangs
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

logger = logging.getLogger(__name__)


# ---------------------------------------------------------------------- in a worker
def work(
    settings: ServiceSettings,
    sockets: list[socket.socket],
    control: Connection,
    options: dict[str, Any],
) -> None:
    """Be a worker: load the model, and serve until the parent says so or ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent(os.getppid())
    if "log_config" in options:
        logging.config.dictConfig(options["log_config"])
    told = _Told(control)
    from hgkt.serving.app import create_app

    try:
        app = create_app(settings)
        ending = Ending(settings.grace_seconds, settings.shutdown_seconds)
        server = ServiceServer(app, ending, alone=False, **options)
        told.server = server
        server.run(sockets)
    except (HGKTError, OSError) as error:
        logger.error("worker %d cannot start: %s", os.getpid(), error)
        sys.exit(OTHER_MODEL if isinstance(error, OtherModelError) else NOT_STARTED)


class _Told:
    """Hears what the parent says, and says that this worker lives."""

    def __init__(self, control: Connection) -> None:
        self.server: ServiceServer | None = None
        self._control, self._ready = control, False
        threading.Thread(target=self._listen, name="hgkt-control", daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                if self._control.poll(_BEAT_SECONDS if self._ready else 0.1):
                    self._obey(self._control.recv_bytes())
                self._control.send_bytes(ALIVE)
                if not self._ready and self.server is not None and self.server.started:
                    self._ready = True
                    self._control.send_bytes(READY)
        except (EOFError, OSError):
            os._exit(1)  # the parent has gone

    def _obey(self, message: bytes) -> None:
        if self.server is None:
            os._exit(0)  # nothing has been accepted
        if message == STOP:
            self.server.stop()
        else:
            self.server.stop_now()


# ---------------------------------------------------------------------- in the parent
@dataclass
class _Worker:
    """A worker's place: the process that fills it now, and how that fares."""

    process: BaseProcess | None = None
    control: Connection | None = None
    start_at: float = 0.0
    heard_at: float = 0.0
    failures: int = 0
    retired: bool = False
    ready: bool = False

    def send(self, message: bytes) -> None:
        if self.control is not None:
            with contextlib.suppress(OSError):
                self.control.send_bytes(message)

    def hear(self) -> None:
        """Take in what the worker has said."""
        assert self.control is not None
        with contextlib.suppress(EOFError, OSError):
            while self.control.poll(0):
                self.heard_at = time.monotonic()
                if self.control.recv_bytes() == READY:
                    self.ready, self.failures = True, 0


class Supervisor:
    """Keeps a number of workers serving until it is told to stop.

    Parameters
    ----------
    settings : ServiceSettings
        What they serve.
    sockets : sequence of socket
        Where they listen.
    options : dict
        For ``uvicorn.Config``; plain enough to be sent to a process.
    """

    def __init__(
        self, settings: ServiceSettings, sockets: Sequence[socket.socket], options: dict[str, Any]
    ) -> None:
        self._settings, self._sockets, self._options = settings, list(sockets), options
        self._ending = Ending(settings.grace_seconds, settings.shutdown_seconds)
        self._context = _context()
        self._workers = [_Worker() for _ in range(settings.workers)]
        self._n_signals = 0
        self._stopped_at: float | None = None

    def run(self) -> bool:
        """Serve until SIGTERM or SIGINT; return whether every worker ended by itself."""
        n_obeyed, whole = 0, True
        with self._signals() as wake:
            while True:
                while n_obeyed < self._n_signals:
                    n_obeyed += 1
                    self._stop(at_once=n_obeyed > 1)
                if self._stopped_at is None:
                    self._fill_places()
                elif time.monotonic() > self._stopped_at + self._ending.limit:
                    whole &= not self._kill_rest()
                if not any(worker.process for worker in self._workers):
                    if self._stopped_at is not None:
                        return whole
                    if all(worker.retired for worker in self._workers):
                        raise OtherModelError(
                            f"no worker can serve {self._settings.model} any more, since the "
                            "folder is not the one that the service was started with"
                        )
                self._look(wake)

    # ------------------------------------------------------------------ starting
    def _fill_places(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if worker.process is None and not worker.retired and now >= worker.start_at:
                self._start(worker)

    def _start(self, worker: _Worker) -> None:
        worker.control, theirs = self._context.Pipe()
        arguments = (self._settings, self._sockets, theirs, self._options)
        worker.process = self._context.Process(target=work, args=arguments, name="hgkt-worker")
        worker.process.start()
        theirs.close()  # so that the worker's end is the end of the pipe
        worker.heard_at, worker.ready = time.monotonic(), False

    # ------------------------------------------------------------------ watching
    def _look(self, wake: socket.socket) -> None:
        """Wait for something to happen, and take it in."""
        processes = [worker.process for worker in self._workers if worker.process is not None]
        controls = [worker.control for worker in self._workers if worker.control is not None]
        wait([wake, *controls, *(process.sentinel for process in processes)], timeout=0.2)
        with contextlib.suppress(BlockingIOError):
            wake.recv(4096)
        for worker in self._workers:
            if worker.process is None:
                continue
            worker.hear()
            if worker.process.exitcode is not None:
                self._bury(worker)
            elif time.monotonic() - worker.heard_at > _SILENCE_SECONDS:
                logger.error("worker %d hangs and is replaced", worker.process.pid)
                worker.process.kill()
                worker.heard_at = time.monotonic()

    def _bury(self, worker: _Worker) -> None:
        """Clear the place of a worker that has ended, and say when another comes."""
        assert worker.process is not None
        assert worker.control is not None
        code, number = worker.process.exitcode, worker.process.pid
        worker.process.join()
        worker.process.close()
        worker.control.close()
        worker.process = worker.control = None
        if self._stopped_at is not None:
            return
        if code == OTHER_MODEL:
            worker.retired = True
            logger.error("worker %d found another model; its place stays empty", number)
            return
        pause = 0.0
        if not worker.ready:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**worker.failures)
            worker.failures += 1
        worker.start_at = time.monotonic() + pause
        logger.warning("worker %d ended with code %s; another is started", number, code)

    # ------------------------------------------------------------------ ending
    def _stop(self, at_once: bool) -> None:
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            tell_stopping(self._ending)
            close_sockets(self._sockets)  # the last worker that closes them ends the queue
        for worker in self._workers:
            worker.send(STOP_NOW if at_once else STOP)

    def _kill_rest(self) -> bool:
        rest = [worker.process for worker in self._workers if worker.process is not None]
        for process in rest:
            logger.error(
                "worker %d did not end within %g s and is killed", process.pid, self._ending.limit
            )
            process.kill()
            process.join()
        return bool(rest)

    @contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """Count signals, and yield a socket that can be read when one has come."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        woken.setblocking(False)

        def count(*_details: object) -> None:
            self._n_signals += 1

        before = {sign: signal.signal(sign, count) for sign in (signal.SIGINT, signal.SIGTERM)}
        descriptor = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(descriptor)
            for sign, handler in before.items():
                signal.signal(sign, handler)
            wake.close()
            woken.close()


def _context() -> Any:
    """Return how workers are started.

    On Linux they are forked from a process that has imported everything and done nothing, so that
    a worker that died is replaced in a fraction of a second.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hgkt.serving.warm"])
    return context
