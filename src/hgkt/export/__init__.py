"""A model for other runtimes: ONNX graphs to which classes can still be added."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgkt.export.onnx_files import export_onnx
    from hgkt.export.runtime import OnnxClassifier, load_onnx

_HOMES = {
    "OnnxClassifier": "hgkt.export.runtime",
    "export_onnx": "hgkt.export.onnx_files",
    "load_onnx": "hgkt.export.runtime",
}

__all__ = ["OnnxClassifier", "export_onnx", "load_onnx"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hgkt.export' has no attribute {name!r}")
