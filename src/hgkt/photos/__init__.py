"""From a folder of photographs to a model that names them, and classes it has no photo of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.photos.model import Guess, ImageClassifier
    from hgkt.photos.reading import Photos, read_photos
    from hgkt.photos.training import train_on_images

_HOMES = {
    "Guess": "hgkt.photos.model",
    "ImageClassifier": "hgkt.photos.model",
    "Photos": "hgkt.photos.reading",
    "read_photos": "hgkt.photos.reading",
    "train_on_images": "hgkt.photos.training",
}

__all__ = ["Guess", "ImageClassifier", "Photos", "read_photos", "train_on_images"]

__getattr__, __dir__ = attach(__name__, _HOMES)
