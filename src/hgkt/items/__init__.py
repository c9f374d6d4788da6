"""Raw items in, classes out: models that read photographs or texts, and training on them."""

from hgkt.items.base import Answer, Explanation, Guess, ItemClassifier, Relative
from hgkt.items.images import ImageClassifier, Photos, read_photos
from hgkt.items.texts import TextClassifier, Texts, read_text_table, read_texts
from hgkt.items.training import Training, train_on_images, train_on_texts

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
