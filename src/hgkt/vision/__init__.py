"""Images to features: backbones, preprocessing, safe decoding, extraction that can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach
from hgkt.vision.backbones import BACKBONES, load_backbone

if TYPE_CHECKING:
    from hgkt.vision.backbones import Backbone
    from hgkt.vision.extraction import Extraction, extract_features
    from hgkt.vision.images import Preprocessing, open_image, preprocess
    from hgkt.vision.listing import ImageEntry, find_images, list_images, read_manifest
    from hgkt.vision.output import extract_folder

# Imported on first use: listing the backbones needs neither Pillow nor torch.
_HOMES = {
    "Backbone": "hgkt.vision.backbones",
    "Extraction": "hgkt.vision.extraction",
    "ImageEntry": "hgkt.vision.listing",
    "Preprocessing": "hgkt.vision.images",
    "extract_features": "hgkt.vision.extraction",
    "extract_folder": "hgkt.vision.output",
    "find_images": "hgkt.vision.listing",
    "list_images": "hgkt.vision.listing",
    "open_image": "hgkt.vision.images",
    "preprocess": "hgkt.vision.images",
    "read_manifest": "hgkt.vision.listing",
}

__all__ = [
    "BACKBONES",
    "Backbone",
    "Extraction",
    "ImageEntry",
    "Preprocessing",
    "extract_features",
    "extract_folder",
    "find_images",
    "list_images",
    "load_backbone",
    "open_image",
    "preprocess",
    "read_manifest",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
