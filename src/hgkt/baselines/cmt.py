"""Cross-modal transfer: CMT, and CMT* with novelty detection (Socher et al., NIPS 2013)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._arrays import MAPS, FeatureMap, batches, distance_scores
from hgkt._typing import Progress
from hgkt._validation import check_number
from hgkt.baselines._shared.grids import ATTRIBUTE_MAPS, GridClassifier, Seen, parameters
from hgkt.baselines._shared.lbfgs import fit_softmax, minimise_lbfgs, predict_softmax
from hgkt.baselines._shared.rows import ZScore
from hgkt.estimators.base import ClassRows


class CrossModalClassifier(GridClassifier):
    """Base of the methods with a network f from features to attributes.

    Parameters
    ----------
    n_hidden : int
        Hidden units, as in the authors' program.
    n_steps : int
        Most L-BFGS steps; the authors allow 500.
    random_state : int, RandomState or None
        Draws the first weights.
    """

    _path = "n_steps"
    n_hidden: int
    decay: float
    n_steps: int
    random_state: Any

    def _check_params(self) -> None:
        check_number("decay", self.decay, low=0.0)
        for name in ("n_hidden", "n_steps"):
            check_number(name, getattr(self, name), low=1, integer=True)

    def _train_network(self, seen: Seen, stops: Sequence[int]) -> Iterator[int]:
        rng = check_random_state(self.random_state)
        networks = fit_network(*seen, self.n_hidden, self.decay, stops, rng, self._progress)
        for stop, network in zip(stops, networks, strict=True):
            self.inner_, self.inner_bias_, self.outer_, self.outer_bias_ = network
            yield stop

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": rows}

    def _embed_images(self, X: NDArray[Any]) -> NDArray[Any]:
        network = TanhNetwork(self.inner_, self.inner_bias_, self.outer_, self.outer_bias_)
        return network.predict(X)


@parameters
class CMTClassifier(CrossModalClassifier):
    """Map images into attribute space with a two-layer network; the nearest class wins.

        f(x) = W₂ tanh(W₁x + b₁) + b₂,
        min (1/2N) Σ_n ‖a_{y_n} − f(x_n)‖² + (λ/2)(‖W₁‖² + ‖b₁‖² + ‖W₂‖² + ‖b₂‖²),
        score(x, c) = −‖f(x) − a_c‖²,

    with class attributes a_c of unit length and features z-scored and divided by their largest
    training value. The network is trained by full-batch L-BFGS. (The authors' program adds a
    sparsity penalty that is not in the paper; it is left out.)

    Parameters
    ----------
    n_hidden : ...
    decay : float, default=1e-4
        λ, as in the authors' program.
    n_steps, feature_map, attribute_map, calibration, random_state : ...

    Attributes
    ----------
    inner_ : ndarray of shape (n_hidden, n_features)
        W₁, on raw features.
    inner_bias_ : ndarray of shape (n_hidden,)
        b₁.
    outer_ : ndarray of shape (n_attributes, n_hidden)
        W₂.
    outer_bias_ : ndarray of shape (n_attributes,)
        b₂.

    References
    ----------
    Socher, Ganjoo, Manning, Ng, Zero-Shot Learning Through Cross-Modal Transfer, NIPS 2013.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> y = ["owl", "owl", "car", "car"]
    >>> model = CMTClassifier(n_hidden=8, random_state=0)
    >>> model = model.fit(X, y, class_attributes={"owl": [0, 1], "car": [1, 0]})
    >>> model.add_classes({"jet": [1, 1]}).predict([[0.0, 1.0], [1.0, 0.0]])
    array(['owl', 'car'], dtype='<U3')
    """

    n_hidden: int = 200
    decay: float = 1e-4
    n_steps: int = 200
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0
    random_state: Any = None

    _learned = ("inner_", "inner_bias_", "outer_", "outer_bias_")

    def default_stages(self) -> list[Any]:
        """Return maps, then weight decay, with, along each training run, when to stop."""
        return [
            {"feature_map": list(MAPS), "n_steps": [10, 20, 50, 100]},
            {"attribute_map": list(ATTRIBUTE_MAPS), "n_steps": [10, 20, 50, 100]},
            {"decay": [1e-6, 1e-5, 1e-4, 1e-3], "n_steps": [10, 20, 50, 100, 200]},
        ]

    def _train_path(self, gathered: Seen, stops: Sequence[int]) -> Iterator[tuple[int, ClassRows]]:
        for stop in self._train_network(gathered, stops):
            yield stop, self._embed_rows(gathered.attributes)

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return distance_scores(self._embed_images(X), table["embedding"])


@parameters
class CMTStarClassifier(CrossModalClassifier):
    """Decide first whether an image is of a seen class at all, then which class it is.

    f(x) is the network of :class:`hgkt.baselines.cmt.CMTClassifier`. Around each seen class's
    attributes a_c lies an isotropic Gaussian with the variance of its training images f(x); an
    image is novel where the highest log-density is below a cut-off.

    Paper gap: the authors have further detectors (balls, local outlier probabilities), and which
    one made the benchmark's numbers is not known.

    An image that is not novel goes to softmax regression on its features over the seen classes,
    with probabilities q_c(x); a novel one to the nearest added class:

        score(x, c) = q_c(x) + [x not novel]           for seen c,
        score(x, u) = 1/(1 + ‖f(x) − a_u‖²) + [x novel]  for added u.

    The first terms lie in [0, 1], so novelty alone decides between the groups and, among
    added classes only, the method is CMT.

    Parameters
    ----------
    rejected : float, default=0.2
        Share of training images beyond the cut-off. It decides between accuracy on seen and on
        added classes: choose it on validation classes. The default reached the highest H on those
        of CUB.
    C : float, default=10.0
        Weight of the loss of the softmax regression against ½‖W‖², on z-scored features scaled
        to unit mean square.
    n_hidden : ...
    decay : float, default=1e-4
        Weight decay of the network, as in the authors' program.
    n_steps, feature_map, attribute_map, calibration, random_state : ...

    Attributes
    ----------
    inner_, inner_bias_, outer_, outer_bias_ : ndarray
        The network.
    weights_, bias_ : ndarray
        The softmax regression.
    centres_ : ndarray of shape (n_seen, n_attributes)
        Attributes of the seen classes.
    spreads_ : ndarray of shape (n_seen,)
        Variance of each class's training images around them.
    cutoff_ : float
        Novelty above which an image is taken for one of an added class.

    References
    ----------
    Socher, Ganjoo, Manning, Ng, Zero-Shot Learning Through Cross-Modal Transfer, NIPS 2013.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> y = ["owl", "owl", "car", "car"]
    >>> model = CMTStarClassifier(n_hidden=8, rejected=0.0, random_state=0)
    >>> model = model.fit(X, y, class_attributes={"owl": [0, 1], "car": [1, 0]})
    >>> model.add_classes({"jet": [1, 1]}).predict([[0.5, 0.5], [1.0, 0.0]])
    array(['jet', 'car'], dtype='<U3')
    """

    rejected: float = 0.2
    C: float = 10.0
    n_hidden: int = 200
    decay: float = 1e-4
    n_steps: int = 200
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0
    random_state: Any = None

    _learned = (
        *CMTClassifier._learned, "weights_", "bias_", "centres_", "spreads_", "cutoff_",
    )  # fmt: skip
    _late = ("rejected",)
    _seen_apart = True

    def default_stages(self) -> list[Any]:
        """Return maps and numbers of steps, each with eleven cut-offs, as the authors sweep."""
        cuts = {"rejected": [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]}
        return [
            {"feature_map": list(MAPS), "n_steps": [50], **cuts},
            {"attribute_map": list(ATTRIBUTE_MAPS), **cuts},
            {"n_steps": [20, 50, 100, 200], **cuts},
        ]

    def _check_params(self) -> None:
        super()._check_params()
        check_number("rejected", self.rejected, low=0.0, high=1.0)
        check_number("C", self.C, low=0.0, open_low=True)

    def _train_path(self, gathered: Seen, stops: Sequence[int]) -> Iterator[tuple[int, Seen]]:
        X, codes, attributes = gathered
        self.weights_, self.bias_ = fit_softmax(X, codes, len(attributes), self.C, self._progress)
        for stop in self._train_network(gathered, stops):
            yield stop, Seen(self._embed_images(X), codes, attributes)

    def _finish(self, trained: Seen) -> ClassRows:
        embedded, codes, self.centres_ = trained
        self.spreads_ = fit_spreads(embedded, codes, self.centres_)
        self.cutoff_ = float(np.quantile(self._novelty(embedded), 1.0 - self.rejected))
        return self._embed_rows(self.centres_)

    def _novelty(self, embedded: NDArray[Any]) -> NDArray[np.float64]:
        return gaussian_novelty(embedded, self.centres_, self.spreads_)

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        embedded = self._embed_images(X)
        novel = (self._novelty(embedded) > self.cutoff_).astype(np.float64)[:, None]
        if seen:
            return predict_softmax(X, self.weights_, self.bias_) + (1.0 - novel)
        return 1.0 / (1.0 - distance_scores(embedded, table["embedding"])) + novel


class TanhNetwork(NamedTuple):
    """f(x) = W₂ tanh(W₁x + b₁) + b₂.

    Parameters
    ----------
    inner : ndarray of shape (n_hidden, n_features)
        W₁.
    inner_bias : ndarray of shape (n_hidden,)
        b₁.
    outer : ndarray of shape (n_outputs, n_hidden)
        W₂.
    outer_bias : ndarray of shape (n_outputs,)
        b₂.
    """

    inner: NDArray[Any]
    inner_bias: NDArray[Any]
    outer: NDArray[Any]
    outer_bias: NDArray[Any]

    @classmethod
    def draw(
        cls, n_features: int, n_hidden: int, n_outputs: int, rng: np.random.RandomState
    ) -> Self:
        """Draw uniform weights of variance 2/(fan in + fan out), and zero biases."""

        def layer(n_out: int, n_in: int) -> NDArray[np.float64]:
            bound = np.sqrt(6.0 / (n_in + n_out))
            return rng.uniform(-bound, bound, (n_out, n_in))

        inner, outer = layer(n_hidden, n_features), layer(n_outputs, n_hidden)
        return cls(inner, np.zeros(n_hidden), outer, np.zeros(n_outputs))

    def packed(self) -> NDArray[np.float64]:
        """Return all parameters as one vector."""
        return np.concatenate([array.ravel() for array in self])

    def unpacked(self, vector: NDArray[Any]) -> TanhNetwork:
        """Return the network of the same shape whose parameters are views into a vector."""
        parts = np.split(vector, np.cumsum([array.size for array in self])[:-1])
        shaped = zip(parts, self, strict=True)
        return TanhNetwork(*(part.reshape(array.shape) for part, array in shaped))

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Map features (n, D) to (n, n_outputs)."""
        hidden = np.tanh(X @ self.inner.T + self.inner_bias)
        outputs: NDArray[Any] = hidden @ self.outer.T + self.outer_bias
        return outputs


def regression_objective(
    network: TanhNetwork,
    X: NDArray[Any],
    codes: NDArray[np.intp],
    targets: NDArray[np.float64],
    decay: float,
) -> tuple[float, TanhNetwork]:
    """Return (1/2N) Σ_n ‖t_{y_n} − f(x_n)‖² + (λ/2)‖all parameters‖² and its gradient.

    Parameters
    ----------
    network : TanhNetwork
        f.
    X : ndarray of shape (n_samples, n_features)
        Features, standardised.
    codes : ndarray of shape (n_samples,)
        Class codes.
    targets : ndarray of shape (n_classes, n_outputs)
        Target of each class.
    decay : float
        λ; biases are decayed too, as the authors do.

    Returns
    -------
    value : float
        The objective.
    gradient : TanhNetwork
        Its derivative by each array.
    """
    narrow = TanhNetwork(*(array.astype(X.dtype) for array in network))
    inner, inner_bias, outer, outer_bias = gradient = [decay * array for array in network]
    value = 0.5 * decay * sum(float((array**2).sum()) for array in network)
    for rows in batches(len(X)):
        hidden = np.tanh(X[rows] @ narrow.inner.T + narrow.inner_bias)
        residual = hidden @ narrow.outer.T + narrow.outer_bias
        residual -= targets[codes[rows]].astype(X.dtype)
        value += 0.5 * float((residual**2).sum(dtype=np.float64)) / len(X)
        residual /= len(X)
        back = (residual @ narrow.outer) * (1.0 - hidden**2)
        inner += back.T @ X[rows]
        inner_bias += back.sum(axis=0, dtype=np.float64)
        outer += residual.T @ hidden
        outer_bias += residual.sum(axis=0, dtype=np.float64)
    return value, TanhNetwork(*gradient)


def fit_network(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    targets: NDArray[np.float64],
    n_hidden: int,
    decay: float,
    stops: Sequence[int],
    rng: np.random.RandomState,
    progress: Progress | None = None,
) -> list[TanhNetwork]:
    """Regress class targets on features by full-batch L-BFGS, as the authors do.

    Features are z-scored and divided by the largest z-score of the training rows, the
    preprocessing of the benchmark that the method is compared in.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Raw features.
    codes : ndarray of shape (n_samples,)
        Class codes.
    targets : ndarray of shape (n_classes, n_outputs)
        Target of each class.
    n_hidden : int
        Hidden units.
    decay : float
        λ of `regression_objective`.
    stops : sequence of int
        Ascending numbers of L-BFGS steps after which the network is wanted.
    rng : RandomState
        Draws the first weights.
    progress : callable, optional
        Called as ``progress("train", done, total, values)``.

    Returns
    -------
    list of TanhNetwork
        The network of raw features at each stop, or where training converged before it.

    Examples
    --------
    >>> X, targets = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])
    >>> rng = np.random.RandomState(0)
    >>> networks = fit_network(X, np.array([0, 1]), targets, 4, 1e-6, [10, 50], rng)
    >>> networks[-1].predict(X).round(2).ravel() + 0.0
    array([0., 1.])
    """
    zscore = ZScore.of(X)
    features = zscore.apply(X)
    largest = float(features.max())
    if largest > 0.0:  # zero where every feature is constant
        features /= largest
        zscore = zscore.divided_by(largest)
    start = TanhNetwork.draw(X.shape[1], n_hidden, targets.shape[1], rng)

    def objective(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        network = start.unpacked(vector)
        value, gradient = regression_objective(network, features, codes, targets, decay)
        return value, gradient.packed()

    reached = {}

    def report(done: int, point: NDArray[np.float64], value: float) -> None:
        if done in stops:
            reached[done] = point.copy()
        if progress is not None:
            progress("train", done, stops[-1], {"loss": value})

    last = minimise_lbfgs(objective, start.packed(), stops[-1], report, ftol=1e-9, gtol=1e-7)
    return [_raw(start.unpacked(reached.get(stop, last)), zscore) for stop in stops]


def _raw(network: TanhNetwork, zscore: ZScore) -> TanhNetwork:
    """Rewrite a network of standardised features as one of raw features."""
    inner, inner_bias = zscore.to_raw(network.inner, network.inner_bias)
    return TanhNetwork(inner, inner_bias, network.outer.copy(), network.outer_bias.copy())


def fit_spreads(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the variances σ_c² (n_seen,): the mean of ‖f(x)−a_c‖²/d over each class's images."""
    squared = ((embedded - centres[codes]) ** 2).sum(axis=1)
    counts = np.bincount(codes, minlength=len(centres))
    sums = np.bincount(codes, weights=squared, minlength=len(centres))
    variances: NDArray[np.float64] = sums / (counts * centres.shape[1])
    # A class whose images coincide with its centre would have infinite density there.
    floor = 1e-6 * variances.mean() + 1e-12
    return variances.clip(floor)


def gaussian_novelty(
    embedded: NDArray[Any], centres: NDArray[Any], spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return −max_c log-density (n,), up to a constant: ½ min_c ‖f(x)−a_c‖²/σ_c² + d log σ_c².

    Examples
    --------
    >>> centres, spreads = np.array([[0.1], [1.1]]), np.array([0.01, 0.01])
    >>> near, far = gaussian_novelty(np.array([[0.1], [0.6]]), centres, spreads)
    >>> bool(far > near)
    True
    """
    scaled = -distance_scores(embedded, centres) / spreads
    novelty: NDArray[np.float64] = 0.5 * (scaled + centres.shape[1] * np.log(spreads)).min(axis=1)
    return novelty
