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
    name: f"hgkt.vision.{module}"
    for module, names in {
        "backbones": ("Backbone",),
        "extraction": ("Extraction", "extract_features"),
        "images": ("Preprocessing", "open_image", "preprocess"),
        "listing": ("ImageEntry", "find_images", "list_images", "read_manifest"),
        "output": ("extract_folder",),
    }.items()
    for name in names
}

__all__ = [
    "BACKBONES", "Backbone", "Extraction", "ImageEntry", "Preprocessing", "extract_features",
    "extract_folder", "find_images", "list_images", "load_backbone", "open_image", "preprocess",
    "read_manifest",
]  # fmt: skip

__getattr__, __dir__ = attach(__name__, _HOMES)
