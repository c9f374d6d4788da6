"""Images and texts to feature rows, by the backbone or the encoder that a model was trained on."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators import GZSLClassifier
from hgkt.exceptions import DataError, HGKTError
from hgkt.serving.edition import made_with
from hgkt.serving.settings import ServiceSettings

if TYPE_CHECKING:
    from hgkt.language import Describer

MAX_IMAGES = 64
MAX_TEXTS = 64
"""The most texts of one request; a sentence never waits long behind those of another."""
MAX_TEXT_LENGTH = 10_000
"""The longest text, in characters: several times what encoders read."""


class NotReadError(HGKTError):
    """Images or texts were sent to a model that cannot read them."""


class TooMuchError(HGKTError):
    """The images of a request have more pixels than are read at once."""


class _Reader(ABC):
    """Loads what reads at the first use, once, however many requests arrive at that moment.

    Parameters
    ----------
    model : GZSLClassifier
        The model; its record says by what its features were made.
    settings : ServiceSettings
        Where to compute, and the limits.
    describer : callable, optional
        Returns what describes the model's classes; an encoder of texts that it has is shared.
    """

    what: str
    record: str
    without: str
    """What is read, what the model's record of it is called, and what is told without one."""

    def __init__(
        self,
        model: GZSLClassifier,
        settings: ServiceSettings,
        describer: Callable[[], Describer] | None = None,
    ) -> None:
        self._model, self._settings, self._describer = model, settings, describer
        self._reason = "" if made_with(model).get(self.record) else self.without
        self._lock = threading.Lock()
        self._loaded: Any = None

    @abstractmethod
    def _load(self) -> tuple[Any, int]:
        """Return what reads, and how many features it makes.

        What is missing is an `HGKTError` or an `ImportError`.
        """

    def obstacle(self) -> str:
        """Return in one sentence why nothing can be read here; empty where it can."""
        with self._lock:
            if self._loaded is None and not self._reason:
                try:
                    loaded, width = self._load()
                    expected = self._model.n_features_in_
                    if width != expected:
                        raise DataError(
                            f"what reads them makes {width} features, the model reads {expected}"
                        )
                    self._loaded = loaded
                except (HGKTError, ImportError) as error:
                    self._reason = f"{self.what} cannot be read here: {error}"
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


# ---------------------------------------------------------------------- images
@dataclass(frozen=True)
class Upload:
    """An image as it was sent: what messages call it, and its bytes in memory or on disk."""

    name: str
    file: BinaryIO

    def content(self) -> bytes:
        """Read all of it."""
        self.file.seek(0)
        return self.file.read()


class ImageReader(_Reader):
    """Turns images into the features that a model was trained on."""

    what, record = "images", "backbone"
    without = "this model reads feature vectors, not images"

    def _load(self) -> tuple[Any, int]:
        from hgkt.items import ImageClassifier

        backbone = ImageClassifier(self._model, self._settings.device).backbone
        return backbone, backbone.n_features

    def features(self, uploads: Sequence[Upload]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of images.

        All heads are looked at before anything is decoded; then one image at a time is decoded,
        made as small as the backbone wants it, and forgotten.
        """
        backbone, most = self._ready(), self._settings.max_request_pixels
        n_pixels, most_of_one = 0, self._settings.max_image_pixels
        for number, upload in enumerate(uploads, start=1):
            try:
                n_pixels += backbone.count_pixels(upload.content(), most_of_one)
            except DataError as error:
                raise DataError(f"{upload.name}: {error}") from None
            if n_pixels > most:
                raise TooMuchError(
                    "the images have too many pixels together; at most "
                    f"{most:,} are accepted, which images 1 to {number} exceed"
                )
        contents, names = map(Upload.content, uploads), [upload.name for upload in uploads]
        found: NDArray[np.float32] = backbone.extract(contents, most_of_one, names)
        return found


# ---------------------------------------------------------------------- texts
class TextReader(_Reader):
    """Turns texts into the features that a model was trained on."""

    what, record = "texts", "text_encoder"
    without = "this model was not trained on texts"

    def _load(self) -> tuple[Any, int]:
        from hgkt.items import TextClassifier

        classifier = TextClassifier(self._model, self._settings.device)
        if self._describer is not None:
            classifier.describer = self._describer()
        return classifier.encoder, classifier.encoder.n_dimensions

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of texts."""
        found: NDArray[np.float32] = self._ready().encode(texts).astype(np.float32)
        return found
