"""Raw items in, classes out: models that read photographs or texts, and training on them."""

from hgkt.items.base import Answer, Explanation, Guess, ItemClassifier, Relative
from hgkt.items.images import ImageClassifier, read_photos
from hgkt.items.tables import ReadItems
from hgkt.items.texts import TextClassifier, read_text_table, read_texts
from hgkt.items.training import Training, train_on_images, train_on_texts

__all__ = [
    "Answer",
    "Explanation",
    "Guess",
    "ImageClassifier",
    "ItemClassifier",
    "ReadItems",
    "Relative",
    "TextClassifier",
    "Training",
    "read_photos",
    "read_text_table",
    "read_texts",
    "train_on_images",
    "train_on_texts",
]
