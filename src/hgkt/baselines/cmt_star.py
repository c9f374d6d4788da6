"""CMT*: cross-modal transfer with novelty detection (Socher et al., NIPS 2013)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from hgkt._geometry import MAPS, FeatureMap, distance_scores
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.cross_modal import TanhNetwork, fit_network
from hgkt.baselines._shared.grids import ATTRIBUTE_MAPS, Seen, StagedClassifier
from hgkt.baselines._shared.lbfgs import fit_softmax, predict_softmax
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import Rule, shapes

_RADIUS_STEP = 0.05
_N_NEIGHBORS = 20
_EXTENT = 3.0


class CMTStarClassifier(StagedClassifier):
    """Decide first whether an image is of a seen class at all, then which class it is.

    f(x) is the network of :class:`hgkt.baselines.cmt.CMTClassifier`. A detector looks at f(x):

    - "gaussian": an isotropic Gaussian around each seen class's attributes a_c with the variance
      of its training images; novel where the highest log-density is below a cut-off;
    - "radius": a ball around each a_c; novel outside all balls;
    - "loop": local outlier probabilities against the training images of each class; novel where
      the least of them is above a cut-off.

    An image that is not novel goes to softmax regression on its features over the seen classes,
    with probabilities q_c(x); a novel one to the nearest added class:

        score(x, c) = q_c(x) + [x not novel]           for seen c,
        score(x, u) = 1/(1 + ‖f(x) − a_u‖²) + [x novel]  for added u.

    The first terms lie in [0, 1], so the detector alone decides between the groups and, among
    added classes only, the method is CMT.

    Parameters
    ----------
    detector : {"gaussian", "radius", "loop"}, default="gaussian"
        The novelty detector. Paper gap: which one made the benchmark's numbers is not known.
    rejected : float, default=0.2
        Share of training images beyond the cut-off of "gaussian" and "loop". It decides between
        accuracy on seen and on added classes: choose it on validation classes. The default is
        what "gaussian" reached the highest H with on those of CUB.
    C : float, default=10.0
        Weight of the loss of the softmax regression against ½‖W‖², on z-scored features scaled
        to unit mean square.
    n_hidden : int, default=200
        Hidden units, as in the authors' program.
    decay : float, default=1e-4
        Weight decay of the network, as in the authors' program.
    n_steps : int, default=200
        Most L-BFGS steps; the authors allow 500.
    feature_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        What is done to each row of features first: nothing, unit length, signed square root and
        unit length, or another power and unit length.
    attribute_map : {"none", "l2", "sqrt+l2"} or float, default="l2"
        The same for each attribute vector.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.
    random_state : int, RandomState or None, default=None
        Draws the first weights.

    Attributes
    ----------
    inner_, inner_bias_, outer_, outer_bias_ : ndarray
        The network.
    weights_, bias_ : ndarray
        The softmax regression.
    centres_, spreads_, points_, point_spreads_, starts_ : ndarray
        What the detector has learned; the last three are empty unless it is "loop".
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

    _learned = shapes(
        inner_="h D",
        inner_bias_="h",
        outer_="d h",
        outer_bias_="d",
        weights_="L D",
        bias_="L",
        centres_="L d",
        spreads_="L",
        points_="n d",
        point_spreads_="n",
        starts_=Rule("m", "i"),
        cutoff_="",
    )
    _late = ("detector", "rejected")
    _seen_apart = True

    def __init__(
        self,
        detector: str = "gaussian",
        rejected: float = 0.2,
        C: float = 10.0,
        n_hidden: int = 200,
        decay: float = 1e-4,
        n_steps: int = 200,
        feature_map: FeatureMap = "none",
        attribute_map: FeatureMap = "l2",
        calibration: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.detector = detector
        self.rejected = rejected
        self.C = C
        self.n_hidden = n_hidden
        self.decay = decay
        self.n_steps = n_steps
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.calibration = calibration
        self.random_state = random_state

    def default_stages(self) -> list[Any]:
        """Return maps and numbers of steps, each with eleven cut-offs, as the authors sweep."""
        cuts = {"rejected": [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]}
        cuts = {} if self.detector == "radius" else cuts  # radii are their own cut-off
        return [
            {"feature_map": list(MAPS), "n_steps": [50], **cuts},
            {"attribute_map": list(ATTRIBUTE_MAPS), **cuts},
            {"n_steps": [20, 50, 100, 200], **cuts},
        ]

    def _check_params(self) -> None:
        check_choice("detector", self.detector, DETECTORS)
        check_number("rejected", self.rejected, low=0.0, high=1.0)
        check_number("C", self.C, low=0.0, open_low=True)
        check_number("decay", self.decay, low=0.0)
        for name in ("n_hidden", "n_steps"):
            check_number(name, getattr(self, name), low=1, integer=True)

    def _train(self, gathered: Seen) -> Any:
        X, codes, attributes = gathered
        rng, table = check_random_state(self.random_state), self._embed_rows(attributes)
        settings = (self.n_hidden, self.decay, [self.n_steps], rng, self._progress)
        (network,) = fit_network(X, codes, table["embedding"], *settings)
        self.inner_, self.inner_bias_, self.outer_, self.outer_bias_ = network.arrays
        self.weights_, self.bias_ = fit_softmax(X, codes, len(attributes), self.C, self._progress)
        return self._embed_images(X), codes, table

    def _finish(self, trained: Any) -> ClassTable:
        embedded, codes, table = trained
        state, self.cutoff_ = fit_detector(
            self.detector, embedded, codes, table["embedding"], self.rejected
        )
        self.centres_, self.spreads_ = state.centres, state.spreads
        self.points_, self.point_spreads_ = state.points, state.point_spreads
        self.starts_ = state.starts
        return table

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassTable:
        return {"embedding": rows}

    def _embed_images(self, X: NDArray[Any]) -> NDArray[Any]:
        network = TanhNetwork(self.inner_, self.inner_bias_, self.outer_, self.outer_bias_)
        return network.predict(X)

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        embedded = self._embed_images(X)
        arrays = (self.centres_, self.spreads_, self.points_, self.point_spreads_, self.starts_)
        novelty = DETECTORS[self.detector][1](embedded, NoveltyState(*arrays))
        novel = (novelty > self.cutoff_).astype(np.float64)[:, None]
        if seen:
            return predict_softmax(X, self.weights_, self.bias_) + (1.0 - novel)
        return 1.0 / (1.0 - distance_scores(embedded, table["embedding"])) + novel


@dataclass
class NoveltyState:
    """What a detector has learned of the seen classes in embedding space.

    Parameters
    ----------
    centres : ndarray of shape (n_seen, d)
        Class embeddings.
    spreads : ndarray of shape (n_seen,)
        Variance (gaussian), radius (radius) or scale of outlier factors (loop) of each class.
    points : ndarray of shape (n_points, d)
        Training images class by class (loop), else none.
    point_spreads : ndarray of shape (n_points,)
        Root mean square distance of each to its neighbours.
    starts : ndarray of shape (n_seen + 1,)
        First row of each class in `points`.
    """

    centres: NDArray[Any]
    spreads: NDArray[np.float64]
    points: NDArray[Any]
    point_spreads: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    starts: NDArray[np.intp] = field(default_factory=lambda: np.zeros(1, dtype=np.intp))


def fit_gaussian(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NoveltyState:
    """Fit an isotropic Gaussian around each centre: σ_c² = mean of ‖f(x)−a_c‖²/d in the class."""
    squared = ((embedded - centres[codes]) ** 2).sum(axis=1)
    counts = np.bincount(codes, minlength=len(centres))
    sums = np.bincount(codes, weights=squared, minlength=len(centres))
    variances = sums / (counts * centres.shape[1])
    # A class whose images coincide with its centre would have infinite density there.
    floor = 1e-6 * variances.mean() + 1e-12
    return NoveltyState(centres, np.maximum(variances, floor), centres[:0])


def gaussian_novelty(embedded: NDArray[Any], state: NoveltyState) -> NDArray[np.float64]:
    """Return −max_c log-density (n,), up to a constant: ½ min_c ‖f(x)−a_c‖²/σ_c² + d log σ_c²."""
    scaled = -distance_scores(embedded, state.centres) / state.spreads
    novelty: NDArray[np.float64] = 0.5 * (
        scaled + state.centres.shape[1] * np.log(state.spreads)
    ).min(axis=1)
    return novelty


def fit_radius(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NoveltyState:
    """Give each class the radius that best tells its training images from all others.

    Paper gap: the authors grow the radius in steps of 0.05 while accuracy improves; growing from
    zero stops where no image is near, so the best of all multiples of 0.05 is taken.
    """
    steps = np.ceil(_distances(embedded, centres) / _RADIUS_STEP).astype(np.intp)
    n_classes, n_bins = len(centres), int(steps.max()) + 1
    own = np.arange(n_classes) == codes[:, None]
    # Own images minus others, by class and by the step that takes them in.
    cells, signs = np.arange(n_classes) * n_bins + steps, np.where(own, 1.0, -1.0)
    gain = np.bincount(cells.ravel(), signs.ravel(), minlength=n_classes * n_bins)
    radii = gain.reshape(n_classes, n_bins).cumsum(axis=1).argmax(axis=1) * _RADIUS_STEP
    return NoveltyState(centres, radii, centres[:0])


def radius_novelty(embedded: NDArray[Any], state: NoveltyState) -> NDArray[np.float64]:
    """Return how far (n,) each row is outside the nearest of all balls; negative inside one."""
    novelty: NDArray[np.float64] = (_distances(embedded, state.centres) - state.spreads).min(axis=1)
    return novelty


def fit_loop(
    embedded: NDArray[Any], codes: NDArray[np.intp], centres: NDArray[Any]
) -> NoveltyState:
    """Learn local outlier probabilities in each class with 20 neighbours.

    Paper gap: the authors search the extent λ of each class by an unstated criterion; one λ = 3,
    the value of Kriegel et al. (LoOP, CIKM 2009), serves all.
    """
    order = np.argsort(codes, kind="stable")
    points = embedded[order]
    starts = np.searchsorted(codes[order], np.arange(len(centres) + 1))
    state = NoveltyState(centres, np.ones(len(centres)), points, np.zeros(len(points)), starts)
    for code, rows in _crowds(state):
        spreads, near = _local_spreads(points[rows])
        state.point_spreads[rows] = spreads
        factors = spreads / np.maximum(spreads[near].mean(axis=1), 1e-12) - 1.0
        state.spreads[code] = _EXTENT * np.sqrt((factors**2).mean())
    return state


def loop_novelty(
    embedded: NDArray[Any], state: NoveltyState, training: bool = False
) -> NDArray[np.float64]:
    """Return the least local outlier probability (n,) over all seen classes.

    With σ(x) the root mean square distance to the k nearest images of a class,
    plof = σ(x) / mean σ(neighbours) − 1 and LoOP = max(0, erf(plof / (nPLOF √2))). A class of one
    image has no local density, so everything is an outlier to it. `training` says that the rows
    are `state.points` themselves, none of which is its own neighbour.
    """
    novelty = np.ones(len(embedded))
    for code, rows in _crowds(state):
        points, spreads = state.points[rows], state.point_spreads[rows]
        sigma, near = _local_spreads(points, embedded)
        if training:
            sigma[rows], near[rows] = _local_spreads(points)
        factor = sigma / np.maximum(spreads[near].mean(axis=1), 1e-12) - 1.0
        outlier = erf(factor / (max(state.spreads[code], 1e-12) * np.sqrt(2.0)))
        novelty = np.minimum(novelty, np.maximum(outlier, 0.0))
    return novelty


Detector = tuple[
    Callable[[NDArray[Any], NDArray[np.intp], NDArray[Any]], NoveltyState],
    Callable[[NDArray[Any], NoveltyState], NDArray[np.float64]],
]

DETECTORS: dict[str, Detector] = {
    "gaussian": (fit_gaussian, gaussian_novelty),
    "radius": (fit_radius, radius_novelty),
    "loop": (fit_loop, loop_novelty),
}
"""How each detector learns, and how it tells novelty: (n,), the higher the more novel."""


def fit_detector(
    kind: str,
    embedded: NDArray[Any],
    codes: NDArray[np.intp],
    centres: NDArray[Any],
    rejected: float,
) -> tuple[NoveltyState, float]:
    """Fit a detector to embedded training images, and its cut-off, above which an image is novel.

    `rejected` is the share of the training images beyond the cut-off; radii are their own.

    Examples
    --------
    >>> embedded, codes = np.array([[0.0], [0.2], [1.0], [1.2]]), np.array([0, 0, 1, 1])
    >>> state, cutoff = fit_detector("gaussian", embedded, codes, np.array([[0.1], [1.1]]), 0.0)
    >>> gaussian_novelty(np.array([[0.1], [0.6]]), state) > cutoff
    array([False,  True])
    """
    fit, novelty = DETECTORS[kind]
    state = fit(embedded, codes, centres)
    if kind == "radius":
        return state, 0.0
    known = loop_novelty(state.points, state, True) if kind == "loop" else novelty(embedded, state)
    return state, float(np.quantile(known, 1.0 - rejected))


def _distances(embedded: NDArray[Any], centres: NDArray[Any]) -> NDArray[Any]:
    distances: NDArray[Any] = np.sqrt(np.maximum(-distance_scores(embedded, centres), 0.0))
    return distances


def _crowds(state: NoveltyState) -> Iterator[tuple[int, slice]]:
    """Yield the classes of more than one image with their rows in `state.points`."""
    for code, (start, stop) in enumerate(zip(state.starts[:-1], state.starts[1:], strict=True)):
        if stop - start > 1:
            yield code, slice(int(start), int(stop))


def _local_spreads(
    points: NDArray[Any], queries: NDArray[Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the root mean square distance to the nearest points, and which these are.

    Queries are the points themselves by default, none its own neighbour.
    """
    nearest = NearestNeighbors(n_neighbors=min(_N_NEIGHBORS, len(points) - 1)).fit(points)
    distances, near = nearest.kneighbors(queries)
    return np.sqrt((distances**2).mean(axis=1)), near
