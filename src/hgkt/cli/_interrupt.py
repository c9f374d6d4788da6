"""Ctrl-C during training: wait for the end of a step, so that the checkpoint is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hgkt._typing import Progress

_STAGE = "train"


@contextmanager
def interrupt_between_steps(progress: Progress) -> Iterator[Progress]:
    """Yield `progress`, which also raises a KeyboardInterrupt that came while steps were taken.

    Between two reports of the stage "train" the first Ctrl-C waits for the next report, where
    weights and moments belong together and are saved; a second one does not wait. At any other
    time Ctrl-C interrupts at once.

    Parameters
    ----------
    progress : callable
        Called as ``progress(stage, done, total, values)``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield progress  # only the main thread can handle signals
        return
    training = pending = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending or not training:
            raise KeyboardInterrupt
        pending = True

    def report(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        nonlocal training
        progress(stage, done, total, values)
        training = stage == _STAGE and done < total
        if pending:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield report
    finally:
        signal.signal(signal.SIGINT, previous)
