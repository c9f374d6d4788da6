"""Images to feature rows with the backbone that a model was trained on, loaded once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError, HGKTError


class NoImagesError(HGKTError):
    """Images were sent to a model that cannot read them."""


class TooManyPixelsError(HGKTError):
    """The images of a request are small files and large pictures."""


@dataclass(frozen=True)
class Upload:
    """An image as it was sent: a name for messages, and its bytes in memory or on disk."""

    name: str
    file: BinaryIO

    def content(self) -> bytes:
        """Read all of it."""
        self.file.seek(0)
        return self.file.read()


@dataclass(frozen=True)
class PixelLimits:
    """The most pixels of one image, and of all images of one request."""

    image: int
    request: int


class ImageReader:
    """Turns images into the features that a model was trained on.

    The backbone is loaded at the first use, once, however many requests arrive at that moment.

    Parameters
    ----------
    record : mapping or None
        The model's record of its backbone; None where it has none.
    n_features : int
        Width of the features that the model reads.
    device : str
        Where to compute.
    limits : PixelLimits
        What is decoded at most.
    """

    def __init__(
        self,
        record: Mapping[str, Any] | None,
        n_features: int,
        device: str,
        limits: PixelLimits,
    ) -> None:
        self._record, self._n_features = record, n_features
        self._device, self._limits = device, limits
        self._lock = threading.Lock()
        self._backbone: Any = None
        self._reason = "" if record else "this model reads feature vectors, not images"

    def obstacle(self) -> str:
        """Return in one sentence why images cannot be read here; empty where they can."""
        with self._lock:
            if self._backbone is None and not self._reason:
                self._load()
            return self._reason

    def check(self) -> None:
        """Refuse images where it is known by now that they cannot be read; loads nothing."""
        if self._reason:
            raise NoImagesError(self._reason)

    def _load(self) -> None:
        try:
            from hgkt.vision import load_backbone

            backbone = load_backbone(dict(self._record or {}), device=self._device)
        except (HGKTError, ImportError) as error:
            self._reason = f"images cannot be read here: {error}"
            return
        if backbone.n_features != self._n_features:
            self._reason = (
                f"images cannot be read here: the backbone makes {backbone.n_features} features, "
                f"the model reads {self._n_features}"
            )
            return
        self._backbone = backbone

    def features(self, uploads: Sequence[Upload]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of images.

        All heads are looked at before anything is decoded; then one image at a time is decoded,
        made as small as the backbone wants it, and forgotten.
        """
        self.obstacle()
        self.check()
        n_pixels = 0
        for number, upload in enumerate(uploads, start=1):
            with _named(number, upload):
                n_pixels += self._backbone.count_pixels(upload.content(), self._limits.image)
            if n_pixels > self._limits.request:
                raise TooManyPixelsError(
                    f"the images have too many pixels together; at most {self._limits.request:,} "
                    f"are accepted, which images 1 to {number} exceed"
                )
        names = [_title(number, upload) for number, upload in enumerate(uploads, start=1)]
        contents = (upload.content() for upload in uploads)
        found: NDArray[np.float32] = self._backbone.extract(contents, self._limits.image, names)
        return found


@contextmanager
def _named(number: int, upload: Upload) -> Iterator[None]:
    """Say in messages which image it was."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{_title(number, upload)}: {error}") from None


def _title(number: int, upload: Upload) -> str:
    return f"image {number}" + (f" ({upload.name[:80]!r})" if upload.name else "")
