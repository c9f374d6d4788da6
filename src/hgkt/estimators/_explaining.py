"""Explanations: from which seen classes a class is made, and what pulled a prediction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._validation import check_number, label_text
from hgkt.estimators._closed_form import ClosedFormTransfer
from hgkt.estimators.explanations import ClassExplanation, Contribution, PredictionExplanation
from hgkt.exceptions import DataError


class ExplainingMixin:
    """Adds `explain_class` and `explain` to HGKTClassifier."""

    def explain_class(self: Any, label: Any) -> ClassExplanation:
        """Say from which seen classes a class was made.

        Parameters
        ----------
        label : str or int
            Any class of the model.
        """
        check_is_fitted(self)
        if label not in self._columns:
            raise DataError(f"class {label_text(label)} is unknown to this model")
        column = self._columns[label]
        weights = self._source_weights(column)
        return ClassExplanation(label, column < len(self.seen_classes_), self._rank(weights))

    def explain(self: Any, X: ArrayLike, n_runner_ups: int = 3) -> list[PredictionExplanation]:
        """Say for each row why it was given its class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_runner_ups : int
            How many other classes to name.
        """
        check_number("n_runner_ups", n_runner_ups, low=1, integer=True)
        scores = self.score_classes(X)
        features = self._check_features(X)
        labels = self.classes_.tolist()
        explanations = []
        for row, order in enumerate(np.argsort(-scores, axis=1, kind="stable")):
            best, others = order[0], order[1 : n_runner_ups + 1]
            explanations.append(
                PredictionExplanation(
                    labels[best],
                    float(scores[row, best]),
                    float(scores[row, best] - scores[row, order[1]]),
                    tuple(Contribution(labels[c], float(scores[row, c])) for c in others),
                    self._rank(self._pulls(features[row : row + 1], int(best))),
                )
            )
        return explanations

    def _source_weights(self: Any, column: int) -> NDArray[np.float64]:
        """Weight of each seen class (L,) in the embedding of the class in `column`."""
        attributes = self.class_attributes_[column : column + 1]
        if isinstance(self._transfer, ClosedFormTransfer):
            return self._transfer.source_weights(attributes)[0]
        weights = np.zeros(len(self.seen_classes_))
        if column < len(self.seen_classes_):
            neighbors = self._transfer.graph.neighbors.of(column)
        else:
            neighbors = self._transfer.neighbors(attributes)[0]
        weights[neighbors] = 1.0 / max(len(neighbors), 1)
        return weights

    def _pulls(self: Any, row: NDArray[Any], column: int) -> NDArray[np.float64]:
        """What each seen class (L,) adds to the score of one row (1, D) for a class."""
        weights = self._source_weights(column)
        transfer = self._transfer
        if not isinstance(transfer, ClosedFormTransfer) or transfer.settings.metric != "cosine":
            return weights
        feature = np.asarray(transfer.features(row), dtype=np.float64)[0]
        embedding = np.asarray(self.class_embeddings_[column], dtype=np.float64)
        lengths = np.linalg.norm(feature), np.linalg.norm(embedding)
        scale = lengths[0] * lengths[1] ** transfer.settings.norm_power
        products = transfer.source_vectors() @ feature
        return weights * products / (scale if scale > 0 else 1.0)

    def _rank(self: Any, weights: NDArray[np.float64]) -> tuple[Contribution, ...]:
        order = np.argsort(-np.abs(weights), kind="stable")
        labels = self.seen_classes_.tolist()
        return tuple(Contribution(labels[c], float(weights[c])) for c in order if weights[c] != 0)
