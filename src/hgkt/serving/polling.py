"""A thread that looks again and again for what other processes have changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from hgkt.serving.database import RegistryError

logger = logging.getLogger(__name__)


class Polling:
    """Calls a function every so many seconds, in a thread of its own.

    What the registry refuses is for the function to tell; whatever else goes wrong is logged.

    Parameters
    ----------
    look : callable
        What to call.
    seconds : float
        How often.
    name : str
        Of the thread.
    failed : callable
        Called after an error that nobody expected.
    """

    def __init__(
        self, look: Callable[[], object], seconds: float, name: str, failed: Callable[[], None]
    ) -> None:
        self._look, self._seconds, self._name, self._failed = look, seconds, name, failed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, where that has not begun."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._poll, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None

    def died(self) -> bool:
        """Return whether the thread was started and is gone."""
        return self._thread is not None and not self._thread.is_alive()

    def _poll(self) -> None:
        while not self._stop.wait(self._seconds):
            try:
                self._look()
            except RegistryError:
                pass  # told where it happened; what was known goes on answering
            except Exception:
                self._failed()
                logger.exception("%s failed", self._name)
