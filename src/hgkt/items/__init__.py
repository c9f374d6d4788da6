"""Raw items in, classes out: models that read photographs, and training on a folder of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.items.base import Answer, Explanation, Guess, ItemClassifier, Relative
    from hgkt.items.images import ImageClassifier, Photos, read_photos
    from hgkt.items.training import Training, train_on_images

_HOMES = {
    "Answer": "hgkt.items.base",
    "Explanation": "hgkt.items.base",
    "Guess": "hgkt.items.base",
    "ImageClassifier": "hgkt.items.images",
    "ItemClassifier": "hgkt.items.base",
    "Photos": "hgkt.items.images",
    "Relative": "hgkt.items.base",
    "Training": "hgkt.items.training",
    "read_photos": "hgkt.items.images",
    "train_on_images": "hgkt.items.training",
}

__all__ = [
    "Answer",
    "Explanation",
    "Guess",
    "ImageClassifier",
    "ItemClassifier",
    "Photos",
    "Relative",
    "Training",
    "read_photos",
    "train_on_images",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
