"""The ONNX folder: two graphs, the class table, and a classifier that adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._files import atomic_folder, read_json, reading
from hgkt._plain import json_text, plain
from hgkt._validation import (
    attribute_matrix,
    attribute_table,
    check_features,
    check_number,
    import_extra,
    label_text,
    refuse_twins,
)
from hgkt.calibration import Calibration, Confidence
from hgkt.calibration.folds import SEEN
from hgkt.calibration.novelty import rejected, with_unknown
from hgkt.calibration.sets import set_columns
from hgkt.data.arrays import read_npy
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier, HGKTClassifier

EMBEDDER, SCORER, TABLE, CLASSES = "embedder.onnx", "scorer.onnx", "embeddings.npy", "classes.json"
FORMAT = "hgkt-onnx-1"


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
        A fitted HGKTClassifier.
    folder : path
        Written in one step; an earlier export there is replaced.

    Returns
    -------
    Path
        The folder.
    """
    from hgkt.estimators import HGKTClassifier
    from hgkt.export.graphs import embedder_graph, scorer_graph

    if not isinstance(model, HGKTClassifier):
        raise DataError(
            f"ONNX export covers hgkt, not {type(model).__name__}; train with --method hgkt"
        )
    if not hasattr(model, "seen_classes_"):
        raise DataError("the model is not fitted, so there is nothing to export")
    transfer, table, n_features = model._transfer, model.class_embeddings_, model.n_features_in_
    width, grown = table.shape[1], bool(model._table.learned_shares.any())
    temperatures = None if model.confidence_ is None else model.confidence_.temperatures
    graphs = {
        EMBEDDER: embedder_graph(transfer, width),
        SCORER: scorer_graph(transfer, n_features, width, model.calibration_, temperatures, grown),
    }
    with atomic_folder(folder, _is_export, ModelFolderError, "an ONNX export") as scratch:
        for name, graph in graphs.items():
            (scratch / name).write_bytes(graph.SerializeToString())
        np.save(scratch / TABLE, table)
        (scratch / CLASSES).write_text(json_text(_description(model)), encoding="utf-8")
    return Path(folder)


def _is_export(path: Path) -> bool:
    return {child.name for child in path.iterdir()} <= {EMBEDDER, SCORER, TABLE, CLASSES}


def _description(model: HGKTClassifier) -> dict[str, Any]:
    labels, seen = model.classes_.tolist(), model.seen_mask_.tolist()
    penalised = (model.class_groups() == SEEN).tolist()
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


class OnnxClassifier:
    """The class table of an ONNX export and the two graphs that fill and use it.

    Parameters
    ----------
    folder : path
        What `export_onnx` wrote.

    Attributes
    ----------
    classes : list
        Labels, in the order of score columns.
    """

    def __init__(self, folder: str | Path) -> None:
        path = Path(folder)
        runtime = import_extra("onnxruntime", "onnx")
        with reading(path, "a complete ONNX export", ModelFolderError):
            description = read_json(path / CLASSES, ModelFolderError)
            if description.get("format") != FORMAT:
                raise ModelFolderError(f"{path} is no ONNX export of format {FORMAT!r}")
            self._table: NDArray[Any] = read_npy(path / TABLE, error=ModelFolderError)
            graphs = [(path / name).read_bytes() for name in (EMBEDDER, SCORER)]
            self._embedder, self._scorer = (
                runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
                for graph in graphs
            )
            self._n_features = int(description["n_features"])
            self._n_attributes = int(description["n_attributes"])
            entries = description["classes"]
            self.classes = [entry["name"] for entry in entries]
            self._penalised = np.array([entry["penalised"] for entry in entries])
            self._learned = np.array([entry["learned"] for entry in entries], self._table.dtype)
            self._calibration = Calibration.of(description["calibration"])
            arrays = description["confidence"]
            self._confidence = arrays and Confidence.from_arrays(
                {name: np.asarray(values) for name, values in arrays.items()}
            )
            if self._table.ndim != 2 or len(self._table) != len(entries):
                raise ModelFolderError(
                    f"{path} has embeddings of shape {self._table.shape}; {len(entries)} rows are "
                    "expected"
                )

    def add_classes(self, class_attributes: Mapping[Any, ArrayLike]) -> OnnxClassifier:
        """Add classes by their attributes; all or nothing.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        """
        table = attribute_table(class_attributes)
        for name in table:
            if name in self.classes:
                raise DataError(f"class {label_text(name)} is there already")
        refuse_twins([*self.classes, *table])
        attributes = attribute_matrix(table, list(table), self._n_attributes)
        rows = self._embedder.run(None, {"attributes": attributes})[0]
        self._table = np.concatenate([self._table, rows])
        self._penalised = np.pad(self._penalised, (0, len(table)))
        self._learned = np.pad(self._learned, (0, len(table)))
        self.classes = [*self.classes, *table]
        return self

    def score_classes(self, X: ArrayLike) -> NDArray[Any]:
        """Return the scores (n, n_classes) of features (n, D), higher is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        return self._run(X)["scores"]

    def predict(self, X: ArrayLike, reject: float | None = None) -> NDArray[Any]:
        """Return the best class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        reject : float, optional
            Share of rows of known classes that may be rejected by mistake; rows that look like
            none of them are then labelled `hgkt.UNKNOWN`.
        """
        if reject is not None:
            check_number("reject", reject, low=0, high=1, open_low=True, open_high=True)
        found = self._run(X)
        labels = np.array(self.classes)[found["scores"].argmax(axis=1)]
        return (
            labels
            if reject is None
            else with_unknown(labels, rejected(self._novelty(found), reject))
        )

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the probability (n, n_classes) of every class; rows sum to one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        self._thresholds()
        return self._run(X)["probabilities"]

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how little each row (n,) looks like any known class, from 0 to 1.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        return self._novelty(self._run(X))

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> list[list[Any]]:
        """Return the classes among which the true one is, the likeliest first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            How often a set is to hold the true class.
        """
        check_number("coverage", coverage, low=0, high=1, open_low=True, open_high=True)
        probabilities = self.predict_proba(X)
        learned = np.where(self._penalised, 1.0, self._learned)
        members = self._thresholds().sets.members(probabilities, learned, coverage)
        found = set_columns(members, probabilities)
        return [[self.classes[column] for column in columns.tolist()] for columns in found]

    def _run(self, X: ArrayLike) -> dict[str, NDArray[Any]]:
        """Return the scorer's outputs by name."""
        features = np.asarray(X, dtype=self._table.dtype)
        if features.ndim != 2 or features.shape[1] != self._n_features:
            raise DataError(
                f"features must have {self._n_features} columns, one row per instance; "
                f"got shape {features.shape}"
            )
        check_features(features, "features")
        inputs = {"features": features, "embeddings": self._table, "penalised": self._penalised}
        if any(each.name == "learned" for each in self._scorer.get_inputs()):
            inputs["learned"] = self._learned
        outputs = [each.name for each in self._scorer.get_outputs()]
        return dict(zip(outputs, self._scorer.run(outputs, inputs), strict=True))

    def _novelty(self, found: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        novelty, n_paying = self._thresholds().novelty, int(self._penalised.sum())
        gamma = self._calibration.gamma(n_paying, len(self.classes) - n_paying)
        paid = gamma * self._penalised + self._calibration.offset * self._learned
        return novelty(found["scores"] + paid, found["probabilities"].astype(np.float64))

    def _thresholds(self) -> Confidence:
        if self._confidence is None:
            raise DataError(
                "this export cannot say how sure it is: its model had no thresholds from "
                "validation classes"
            )
        return self._confidence


def load_onnx(folder: str | Path) -> OnnxClassifier:
    """Open what `export_onnx` wrote.

    Parameters
    ----------
    folder : path
        The folder.
    """
    return OnnxClassifier(folder)
