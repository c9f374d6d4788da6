"""hgkt: train on the classes you have, add the classes you get."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, load_dataset
    from hgkt.estimators import CalibratedStacking, HGKTClassifier, load_model
    from hgkt.evaluation import ClassFoldSearch, evaluate, gzsl_metrics
    from hgkt.exceptions import HGKTError

__version__ = "0.1.0"

# Public names are imported on first use: `import hgkt` stays fast and loads no torch.
_HOMES = {
    "CalibratedStacking": "hgkt.estimators",
    "ClassFoldSearch": "hgkt.evaluation",
    "GZSLDataset": "hgkt.data",
    "HGKTClassifier": "hgkt.estimators",
    "HGKTError": "hgkt.exceptions",
    "evaluate": "hgkt.evaluation",
    "gzsl_metrics": "hgkt.evaluation",
    "load_dataset": "hgkt.data",
    "load_model": "hgkt.estimators",
}

__all__ = [
    "CalibratedStacking",
    "ClassFoldSearch",
    "GZSLDataset",
    "HGKTClassifier",
    "HGKTError",
    "__version__",
    "evaluate",
    "gzsl_metrics",
    "load_dataset",
    "load_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hgkt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
