"""The ONNX folder: two graphs, the class table, and what is needed to add to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hgkt._files import atomic_folder
from hgkt._plain import json_text, plain
from hgkt.estimators import GZSLClassifier, HGKTClassifier, HGKTNetworkClassifier
from hgkt.exceptions import DataError, ModelFolderError
from hgkt.export.runtime import CLASSES, EMBEDDER, FORMAT, SCORER, TABLE

_FILES = {EMBEDDER, SCORER, TABLE, CLASSES}


def export_onnx(model: GZSLClassifier, folder: str | Path) -> Path:
    """Write a fitted HGKT model for ONNX runtimes; classes can be added to it there.

    ``embedder.onnx`` maps ``attributes`` (U, d) to ``embeddings`` (U, D). ``scorer.onnx`` maps
    ``features`` (n, D), the class table ``embeddings`` (C, D) and ``penalised`` (C,) to ``scores``
    (n, C), and to ``probabilities`` (n, C) where the model has temperatures. Where classes have
    grown it takes their ``learned`` (C,) from ``classes.json`` too. The thresholds of
    rejection and prediction sets are in ``classes.json``. ``embeddings.npy`` and ``classes.json``
    are the table to start from.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted HGKTClassifier or HGKTNetworkClassifier.
    folder : path
        Written in one step; an earlier export there is replaced.

    Returns
    -------
    Path
        The folder.
    """
    from hgkt.export.hgkt_graphs import embedder_graph, scorer_graph

    if not isinstance(model, HGKTClassifier | HGKTNetworkClassifier):
        raise DataError(
            f"ONNX export covers hgkt, not {type(model).__name__}; train with --method hgkt"
        )
    if not hasattr(model, "seen_classes_"):
        raise DataError("the model is not fitted, so there is nothing to export")
    graphs = {
        EMBEDDER: embedder_graph(model._transfer),
        SCORER: scorer_graph(
            model._transfer,
            int(model.n_features_in_),
            model.calibration_,
            None if model.confidence_ is None else model.confidence_.temperatures,
            grown=bool(model._learned_shares.any()),
        ),
    }
    with atomic_folder(folder, _is_export, ModelFolderError, "an ONNX export") as scratch:
        for name, graph in graphs.items():
            (scratch / name).write_bytes(graph.SerializeToString())
        np.save(scratch / TABLE, model.class_embeddings_)
        (scratch / CLASSES).write_text(json_text(_description(model)), encoding="utf-8")
    return Path(folder)


def _is_export(path: Path) -> bool:
    return not {child.name for child in path.iterdir()} - _FILES


def _description(model: HGKTClassifier | HGKTNetworkClassifier) -> dict[str, Any]:
    labels, seen = model.classes_.tolist(), model.seen_mask_.tolist()
    pays = np.concatenate([~model._grown, np.zeros(len(model.unseen_classes_), dtype=bool)])
    penalised = pays[model._order.rows].tolist()
    learned = np.where(penalised, 0.0, model.learned_shares()).tolist()
    return {
        "format": FORMAT,
        "n_features": int(model.n_features_in_),
        "n_attributes": int(model.class_attributes_.shape[1]),
        "calibration": model.calibration_.to_dict(),
        "confidence": None if model.confidence_ is None else plain(model.confidence_.to_arrays()),
        "classes": [
            {"name": name, "seen": is_seen, "penalised": paying, "learned": share}
            for name, is_seen, paying, share in zip(labels, seen, penalised, learned, strict=True)
        ],
        "about": getattr(model, "about_", {}),
    }
