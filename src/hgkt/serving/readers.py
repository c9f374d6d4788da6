"""Images and texts to feature rows, by the backbone or the encoder that a model was trained on."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError, HGKTError

if TYPE_CHECKING:
    from hgkt.language import Describer

MAX_TEXTS = 64
"""The most texts of one request; a sentence never waits long behind those of another."""
MAX_TEXT_LENGTH = 10_000
"""The longest text, in characters: several times what encoders read."""


class NotReadError(HGKTError):
    """Images or texts were sent to a model that cannot read them."""


class TooMuchError(HGKTError):
    """A request has more pixels, texts or characters than are read at once."""


class _Reader(ABC):
    """Loads what reads at the first use, once, however many requests arrive at that moment.

    Parameters
    ----------
    what : str
        What is read, for messages.
    n_features : int
        Width of the features that the model expects.
    reason : str
        Why nothing can be read, where that is known at once.
    """

    def __init__(self, what: str, n_features: int, reason: str = "") -> None:
        self._what, self._n_features, self._reason = what, n_features, reason
        self._lock = threading.Lock()
        self._loaded: Any = None

    def obstacle(self) -> str:
        """Return in one sentence why nothing can be read here; empty where it can."""
        with self._lock:
            if self._loaded is None and not self._reason:
                try:
                    self._loaded = self._load()
                except (HGKTError, ImportError) as error:
                    self._reason = f"{self._what} cannot be read here: {error}"
            return self._reason

    def check(self) -> None:
        """Refuse what it is known by now that it cannot be read; loads nothing."""
        if self._reason:
            raise NotReadError(self._reason)

    def _ready(self) -> Any:
        """Return what was loaded; refuse where that cannot be."""
        self.obstacle()
        self.check()
        return self._loaded

    @abstractmethod
    def _load(self) -> Any:
        """Return what reads; what is missing is an `HGKTError` or an `ImportError`."""

    def _check_width(self, what: str, n_features: int) -> None:
        if n_features != self._n_features:
            raise DataError(
                f"the {what} makes {n_features} features, the model reads {self._n_features}"
            )


# ---------------------------------------------------------------------- images
@dataclass(frozen=True)
class Upload:
    """An image as it was sent: a name for messages, and its bytes in memory or on disk."""

    name: str
    file: BinaryIO

    def content(self) -> bytes:
        """Read all of it."""
        self.file.seek(0)
        return self.file.read()


class ImageReader(_Reader):
    """Turns images into the features that a model was trained on.

    Parameters
    ----------
    record : mapping or None
        The model's record of its backbone; None where it has none.
    n_features : int
        Width of the features that the model reads.
    device : str
        Where to compute.
    max_pixels, max_request_pixels : int
        The most pixels of one image, and of all images of one request.
    """

    def __init__(
        self,
        record: Mapping[str, Any] | None,
        n_features: int,
        device: str,
        max_pixels: int,
        max_request_pixels: int,
    ) -> None:
        reason = "" if record else "this model reads feature vectors, not images"
        super().__init__("images", n_features, reason)
        self._record, self._device = dict(record or {}), device
        self._max_pixels, self._max_request_pixels = max_pixels, max_request_pixels

    def _load(self) -> Any:
        from hgkt.vision import load_backbone

        backbone = load_backbone(self._record, device=self._device)
        self._check_width("backbone", backbone.n_features)
        return backbone

    def features(self, uploads: Sequence[Upload]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of images.

        All heads are looked at before anything is decoded; then one image at a time is decoded,
        made as small as the backbone wants it, and forgotten.
        """
        backbone = self._ready()
        n_pixels = 0
        for number, upload in enumerate(uploads, start=1):
            with _named(number, upload):
                n_pixels += backbone.count_pixels(upload.content(), self._max_pixels)
            if n_pixels > self._max_request_pixels:
                raise TooMuchError(
                    "the images have too many pixels together; at most "
                    f"{self._max_request_pixels:,} are accepted, which images 1 to {number} exceed"
                )
        names = [_title(number, upload) for number, upload in enumerate(uploads, start=1)]
        contents = (upload.content() for upload in uploads)
        found: NDArray[np.float32] = backbone.extract(contents, self._max_pixels, names)
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


# ---------------------------------------------------------------------- texts
class TextReader(_Reader):
    """Turns texts into the features that a model was trained on.

    Where the model's classes are described by the same encoder, the two share it.

    Parameters
    ----------
    about : mapping
        What the model was made with.
    n_features : int
        Width of the features that the model reads.
    device : str
        Where to compute.
    describer : callable
        Returns what describes the model's classes.
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        n_features: int,
        device: str,
        describer: Callable[[], Describer],
    ) -> None:
        record = about.get("text_encoder")
        super().__init__(
            "texts", n_features, "" if record else "this model was not trained on texts"
        )
        self._record, self._describes = dict(record or {}), about.get("encoder") == record
        self._device, self._describer = device, describer

    def _load(self) -> Any:
        from hgkt._arrays import torch_device
        from hgkt.language import load_encoder

        device = torch_device(self._device)
        shared = self._describes and device == "cpu"
        encoder = self._describer().encoder if shared else load_encoder(self._record, device)
        self._check_width("encoder", encoder.n_dimensions)
        return encoder

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of texts that `check_texts` has let through."""
        found: NDArray[np.float32] = self._ready().encode(texts).astype(np.float32)
        return found


def check_texts(texts: str | Sequence[str]) -> list[str]:
    """Return the texts of a request as a list; refuse too many, an empty and a too long one.

    Examples
    --------
    >>> check_texts("I lost my card")
    ['I lost my card']
    """
    found = [texts] if isinstance(texts, str) else list(texts)
    if len(found) > MAX_TEXTS:
        raise TooMuchError(
            f"the request has {len(found)} texts; at most {MAX_TEXTS} are accepted at once"
        )
    for position, text in enumerate(found):
        if not text.strip():
            raise DataError(f"text {position} is empty; words are expected")
        if len(text) > MAX_TEXT_LENGTH:
            raise TooMuchError(
                f"text {position} has {len(text):,} characters; at most {MAX_TEXT_LENGTH:,} are "
                "accepted"
            )
    return found
