"""hgkt: train on the classes you have, add the classes you get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt._validation import UNKNOWN
    from hgkt.client import Client
    from hgkt.data import GZSLDataset, load_dataset, open_shards
    from hgkt.estimators import HGKTClassifier, HGKTNetworkClassifier, load_model
    from hgkt.evaluation import ClassFoldSearch, evaluate, gather, gzsl_metrics
    from hgkt.exceptions import HGKTError
    from hgkt.items import ImageClassifier, TextClassifier, train_on_images, train_on_texts
    from hgkt.statistics import GatheredStatistics

__version__ = "0.1.0"

# Public names are imported on first use: `import hgkt` stays fast and loads no torch.
_HOMES = {
    "UNKNOWN": "hgkt._validation",
    "ClassFoldSearch": "hgkt.evaluation",
    "Client": "hgkt.client",
    "GZSLDataset": "hgkt.data",
    "GatheredStatistics": "hgkt.statistics",
    "HGKTClassifier": "hgkt.estimators",
    "HGKTError": "hgkt.exceptions",
    "HGKTNetworkClassifier": "hgkt.estimators",
    "ImageClassifier": "hgkt.items",
    "TextClassifier": "hgkt.items",
    "evaluate": "hgkt.evaluation",
    "gather": "hgkt.evaluation",
    "gzsl_metrics": "hgkt.evaluation",
    "load_dataset": "hgkt.data",
    "load_model": "hgkt.estimators",
    "open_shards": "hgkt.data",
    "train_on_images": "hgkt.items",
    "train_on_texts": "hgkt.items",
}

__all__ = [
    "UNKNOWN",
    "ClassFoldSearch",
    "Client",
    "GZSLDataset",
    "GatheredStatistics",
    "HGKTClassifier",
    "HGKTError",
    "HGKTNetworkClassifier",
    "ImageClassifier",
    "TextClassifier",
    "__version__",
    "evaluate",
    "gather",
    "gzsl_metrics",
    "load_dataset",
    "load_model",
    "open_shards",
    "train_on_images",
    "train_on_texts",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
