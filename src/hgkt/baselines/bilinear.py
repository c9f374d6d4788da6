"""Bilinear methods: ALE, DeViSE, SJE and LatEm rank classes by xᵀWa under four ranking losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._arrays import FeatureMap, batches
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import GridClassifier, Seen, center_grid, parameters
from hgkt.baselines._shared.rows import ValueAndSlope, ZScore, hinge_sum, violations
from hgkt.estimators.base import ClassRows

SCALINGS = ("zscore", "none")
PREPARATIONS = (
    {"feature_map": ["none", "sqrt+l2"], "scaling": ["zscore"]},
    {"feature_map": ["l2", "sqrt+l2"], "scaling": ["none"]},
)
"""What selection tries of features. The learning rate has their unit, so it is never raw."""
_RELATIVE_RANK = 1e-10


@parameters
class BilinearClassifier(GridClassifier):
    """Base of the methods that rank classes by F(x, c) = max_k xᵀW_k a_c.

    Subclasses name their loss in `_loss`, and may make the number K of matrices, `n_matrices`, a
    parameter. Mapped features are standardised, with statistics of the training rows, where
    `scaling` says so.

    Parameters
    ----------
    learning_rate : float
        Step η for one instance; a batch moves W by the sum over its rows. The default
        and the grid around it come from validation classes of CUB.
    n_epochs : int
        Passes over the data; stopping early is the regularisation. Selection on validation
        classes gets all epoch counts of a grid from one run.
    batch_size : int
        Rows per step; 1 is the published stochastic descent.
    margin : float
        m. Descent starts at W = 0, so it sets units only: the model of
        (learning_rate η, margin m) is m times that of (η/m, 1).
    scaling : {"zscore", "none"}
        What is done to mapped features: "zscore" standardises them and divides by the largest
        value of the standardised training rows, as in the evaluation code of Xian et al.,
        "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI
        2019.
    averaged : bool
        Whether W is its average over the ends of all epochs, which smooths the noise of single
        steps, and not the last one, as published.
    random_state : int, RandomState or None
        Seed of the order of rows.

    Attributes
    ----------
    weights_ : ndarray of shape (1, n_features, n_attributes)
        W.
    mean_ : ndarray of shape (n_features,)
        What ``scaling="zscore"`` takes off features.
    divisor_ : ndarray of shape (n_features,)
        What it then divides them by.
    loss_ : float
        Mean loss met in the last epoch.
    """

    learning_rate: float = 0.1
    n_epochs: int = 100
    batch_size: int = 64
    margin: float = 1.0
    scaling: str = "zscore"
    averaged: bool = False
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    centering: str = "none"
    calibration: float = 0.0
    random_state: Any = None

    mathematics_version: ClassVar[int] = 4  # 3: nothing centred

    _learned = ("weights_", "mean_", "divisor_", "loss_")
    _path = "n_epochs"
    _late = ("averaged",)
    _loss: ClassVar[str]
    _rates: ClassVar[tuple[float, ...]]
    _epochs: ClassVar[tuple[int, ...]]
    """Learning rates and numbers of epochs that selection tries."""

    n_matrices = 1

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

    def _train_path(
        self, gathered: Seen, stops: Sequence[int]
    ) -> Iterator[tuple[int, BilinearTrainer]]:
        X, codes, attributes = gathered
        self.mean_, self.divisor_ = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.scaling == "zscore":
            zscore = ZScore.below_one(X)
            self.mean_, self.divisor_ = zscore.mean, zscore.scale
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        trainer = BilinearTrainer(
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
                self.loss_ = loss
                yield epoch, trainer

    def _finish(self, trained: BilinearTrainer) -> ClassRows:
        self.weights_ = trained.mean if self.averaged else trained.weights
        return self._embed_rows(trained.attributes)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        if self.n_matrices == 1:
            return {"embedding": rows @ self.weights_[0].T}
        return {"embeddings": np.stack([rows @ w.T for w in self.weights_], axis=1)}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
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


@parameters
class ALEClassifier(BilinearClassifier):
    """Attribute label embedding.

    The compatibility F(x, c) = xᵀWa_c ranks the classes. W minimises by stochastic descent

    (1/N) Σ_n (β_{r_n}/r_n) Σ_{c≠y_n} [m + F(x_n, c) − F(x_n, y_n)]₊,  β_r = Σ_{j≤r} 1/j,

    where r_n counts the classes that violate the margin for x_n. The published algorithm estimates
    r_n by drawing classes until one violates; here whole batches are scored against all classes,
    so rank and loss are exact. The class of x is argmax_c F(x, c).

    Parameters
    ----------
    learning_rate, n_epochs, batch_size, margin, scaling, averaged, feature_map : ...
    attribute_map, centering, calibration, random_state : ...

    Attributes
    ----------
    weights_, mean_, divisor_, loss_ : ...

    References
    ----------
    Akata, Perronnin, Harchaoui, Schmid, "Label-embedding for image classification", TPAMI 2016.

    Examples
    --------
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = ALEClassifier(random_state=0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    n_epochs: int = 50

    _loss = "warp"
    _rates = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    _epochs = (5, 10, 20, 50, 100, 200)


@parameters
class DeViSEClassifier(BilinearClassifier):
    """Deep visual-semantic embedding, on fixed features.

    The compatibility F(x, c) = xᵀWa_c ranks the classes. W minimises by stochastic descent

    (1/N) Σ_n Σ_{c≠y_n} [m + F(x_n, c) − F(x_n, y_n)]₊,

    the full sum, which the published algorithm truncates at the first violating class it meets.
    The class of x is argmax_c F(x, c).

    Parameters
    ----------
    learning_rate, n_epochs, batch_size, margin, scaling, averaged, feature_map : ...
    attribute_map, centering, calibration, random_state : ...

    Attributes
    ----------
    weights_, mean_, divisor_, loss_ : ...

    References
    ----------
    Frome, Corrado, Shlens, Bengio, Dean, Ranzato, Mikolov, "DeViSE: a deep visual-semantic
    embedding model", NIPS 2013.

    Examples
    --------
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = DeViSEClassifier(random_state=0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    learning_rate: float = 0.01

    _loss = "hinge_sum"
    _rates = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    _epochs = (2, 5, 10, 20, 50, 100, 200)


@parameters
class SJEClassifier(BilinearClassifier):
    """Structured joint embedding.

    The compatibility F(x, c) = xᵀWa_c ranks the classes. W minimises by stochastic descent

    (1/N) Σ_n [max_c (m·1[c≠y_n] + F(x_n, c)) − F(x_n, y_n)]₊,

    so each instance moves W away from its most violating class only. The class of x is
    argmax_c F(x, c). One kind of class embedding is used; the paper also combines several.

    Parameters
    ----------
    learning_rate, n_epochs, batch_size, margin, scaling, averaged, feature_map : ...
    attribute_map, centering, calibration, random_state : ...

    Attributes
    ----------
    weights_, mean_, divisor_, loss_ : ...

    References
    ----------
    Akata, Reed, Walter, Lee, Schiele, "Evaluation of output embeddings for fine-grained image
    classification", CVPR 2015.

    Examples
    --------
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = SJEClassifier(random_state=0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    mathematics_version: ClassVar[int] = 5  # 4: nothing centred

    _loss = "hinge_max"
    _rates = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    _epochs = (5, 10, 20, 50, 100, 200)


@parameters
class LatEmClassifier(BilinearClassifier):
    """Latent embeddings.

    The compatibility F(x, c) = max_{k≤K} xᵀW_k a_c is linear in pieces: each image picks, for each
    class, the matrix that suits it best. Descent draws one wrong class c for each instance of an
    epoch and follows the subgradient of

    [m + F(x_n, c) − F(x_n, y_n)]₊,

    which moves the winning matrix of either class, from independent starts W_k ~ N(0, 1)/√D. The
    class of x is argmax_c F(x, c).

    Parameters
    ----------
    learning_rate : float, default=1.0
        Step η for one instance; a batch moves W by the sum over its rows. The default
        comes from validation classes of CUB.
    n_epochs : ...
    n_matrices : int, default=2
        K; the authors' demo has 2, the paper searches up to 10. With 1 the model is a bilinear
        map and has ``class_embeddings_``.
    batch_size : ...
    margin : float, default=1.0
        m. The authors' code has 1.
    scaling, averaged, feature_map, attribute_map, centering, calibration : ...
    random_state : int, RandomState or None, default=None
        Seed of the order of rows, the wrong classes and the start.

    Attributes
    ----------
    weights_ : ndarray of shape (n_matrices, n_features, n_attributes)
        W_k.
    mean_, divisor_, loss_ : ...

    References
    ----------
    Xian, Akata, Sharma, Nguyen, Hein, Schiele, "Latent embeddings for zero-shot classification",
    CVPR 2016.

    Examples
    --------
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = LatEmClassifier(random_state=0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    learning_rate: float = 1.0
    n_epochs: int = 150
    n_matrices: int = 2

    mathematics_version: ClassVar[int] = 6  # 5: maps and rates chosen with one matrix

    _loss = "latent"
    _rates = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    _epochs = (5, 10, 20, 50, 100, 150)

    def default_stages(self) -> list[Any]:
        """Return those of all compatibilities with one or two matrices, then their number."""
        preparations, *others = super().default_stages()
        epochs, either = [10, 20, 50, 100], [False, True]
        counts = {"n_matrices": [1, 2, 4, 8], "n_epochs": epochs, "averaged": either}
        return [[{**grid, "n_matrices": [1, 2]} for grid in preparations], *others, counts]


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
        Rows per step.
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
        for batch in batches(len(order), self.batch_size):
            rows = order[batch]
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


def warp(scores: NDArray[Any], codes: NDArray[np.intp], margin: float) -> ValueAndSlope:
    """Σ_n (β_r/r) Σ_{c≠y_n} [m + F(x_n, c) − F(x_n, y_n)]₊, the loss of ALE.

    r counts the classes that violate the margin and β_r = Σ_{j≤r} 1/j. Both are exact, where the
    sampled algorithm estimates r from the number of draws up to the first violation. The weight
    is constant between kinks, so this slope is the derivative wherever there is one.

    Examples
    --------
    >>> warp(np.array([[2.0, 1.5, 1.5]]), np.array([0]), 1.0)
    (0.75, array([[-1.5 ,  0.75,  0.75]]))
    """
    gaps, rows = violations(scores, codes, margin)
    violated = gaps > 0
    ranks = violated.sum(axis=1)
    beta = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, scores.shape[1] + 1))])
    weights = (beta[ranks] / np.maximum(ranks, 1)).astype(scores.dtype)
    slope = violated * weights[:, None]
    slope[rows, codes] = -slope.sum(axis=1)
    return float((weights * np.maximum(gaps, 0).sum(axis=1)).sum()), slope


def hinge_max(scores: NDArray[Any], codes: NDArray[np.intp], margin: float) -> ValueAndSlope:
    """Σ_n [max_c (m·1[c≠y_n] + F(x_n, c)) − F(x_n, y_n)]₊, the loss of SJE.

    Classes that tie for the maximum share the slope equally (a subgradient too), so that nothing
    hangs on the order of the classes: at W = 0 all of them tie.

    Examples
    --------
    >>> hinge_max(np.array([[2.0, 1.5, 0.0], [0.0, 0.0, 0.0]]), np.array([0, 0]), 1.0)
    (1.5, array([[-1. ,  1. ,  0. ],
           [-1. ,  0.5,  0.5]]))
    """
    gaps, rows = violations(scores, codes, margin)
    worst = gaps.max(axis=1)
    slope = ((gaps == worst[:, None]) & (worst > 0)[:, None]).astype(scores.dtype)
    slope /= np.maximum(slope.sum(axis=1), 1)[:, None]
    slope[rows, codes] = -slope.sum(axis=1)
    return float(np.maximum(worst, 0).sum()), slope


def latent(
    pieces: NDArray[Any],
    rivals: NDArray[np.intp],
    codes: NDArray[np.intp],
    attributes: NDArray[Any],
    margin: float,
) -> ValueAndSlope:
    """Σ_n [m + F(x_n, rival_n) − F(x_n, y_n)]₊ with F(x, c) = max_k xᵀW_k a_c: LatEm's loss.

    Parameters
    ----------
    pieces : ndarray of shape (n, K, d)
        The projections xᵀW_k.
    rivals, codes : ndarray of shape (n,)
        One wrong class for each row, and its own class.
    attributes : ndarray of shape (L, d)
        Attributes of the classes.
    margin : float
        The margin m.

    Returns
    -------
    loss : float
        The sum over rows.
    slope : ndarray of shape (n, K, d)
        Its derivative by `pieces`: only the winning matrix of either class moves.

    Examples
    --------
    >>> loss, slope = latent(
    ...     np.array([[[1.0, 0.0], [0.0, 2.0]]]), np.array([1]), np.array([0]), np.eye(2), 1.0
    ... )
    >>> loss, slope.tolist()
    (2.0, [[[-1.0, 0.0], [0.0, 1.0]]])
    """
    rows = np.arange(len(pieces))
    wrong, right = attributes[rivals], attributes[codes]
    wrong_scores = np.einsum("nkd,nd->nk", pieces, wrong)
    right_scores = np.einsum("nkd,nd->nk", pieces, right)
    gaps = margin + wrong_scores.max(axis=1) - right_scores.max(axis=1)
    violated = (gaps > 0).astype(pieces.dtype)[:, None]
    slope = np.zeros_like(pieces)
    slope[rows, wrong_scores.argmax(axis=1)] += violated * wrong
    slope[rows, right_scores.argmax(axis=1)] -= violated * right
    return float(np.maximum(gaps, 0).sum()), slope


_SCORE_LOSSES: dict[str, Callable[[NDArray[Any], NDArray[np.intp], float], ValueAndSlope]] = {
    "warp": warp,
    "hinge_sum": hinge_sum,
    "hinge_max": hinge_max,
}
