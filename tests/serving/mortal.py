"""A service that is killed and started again, at one address."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time

from .conftest import ENVIRONMENT, HGKT


class MortalService:
    """A service at one address that is killed at random moments, and started again."""

    def __init__(self, port, folder, database, seed, *options):
        self.port = port
        options = ["--port", self.port, "--model", folder, "--database", database, *options]
        self._command = [*HGKT, "serve", *map(str, options)]
        self._rng = random.Random(seed)
        self._process = None
        self.n_kills = 0

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            start_new_session=True,
        )

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def die(self):
        """Be killed after a moment, and started again."""
        self.n_kills += 1
        time.sleep(self._rng.uniform(0.0, 0.06))
        self.end()
        self.start()

    @contextlib.contextmanager
    def dying(self):
        """Kill the service at some moment of the block, or soon after, and start it again."""
        thread = threading.Thread(target=self.die)
        thread.start()
        try:
            yield
        finally:
            thread.join()
