"""An exported model at work: onnxruntime and NumPy, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._class_names import refuse_twins
from hgkt._files import read_json
from hgkt._reading import reading
from hgkt._validation import attribute_matrix, attribute_table, check_features, import_extra
from hgkt._validation import label_text as text
from hgkt.data.array_files import read_npy
from hgkt.exceptions import DataError, ModelFolderError

EMBEDDER, SCORER, TABLE, CLASSES = "embedder.onnx", "scorer.onnx", "embeddings.npy", "classes.json"
FORMAT = "hgkt-onnx-1"


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
            self.classes = [entry["name"] for entry in description["classes"]]
            self._penalised = np.array([entry["penalised"] for entry in description["classes"]])
            if self._table.ndim != 2 or len(self._table) != len(self.classes):
                raise ModelFolderError(
                    f"{path} has embeddings of shape {self._table.shape}; {len(self.classes)} rows "
                    "are expected"
                )

    def add_classes(self, class_attributes: Mapping[Any, ArrayLike]) -> OnnxClassifier:
        """Add classes by their attributes; all or nothing.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        """
        table = attribute_table(class_attributes)
        names = list(table)
        taken = [name for name in names if name in self.classes]
        if taken:
            raise DataError(f"class {text(taken[0])} is there already")
        refuse_twins([*self.classes, *names])
        if not names:
            return self
        attributes = attribute_matrix(table, names, self._n_attributes)
        rows = self._embedder.run(None, {"attributes": attributes})[0]
        self._table = np.concatenate([self._table, rows])
        self._penalised = np.concatenate([self._penalised, np.zeros(len(names), dtype=bool)])
        self.classes = [*self.classes, *names]
        return self

    def score_classes(self, X: ArrayLike) -> NDArray[Any]:
        """Return the scores (n, n_classes) of features (n, D), higher is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        features = np.asarray(X, dtype=self._table.dtype)
        if features.ndim != 2 or features.shape[1] != self._n_features:
            raise DataError(
                f"features must have {self._n_features} columns, one row per instance; "
                f"got shape {features.shape}"
            )
        check_features(features, "features")
        inputs = {"features": features, "embeddings": self._table, "penalised": self._penalised}
        scores: NDArray[Any] = self._scorer.run(None, inputs)[0]
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the best class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        return np.array(self.classes)[self.score_classes(X).argmax(axis=1)]


def load_onnx(folder: str | Path) -> OnnxClassifier:
    """Open what `export_onnx` wrote.

    Parameters
    ----------
    folder : path
        The folder.
    """
    return OnnxClassifier(folder)
