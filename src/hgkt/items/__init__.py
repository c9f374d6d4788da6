"""From a folder of photographs to a model that names them, and classes it has no photo of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.items.base import Guess, ImageClassifier
    from hgkt.items.reading import Photos, read_photos
    from hgkt.items.training import train_on_images

_HOMES = {
    "Guess": "hgkt.items.base",
    "ImageClassifier": "hgkt.items.base",
    "Photos": "hgkt.items.reading",
    "read_photos": "hgkt.items.reading",
    "train_on_images": "hgkt.items.training",
}

__all__ = ["Guess", "ImageClassifier", "Photos", "read_photos", "train_on_images"]

__getattr__, __dir__ = attach(__name__, _HOMES)
