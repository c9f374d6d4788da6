"""A model for other runtimes: ONNX graphs to which classes can still be added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.export.onnx_folder import OnnxClassifier, export_onnx, load_onnx

_HOMES = {
    "OnnxClassifier": "hgkt.export.onnx_folder",
    "export_onnx": "hgkt.export.onnx_folder",
    "load_onnx": "hgkt.export.onnx_folder",
}

__all__ = ["OnnxClassifier", "export_onnx", "load_onnx"]

__getattr__, __dir__ = attach(__name__, _HOMES)
