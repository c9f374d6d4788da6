"""A model for other runtimes: ONNX graphs to which classes can still be added."""

from hgkt.export.onnx_folder import OnnxClassifier, export_onnx, load_onnx

__all__ = ["OnnxClassifier", "export_onnx", "load_onnx"]
