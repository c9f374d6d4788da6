"""Images to feature rows with the backbone that a model was trained on, loaded once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError, HGKTError


class NoImagesError(HGKTError):
    """Images were sent to a model that cannot read them."""


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
    max_pixels : int
        The largest image, in pixels, that is decoded.
    """

    def __init__(
        self, record: Mapping[str, Any] | None, n_features: int, device: str, max_pixels: int
    ) -> None:
        self._record, self._n_features = record, n_features
        self._device, self._max_pixels = device, max_pixels
        self._lock = threading.Lock()
        self._backbone: Any = None
        self._reason = "" if record else "this model reads feature vectors, not images"

    def obstacle(self) -> str:
        """Return in one sentence why images cannot be read here; empty where they can."""
        with self._lock:
            if self._backbone is None and not self._reason:
                self._load()
            return self._reason

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

    def features(self, images: Sequence[tuple[str, bytes]]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of files, each a name for messages and its bytes."""
        obstacle = self.obstacle()
        if obstacle:
            raise NoImagesError(obstacle)
        opened = []
        for number, (name, data) in enumerate(images, start=1):
            try:
                opened.append(self._backbone.open(data, self._max_pixels))
            except DataError as error:
                title = f"image {number}" + (f" ({name[:80]!r})" if name else "")
                raise DataError(f"{title}: {error}") from None
        features: NDArray[np.float32] = self._backbone.extract(opened)
        return features
