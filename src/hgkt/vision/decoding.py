"""Decode and resize many images in order, in this process or in workers."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.vision.images import MAX_PIXELS, open_image
from hgkt.vision.preprocessing import Preprocessing, to_pixels

# Images per task: few enough that workers end together, enough that messages cost nothing.
_CHUNK = 4

Decoded = NDArray[np.uint8] | str


def decode(path: Path, how: Preprocessing, max_pixels: int = MAX_PIXELS) -> Decoded:
    """Return the pixels (height, width, 3) of an image, or the sentence that says why not."""
    try:
        return to_pixels(open_image(path, max_pixels, how.draft_size()), how)
    except DataError as error:
        return str(error)


def decode_all(
    paths: Sequence[Path], how: Preprocessing, workers: int = 0, max_pixels: int = MAX_PIXELS
) -> Generator[Decoded, None, None]:
    """Decode images in order.

    Parameters
    ----------
    paths : sequence of Path
        The images.
    how : Preprocessing
        Size and crop.
    workers : int
        Number of processes; 0 decodes in this one.
    max_pixels : int
        Larger images are not decoded.

    Yields
    ------
    ndarray or str
        Pixels, or why there are none.
    """
    if not workers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about what the report says anyway
            for path in paths:
                yield decode(path, how, max_pixels)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker)
    waiting: deque[Future[list[Decoded]]] = deque()
    try:
        for start in range(0, len(paths), _CHUNK):
            # A window keeps workers busy and memory bounded.
            if len(waiting) >= 4 * workers + 8:
                yield from waiting.popleft().result()
            with _interrupts_ignored():  # inherited by a worker that is started here
                part = list(paths[start : start + _CHUNK])
                waiting.append(pool.submit(_decode_part, part, how, max_pixels))
        while waiting:
            yield from waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process ended while it decoded images, perhaps for want of memory; run the "
            "same command again to resume, with fewer workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _decode_part(paths: list[Path], how: Preprocessing, max_pixels: int) -> list[Decoded]:
    return [decode(path, how, max_pixels) for path in paths]


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    warnings.simplefilter("ignore")
    # A parent that is killed cannot tell its workers, which would wait for it forever.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
