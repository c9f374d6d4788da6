"""Methods that rank classes by a bilinear compatibility: ALE, DeViSE, SJE and LatEm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._geometry import FeatureMap
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import (
    Fitted,
    PathClassifier,
    Seen,
    Setting,
    center_grid,
)
from hgkt.baselines._shared.ranking import ValueAndSlope, hinge_max, hinge_sum, latent, warp
from hgkt.baselines._shared.rows import ZScore
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import shapes

SCALINGS = ("zscore", "none")
PREPARATIONS = (
    {"feature_map": ["none", "sqrt+l2"], "scaling": ["zscore"]},
    {"feature_map": ["l2", "sqrt+l2"], "scaling": ["none"]},
)
"""What selection tries of features. The learning rate has their unit, so it is never raw."""
_RELATIVE_RANK = 1e-10
_SCORE_LOSSES: dict[str, Callable[[NDArray[Any], NDArray[np.intp], float], ValueAndSlope]] = {
    "warp": warp,
    "hinge_sum": hinge_sum,
    "hinge_max": hinge_max,
}


class CompatibilityClassifier(PathClassifier):
    """Base of the methods that rank classes by F(x, c) = max_k xᵀW_k a_c.

    Subclasses name their loss in `_loss`, write their own constructor where a default differs, and
    may make the number K of matrices, `n_matrices`, a parameter. Mapped features are standardised,
    with statistics of the training rows, where `scaling` says so.
    """

    mathematics_version: ClassVar[int] = 4  # 3: nothing centred

    _learned = shapes(weights_="n_matrices D d", mean_="D", divisor_="D", loss_="")
    _path = "n_epochs"
    _only_scoring = ("averaged",)
    _loss: ClassVar[str]
    _rates: ClassVar[tuple[float, ...]]
    _epochs: ClassVar[tuple[int, ...]]
    """Learning rates and numbers of epochs that selection tries."""

    n_matrices: int = 1
    _trainer: BilinearTrainer

    def __init__(
        self,
        learning_rate: float = 0.1,
        n_epochs: int = 100,
        batch_size: int = 64,
        margin: float = 1.0,
        scaling: str = "zscore",
        averaged: bool = False,
        feature_map: FeatureMap = "none",
        attribute_map: FeatureMap = "l2",
        centering: str = "none",
        calibration: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.margin = margin
        self.scaling = scaling
        self.averaged = averaged
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.centering = centering
        self.calibration = calibration
        self.random_state = random_state

    def default_stages(self) -> list[Any]:
        """Return maps, centring, the learning rate, and maps of features again in long runs.

        A map that shrinks differences needs more epochs than the first stage has. Along each run
        both the last matrix and the average are tried; that costs no training.
        """
        epochs, either = list(self._epochs), [False, True]
        few = {"learning_rate": list(self._rates[2:5:2]), "n_epochs": epochs[:-2]}
        return [
            [{**preparation, **few, "averaged": either} for preparation in PREPARATIONS],
            {**center_grid(), **few, "averaged": either},
            {"learning_rate": list(self._rates), "n_epochs": epochs, "averaged": either},
            [{}, {"feature_map": ["l2", "sqrt+l2"], "n_epochs": epochs, "averaged": either}],
        ]

    def _check_params(self) -> None:
        for name in ("n_epochs", "batch_size", "n_matrices"):
            check_number(name, getattr(self, name), low=1, integer=True)
        for name in ("learning_rate", "margin"):
            check_number(name, getattr(self, name), low=0.0, open_low=True)
        check_choice("scaling", self.scaling, SCALINGS)

    def _fit_settings(self, seen: Seen, settings: Sequence[Setting]) -> Fitted:
        for index, _ in super()._fit_settings(seen, settings):
            self.weights_ = self._trainer.mean if self.averaged else self._trainer.weights
            yield index, self._embed_rows(seen.attributes)
        del self._trainer

    def _train(self, seen: Seen, stops: Sequence[int]) -> Iterator[int]:
        X, codes, attributes = seen
        self.mean_, self.divisor_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.scaling == "zscore":
            zscore = ZScore.below_one(X)
            self.mean_, self.divisor_ = zscore.mean, zscore.scale
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self._trainer = trainer = BilinearTrainer(
            X,
            codes,
            attributes,
            self._scale,
            np.random.default_rng(seed),
            loss=self._loss,
            margin=self.margin,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            n_matrices=self.n_matrices,
        )
        for epoch in range(1, stops[-1] + 1):
            loss = trainer.run_epoch()
            if self._progress is not None:
                self._progress("train", epoch, stops[-1], {"loss": loss})
            if epoch in stops:
                self.loss_, self.weights_ = loss, trainer.weights
                yield epoch

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassTable:
        if self.n_matrices == 1:
            return {"embedding": rows @ self.weights_[0].T}
        return {"embeddings": np.stack([rows @ w.T for w in self.weights_], axis=1)}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        X = self._scale(X.astype(np.float64))
        if self.n_matrices == 1:
            return X @ table["embedding"].T
        best = X @ table["embeddings"][:, 0].T
        for k in range(1, self.n_matrices):
            np.maximum(best, X @ table["embeddings"][:, k].T, out=best)
        return best

    def _scale(self, X: NDArray[Any]) -> NDArray[Any]:
        if self.scaling == "zscore":
            return ZScore(self.mean_, self.divisor_).apply(X)
        return X


@dataclass
class BilinearTrainer:
    """Mini-batch stochastic subgradient descent on a ranking loss, one epoch at a time.

    A step takes ``learning_rate`` times the *sum* of the batch's subgradients, so the learning
    rate is the one of a single instance, as published, and ``batch_size=1`` is the published
    algorithm. There is no schedule: the state after e epochs does not depend on how many follow.

    Subgradients lie in the span of the seen attributes, so the matrices are kept in a basis of
    that span; with more attributes than classes this is smaller, and exactly the same descent.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Features; rows are read batch by batch and passed through `scale`.
    codes : ndarray of shape (N,)
        Class codes.
    attributes : ndarray of shape (L, d)
        Attributes of the seen classes.
    scale : callable
        Maps raw rows to what the method sees.
    rng : numpy Generator
        Source of the order of rows, the sampled rivals and the random start (in the same span).
    loss : {"warp", "hinge_sum", "hinge_max", "latent"}
        The loss; "latent" starts at N(0, 1)/√D, since equal matrices would stay equal, the
        others at zero.
    margin : float
        The margin.
    learning_rate : float
        Step per instance.
    batch_size : int
        Rows a step.
    n_matrices : int
        K; more than one makes sense for "latent" only.
    """

    X: NDArray[Any]
    codes: NDArray[np.intp]
    attributes: NDArray[np.float64]
    scale: Callable[[NDArray[Any]], NDArray[Any]]
    rng: np.random.Generator
    loss: str = "warp"
    margin: float = 1.0
    learning_rate: float = 0.01
    batch_size: int = 64
    n_matrices: int = 1

    def __post_init__(self) -> None:
        n_classes, n_attributes = self.attributes.shape
        self._basis = np.eye(n_attributes)
        if n_attributes > n_classes:
            # Not a QR decomposition: centred attributes depend on one another, and it would add a
            # direction made of rounding errors, into which a random start reaches.
            _, values, basis = np.linalg.svd(self.attributes, full_matrices=False)
            self._basis = basis[values > _RELATIVE_RANK * max(values[0], np.finfo(float).tiny)].T
        dtype = self.X.dtype
        self._coordinates = (self.attributes @ self._basis).astype(dtype)
        shape = (self.X.shape[1], self.n_matrices * self._basis.shape[1])
        # Paper gap: the start of the bilinear methods is not given. Zero adds no random part that
        # early stopping would leave in W, and makes the margin a mere unit.
        self._state = np.zeros(shape, dtype=dtype)
        if self.loss == "latent":
            self._state += self.rng.standard_normal(shape) / np.sqrt(shape[0])
        self._sum, self._n_epochs = np.zeros(shape), 0

    @property
    def weights(self) -> NDArray[np.float64]:
        """The matrices W_k, of shape (K, D, d)."""
        return self._matrices(self._state)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Their average over the ends of all epochs, of the same shape."""
        return self._matrices(self._sum / self._n_epochs)

    def _matrices(self, state: NDArray[Any]) -> NDArray[np.float64]:
        blocks = state.reshape(len(state), self.n_matrices, -1)
        return blocks.transpose(1, 0, 2).astype(np.float64) @ self._basis.T

    def run_epoch(self) -> float:
        """Visit every row once in random order; return the mean loss met on the way."""
        order = self.rng.permutation(len(self.X))
        total = 0.0
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            total += self._step(self.scale(self.X[rows]), self.codes[rows])
        self._sum += self._state
        self._n_epochs += 1
        return total / len(order)

    def _step(self, batch: NDArray[Any], codes: NDArray[np.intp]) -> float:
        projected = batch @ self._state
        if self.loss == "latent":
            rivals = self.rng.integers(len(self._coordinates) - 1, size=len(codes))
            rivals += rivals >= codes
            pieces = projected.reshape(len(batch), self.n_matrices, -1)
            value, by_piece = latent(pieces, rivals, codes, self._coordinates, self.margin)
            slope = by_piece.reshape(projected.shape)
        else:
            scores = projected @ self._coordinates.T
            value, by_score = _SCORE_LOSSES[self.loss](scores, codes, self.margin)
            slope = by_score @ self._coordinates
        moved = slope.any(axis=1)  # late in training few rows still violate the margin
        self._state -= batch[moved].T @ (self.learning_rate * slope[moved])
        return value
