"""Features of many images: batches, workers, progress, and a journal to go on from."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._files import locked
from hgkt._typing import Progress
from hgkt._validation import check_number
from hgkt.exceptions import DataError
from hgkt.vision.backbones import Backbone, identity
from hgkt.vision.images import MAX_PIXELS, Preprocessing, decode_image
from hgkt.vision.listing import ImageEntry

_VERSION = 1
_INDEX, _FEATURES = "rows.jsonl", "features.f32"

Key = tuple[str, int, int]

# Images per task: few enough that workers end together, enough that messages cost nothing.
_CHUNK = 4
Decoded = NDArray[np.uint8] | str


def file_key(path: Path) -> Key | None:
    """Return path, size and time of change of a file; None where it cannot be looked at."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return str(path.absolute()), status.st_size, status.st_mtime_ns


class Journal:
    """Features on disk, one row per image, each written before the line that names it.

    A line without its features, or a half-written line, can only be at the end and is cut off
    when the journal is opened again.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    identity : mapping
        What decides about the features; a journal of another identity is refused.
    n_features : int
        Length of a row.

    Examples
    --------
    >>> import tempfile
    >>> key = ("a.jpg", 10, 20)
    >>> folder = tempfile.mkdtemp()
    >>> with Journal(folder, {"sha256": "x"}, 2) as journal:
    ...     journal.append([key], np.ones((1, 2), dtype=np.float32))
    >>> with Journal(folder, {"sha256": "x"}, 2) as journal:
    ...     key in journal, journal.rows([key]).tolist()
    (True, [[1.0, 1.0]])
    """

    def __init__(self, folder: str | Path, identity: Mapping[str, Any], n_features: int) -> None:
        self.folder = Path(folder)
        self.n_features = n_features
        self._row_bytes = 4 * n_features
        self._rows: dict[Key, int] = {}
        self._header = {"version": _VERSION, "n_features": n_features, "backbone": dict(identity)}

    @classmethod
    def of(cls, backbone: Backbone, folder: str | Path) -> Self:
        """Return the journal in a folder for features of a backbone."""
        return cls(folder, identity(backbone.record), backbone.n_features)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                busy = f"another extraction is writing {self.folder}; wait for it"
                stack.enter_context(locked(self.folder / _INDEX, busy=busy))
                self._index = stack.enter_context(open(self.folder / _INDEX, "a+b"))
                self._features = stack.enter_context(open(self.folder / _FEATURES, "a+b"))
            except OSError as error:
                raise DataError(f"cannot write {self.folder}: {error.strerror}") from None
            self._recover()
            self._opened = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._opened.close()

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, keys: Sequence[Key], features: NDArray[np.float32]) -> None:
        """Add rows; when this returns they are on the disk."""
        first = self._size(self._features) // self._row_bytes
        self._write(self._features, np.ascontiguousarray(features, dtype="<f4").tobytes())
        lines = [json.dumps([*key, first + n]) + "\n" for n, key in enumerate(keys)]
        self._write(self._index, "".join(lines).encode())
        self._rows.update((key, first + n) for n, key in enumerate(keys))

    def rows(self, keys: Sequence[Key]) -> NDArray[np.float32]:
        """Return the features of `keys`, in that order."""
        numbers = [self._rows[key] for key in keys]
        stored = np.memmap(self.folder / _FEATURES, dtype="<f4", mode="r")
        whole = len(stored) // self.n_features
        matrix = stored[: whole * self.n_features].reshape(whole, self.n_features)
        return np.asarray(matrix[numbers], dtype=np.float32)

    def remove(self) -> None:
        """Delete the journal."""
        self._opened.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _recover(self) -> None:
        """Read the index, and cut both files back to the rows that are whole."""
        self._index.seek(0)
        lines = self._index.read().split(b"\n")
        if len(lines) < 2:  # not even the header was finished
            self._index.truncate(0)
            self._features.truncate(0)
            self._write(self._index, (json.dumps(self._header) + "\n").encode())
            return
        self._check_header(lines[0])
        whole = self._size(self._features) // self._row_bytes
        good = len(lines[0]) + 1
        for line in lines[1:-1]:
            try:
                path, size, changed, row = json.loads(line)
            except (ValueError, TypeError, RecursionError):
                break
            if type(row) is not int or not 0 <= row < whole:
                break
            self._rows[(path, size, changed)] = row
            good += len(line) + 1
        self._index.truncate(good)
        self._features.truncate(whole * self._row_bytes)

    def _check_header(self, line: bytes) -> None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        # Through JSON, so that tuples and lists compare equal.
        if found != json.loads(json.dumps(self._header)):
            raise DataError(
                f"{self.folder} holds an unfinished extraction with another backbone; finish it, "
                "delete it, or choose another --out"
            )

    @staticmethod
    def _size(file: Any) -> int:
        return os.fstat(file.fileno()).st_size

    def _write(self, file: Any, data: bytes) -> None:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"cannot write {self.folder}: {error.strerror}") from None


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
                yield _decode(path, how, max_pixels)
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
    return [_decode(path, how, max_pixels) for path in paths]


def _decode(path: Path, how: Preprocessing, max_pixels: int) -> Decoded:
    """Return the pixels (height, width, 3) of an image, or the sentence that says why not."""
    try:
        return decode_image(path, how, max_pixels)
    except DataError as error:
        return str(error)


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
    store = _Memory() if journal is None else journal
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
    decoding = decode_all([e.path for e in pending], backbone.preprocessing, workers, max_pixels)
    with closing(decoding) as images:  # so that an interrupt ends the workers too
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


class _Memory(dict[Key, NDArray[np.float32]]):
    """Rows that are kept for this run only, as `Journal` keeps them on disk."""

    def append(self, keys: Sequence[Key], features: NDArray[np.float32]) -> None:
        self.update(zip(keys, features, strict=True))

    def rows(self, keys: Sequence[Key]) -> NDArray[np.float32]:
        return np.stack([self[key] for key in keys])
