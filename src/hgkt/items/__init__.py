"""Raw items in, classes out: models that read photographs or texts, and training on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.items.base import Answer, Explanation, Guess, ItemClassifier, Relative
    from hgkt.items.images import ImageClassifier, Photos, read_photos
    from hgkt.items.texts import TextClassifier, Texts, read_text_table, read_texts
    from hgkt.items.training import Training, train_on_images, train_on_texts

_HOMES = {
    "Answer": "hgkt.items.base",
    "Explanation": "hgkt.items.base",
    "Guess": "hgkt.items.base",
    "ImageClassifier": "hgkt.items.images",
    "ItemClassifier": "hgkt.items.base",
    "Photos": "hgkt.items.images",
    "Relative": "hgkt.items.base",
    "TextClassifier": "hgkt.items.texts",
    "Texts": "hgkt.items.texts",
    "Training": "hgkt.items.training",
    "read_photos": "hgkt.items.images",
    "read_text_table": "hgkt.items.texts",
    "read_texts": "hgkt.items.texts",
    "train_on_images": "hgkt.items.training",
    "train_on_texts": "hgkt.items.training",
}

__all__ = [
    "Answer",
    "Explanation",
    "Guess",
    "ImageClassifier",
    "ItemClassifier",
    "Photos",
    "Relative",
    "TextClassifier",
    "Texts",
    "Training",
    "read_photos",
    "read_text_table",
    "read_texts",
    "train_on_images",
    "train_on_texts",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
