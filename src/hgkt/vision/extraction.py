"""Features of many images: batches, workers, progress, and a journal to go on from."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hgkt._journal import Journal, Key, MemoryRows
from hgkt._typing import Progress
from hgkt._validation import check_number
from hgkt.exceptions import DataError
from hgkt.vision.backbones import Backbone, identity
from hgkt.vision.images import Preprocessing, decode_image
from hgkt.vision.listing import ImageEntry

_AHEAD = 32  # images per thread that are decoded before they are asked for
Decoded = NDArray[np.uint8] | str


def file_key(path: Path) -> Key | None:
    """Return path, size and time of change of a file; None where it cannot be looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return str(path.absolute()), status.st_size, status.st_mtime_ns


def decode_all(
    paths: Sequence[Path], how: Preprocessing, workers: int = 0
) -> Generator[Decoded, None, None]:
    """Decode images in order.

    Parameters
    ----------
    paths : sequence of Path
        The images.
    how : Preprocessing
        Size and crop.
    workers : int
        Number of threads, which is enough since Pillow decodes and resizes without Python's lock;
        0 decodes in this one.

    Yields
    ------
    ndarray or str
        Pixels, or why there are none.
    """

    def decode(path: Path) -> Decoded:
        try:
            return decode_image(path, how)
        except DataError as error:
            return str(error)

    if not workers:
        yield from map(decode, paths)
        return
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[Decoded]] = deque()
    try:
        for path in paths:
            # A window keeps threads busy and memory bounded.
            if len(waiting) >= _AHEAD * workers:
                yield waiting.popleft().result()
            waiting.append(pool.submit(decode, path))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class Extraction:
    """What came out of a list of images.

    Parameters
    ----------
    entries : tuple of ImageEntry
        The images that could be read, in the order given.
    unreadable : tuple of (ImageEntry, str)
        The others, each with the sentence that says why.
    n_features : int
        Length of a row.
    n_resumed : int
        How many rows were there already.
    seconds : float
        Time spent on the rest.
    rows : callable
        Takes a slice of `entries` and returns their features.
    """

    entries: tuple[ImageEntry, ...]
    unreadable: tuple[tuple[ImageEntry, str], ...]
    n_features: int
    n_resumed: int
    seconds: float
    rows: Callable[[slice], NDArray[np.float32]] = field(repr=False)

    @property
    def features(self) -> NDArray[np.float32]:
        """All rows, (len(entries), n_features), float32."""
        return self.rows(slice(None))


def feature_journal(backbone: Backbone, folder: str | Path) -> Journal:
    """Return the journal in a folder for features of a backbone."""
    return Journal(folder, {"backbone": identity(backbone.record)}, backbone.n_features)


def extract_features(
    entries: Sequence[ImageEntry],
    backbone: Backbone,
    journal: Journal | None = None,
    batch_size: int = 32,
    workers: int = 0,
    progress: Progress | None = None,
) -> Extraction:
    """Extract the features of images; unreadable ones are reported and never fatal.

    Parameters
    ----------
    entries : sequence of ImageEntry
        The images.
    backbone : Backbone
        The network.
    journal : Journal, optional
        Open journal: rows it has are not extracted again, and new ones are added.
    batch_size : int
        Images per forward pass.
    workers : int
        Threads that decode and resize; 0 does it in this one.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.

    Returns
    -------
    Extraction

    Raises
    ------
    DataError
        Where not a single image could be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sklearn.datasets import images
    >>> from hgkt.vision import ImageEntry, extract_features, load_backbone
    >>> photo = Path(images.__file__).with_name("flower.jpg")
    >>> entries = [ImageEntry("flower", photo), ImageEntry("code", Path(images.__file__))]
    >>> found = extract_features(entries, load_backbone("efficientnet-lite0"))
    >>> found.features.shape, [entry.id for entry, reason in found.unreadable]
    ((1, 1280), ['code'])
    """
    check_number("batch_size", batch_size, low=1, integer=True)
    check_number("workers", workers, low=0, integer=True)
    store = MemoryRows() if journal is None else journal
    # Taken once, before decoding: a file that changes meanwhile is extracted again next time.
    keys = {e.path: file_key(e.path) or (str(e.path), -1, -1) for e in entries}
    pending = [entry for entry in entries if keys[entry.path] not in store]
    n_resumed = n_done = len(entries) - len(pending)
    start = time.perf_counter()
    batch: dict[Key, NDArray[np.uint8]] = {}
    unreadable: list[tuple[ImageEntry, str]] = []

    def report() -> None:
        if progress is not None:
            rate = (n_done - n_resumed) / max(time.perf_counter() - start, 1e-9)
            progress("extract", n_done + len(unreadable), len(entries), {"images/s": rate})

    report()
    decoding = decode_all([e.path for e in pending], backbone.preprocessing, workers)
    # Closed, so that an interrupt ends the threads too.
    with warnings.catch_warnings(), closing(decoding) as images:
        warnings.simplefilter("ignore")  # Pillow warns about what the report says anyway
        for entry, decoded in zip(pending, images, strict=True):
            if isinstance(decoded, str):
                unreadable.append((entry, decoded))
            else:
                batch[keys[entry.path]] = decoded
            if len(batch) == batch_size or (batch and entry is pending[-1]):
                store.append(list(batch), backbone.extract_pixels(list(batch.values())))
                n_done += len(batch)
                batch = {}
                report()
    readable = tuple(entry for entry in entries if keys[entry.path] in store)
    if not readable:
        raise DataError(
            f"none of the {len(entries)} images could be read; the first: {unreadable[0][1]}"
            if unreadable
            else "there are no images to extract"
        )
    return Extraction(
        entries=readable,
        unreadable=tuple(unreadable),
        n_features=backbone.n_features,
        n_resumed=n_resumed,
        seconds=time.perf_counter() - start,
        rows=lambda part: store.rows([keys[entry.path] for entry in readable[part]]),
    )
