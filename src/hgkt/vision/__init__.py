"""Images to features: backbones, preprocessing, safe decoding, extraction that can be resumed.

Neither Pillow nor torch is imported before an image or a network is opened.
"""

from typing import TYPE_CHECKING

from hgkt._lazy import attach
from hgkt.vision.backbones import BACKBONES, Backbone, load_backbone
from hgkt.vision.extraction import Extraction, extract_features
from hgkt.vision.images import Preprocessing, open_image
from hgkt.vision.listing import ImageEntry, find_images, list_images, read_manifest

if TYPE_CHECKING:
    from hgkt.vision.output import extract_folder

__all__ = [
    "BACKBONES", "Backbone", "Extraction", "ImageEntry", "Preprocessing", "extract_features",
    "extract_folder", "find_images", "list_images", "load_backbone", "open_image", "read_manifest",
]  # fmt: skip

# Imported on first use: to look at images needs no pandas.
__getattr__, __dir__ = attach(__name__, {"extract_folder": "hgkt.vision.output"})
