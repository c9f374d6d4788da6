"""The ONNX folder: two graphs, the class table, and what is needed to add to it."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators import GZSLClassifier, HGKTClassifier
from hgkt.exceptions import DataError, ModelFolderError

EMBEDDER, SCORER, TABLE, CLASSES = "embedder.onnx", "scorer.onnx", "embeddings.npy", "classes.json"
FORMAT = "hgkt-onnx-1"
_FILES = {EMBEDDER, SCORER, TABLE, CLASSES}


def export_onnx(model: GZSLClassifier, folder: str | Path) -> Path:
    """Write a fitted HGKT model for ONNX runtimes; classes can be added to it there.

    ``embedder.onnx`` maps ``attributes`` (U, d) to ``embeddings`` (U, D). ``scorer.onnx`` maps
    ``features`` (n, D), the class table ``embeddings`` (C, D) and ``penalised`` (C,) to ``scores``
    (n, C). ``embeddings.npy`` and ``classes.json`` are the table to start from.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted HGKTClassifier of either transfer, calibrated or not.
    folder : path
        Written in one step; an earlier export there is replaced.

    Returns
    -------
    Path
        The folder.
    """
    from hgkt.export.hgkt_graphs import embedder_graph, scorer_graph

    inner: Any = getattr(model, "estimator_", model)
    if not isinstance(inner, HGKTClassifier):
        raise DataError(
            f"ONNX export covers hgkt, not {type(inner).__name__}; train with --method hgkt"
        )
    if not hasattr(inner, "seen_classes_"):
        raise DataError("the model is not fitted, so there is nothing to export")
    transfer = inner._transfer
    gamma = float(model._seen_penalty())
    graphs = {
        EMBEDDER: embedder_graph(transfer),
        SCORER: scorer_graph(transfer, int(inner.n_features_in_), gamma),
    }
    path = Path(folder)
    _check_target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise ModelFolderError(f"cannot write to {path.parent}: {error.strerror}") from error
    try:
        for name, graph in graphs.items():
            (scratch / name).write_bytes(graph.SerializeToString())
        np.save(scratch / TABLE, inner.class_embeddings_)
        text = json.dumps(_description(model, inner, gamma), indent=2, allow_nan=False)
        (scratch / CLASSES).write_text(text + "\n", encoding="utf-8")
        scratch.chmod(0o755)  # mkdtemp makes it private
        shutil.rmtree(path, ignore_errors=True)
        scratch.rename(path)
    except OSError as error:
        raise ModelFolderError(f"cannot write {path}: {error.strerror}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def _check_target(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_dir() or {child.name for child in path.iterdir()} - _FILES:
        raise ModelFolderError(
            f"{path} exists and is no ONNX export; it is left alone, choose another path"
        )


def _description(model: GZSLClassifier, inner: Any, gamma: float) -> dict[str, Any]:
    n_seen = len(inner.seen_classes_)
    penalised: NDArray[np.bool_] = np.zeros(len(inner.classes_), dtype=bool)
    penalised[:n_seen] = model._penalised()
    return {
        "format": FORMAT,
        "n_features": int(inner.n_features_in_),
        "n_attributes": int(inner.class_attributes_.shape[1]),
        "calibration": gamma,
        "classes": [
            {"name": name, "seen": column < n_seen, "penalised": bool(penalised[column])}
            for column, name in enumerate(inner.classes_.tolist())
        ],
        "about": getattr(inner, "about_", {}),
    }
