"""What ALE, DeViSE, SJE and LatEm share as estimators: scaling, training path, scoring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._geometry import unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.bilinear import BilinearTrainer
from hgkt.baselines._shared.shared_fit import PathClassifier
from hgkt.baselines._shared.zscore import ZScore
from hgkt.estimators.base import ClassTable

SCALINGS = ("zscore", "l2", "none")
_CHUNK_ROWS = 4096


def zscore_below_one(X: NDArray[Any]) -> ZScore:
    """Return the z-score of features (N, D) divided by the largest z-score of any of them.

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
    >>> zscore_below_one(X).apply(X)
    array([[-1.,  0.],
           [ 0.,  0.],
           [ 1.,  0.]])
    """
    zscore = ZScore.of(X)
    # The largest z-score of a feature is that of its largest value.
    tops = [X[start : start + _CHUNK_ROWS].max(axis=0) for start in range(0, len(X), _CHUNK_ROWS)]
    largest = float(zscore.apply(np.max(tops, axis=0, keepdims=True).astype(np.float64)).max())
    return zscore.divided_by(largest) if largest > 0 else zscore


class CompatibilityClassifier(PathClassifier):
    """Base of the methods that rank classes by F(x, c) = max_k xᵀW_k a_c.

    Subclasses name their loss in `_loss` and take the parameters declared here; `_n_pieces` is
    the number K of matrices. Features are scaled as `scaling` says, with statistics of the
    training rows, attribute vectors to unit length.
    """

    _learned = ("weights_", "mean_", "divisor_", "loss_")
    _path = "n_epochs"
    _loss: ClassVar[str]

    learning_rate: float
    n_epochs: int
    batch_size: int
    margin: float
    scaling: str
    random_state: Any

    @property
    def _n_pieces(self) -> int:
        return 1

    def _check_params(self) -> None:
        check_number("learning_rate", self.learning_rate, low=0.0, open_low=True)
        check_number("n_epochs", self.n_epochs, low=1, integer=True)
        check_number("batch_size", self.batch_size, low=1, integer=True)
        check_number("margin", self.margin, low=0.0, open_low=True)
        check_choice("scaling", self.scaling, SCALINGS)
        check_number("n_matrices", self._n_pieces, low=1, integer=True)

    def _train(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        stops: Sequence[int],
    ) -> Iterator[int]:
        self.mean_, self.divisor_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.scaling == "zscore":
            zscore = zscore_below_one(X)
            self.mean_, self.divisor_ = zscore.mean, zscore.scale
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        trainer = BilinearTrainer(
            X,
            codes,
            unit_rows(attributes),
            self._scale,
            np.random.default_rng(seed),
            loss=self._loss,
            margin=self.margin,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            n_matrices=self._n_pieces,
        )
        for epoch in range(1, stops[-1] + 1):
            loss = trainer.run_epoch()
            if self._progress is not None:
                self._progress("train", epoch, stops[-1], {"loss": loss})
            if epoch in stops:
                self.loss_, self.weights_ = loss, trainer.weights
                yield epoch

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        vectors = unit_rows(attributes)
        if self._n_pieces == 1:
            return {"embedding": vectors @ self.weights_[0].T}
        return {"embeddings": np.stack([vectors @ w.T for w in self.weights_], axis=1)}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        X = self._scale(X.astype(np.float64))
        if self._n_pieces == 1:
            return X @ table["embedding"].T
        best = X @ table["embeddings"][:, 0].T
        for k in range(1, self._n_pieces):
            np.maximum(best, X @ table["embeddings"][:, k].T, out=best)
        return best

    def _scale(self, X: NDArray[Any]) -> NDArray[Any]:
        if self.scaling == "zscore":
            return ZScore(self.mean_, self.divisor_).apply(X)
        return unit_rows(X) if self.scaling == "l2" else X
