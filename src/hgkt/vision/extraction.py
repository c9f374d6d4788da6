"""Features of many images: batches, workers, progress, and going on where one was stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import check_number
from hgkt.exceptions import DataError
from hgkt.vision.backbones import Backbone
from hgkt.vision.decoding import decode_all
from hgkt.vision.images import MAX_PIXELS
from hgkt.vision.journal import Journal, Key, file_key
from hgkt.vision.listing import ImageEntry


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


def extract_features(
    entries: Sequence[ImageEntry],
    backbone: Backbone,
    journal: Journal | None = None,
    batch_size: int = 32,
    workers: int = 0,
    max_pixels: int = MAX_PIXELS,
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
        Processes that decode and resize; 0 does it in this one.
    max_pixels : int
        Larger images count as unreadable.
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
    run = _Run(backbone, journal, len(entries), progress)
    pending = [entry for entry in entries if not run.has(entry)]
    n_resumed = len(entries) - len(pending)
    start = time.perf_counter()
    batch: list[tuple[ImageEntry, NDArray[np.uint8]]] = []
    unreadable: list[tuple[ImageEntry, str]] = []
    decoding = decode_all([e.path for e in pending], backbone.preprocessing, workers, max_pixels)
    run.report(n_resumed, 0)
    with closing(decoding) as images:  # so that an interrupt ends the workers too
        for entry, decoded in zip(pending, images, strict=True):
            if isinstance(decoded, str):
                unreadable.append((entry, decoded))
            else:
                batch.append((entry, decoded))
            if len(batch) == batch_size or (batch and entry is pending[-1]):
                run.extract(batch)
                batch = []
                run.report(n_resumed, len(unreadable))
    readable = tuple(entry for entry in entries if run.key(entry) in run.done)
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
        rows=lambda part: run.rows(readable[part]),
    )


class _Run:
    """Rows that are there already, in the journal or in memory."""

    def __init__(
        self, backbone: Backbone, journal: Journal | None, total: int, progress: Progress | None
    ) -> None:
        self.backbone, self.journal, self.total, self.progress = backbone, journal, total, progress
        self.done: set[Key] = set()
        self._keys: dict[Path, Key] = {}
        self._memory: dict[Key, NDArray[np.float32]] = {}
        self._start, self._extracted = time.perf_counter(), 0

    def key(self, entry: ImageEntry) -> Key:
        # Taken once, before decoding: a file that changes meanwhile is extracted again next time.
        if entry.path not in self._keys:
            self._keys[entry.path] = file_key(entry.path) or (str(entry.path), -1, -1)
        return self._keys[entry.path]

    def has(self, entry: ImageEntry) -> bool:
        key = self.key(entry)
        if self.journal is not None and key in self.journal:
            self.done.add(key)
        return key in self.done

    def extract(self, batch: list[tuple[ImageEntry, NDArray[np.uint8]]]) -> None:
        features = self.backbone.extract_pixels([pixels for _, pixels in batch])
        keys = [self.key(entry) for entry, _ in batch]
        if self.journal is not None:
            self.journal.append(keys, features)
        else:
            self._memory.update(zip(keys, features, strict=True))
        self.done.update(keys)
        self._extracted += len(batch)

    def rows(self, entries: Sequence[ImageEntry]) -> NDArray[np.float32]:
        keys = [self.key(entry) for entry in entries]
        if self.journal is not None:
            return self.journal.rows(keys)
        return np.stack([self._memory[key] for key in keys])

    def report(self, n_resumed: int, n_unreadable: int) -> None:
        if self.progress is not None:
            done = n_resumed + self._extracted + n_unreadable
            rate = self._extracted / max(time.perf_counter() - self._start, 1e-9)
            self.progress("extract", done, self.total, {"images/s": rate})
