"""CMT*: cross-modal transfer with novelty detection (Socher et al., NIPS 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._geometry import distance_scores, unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.cross_modal import TanhNetwork, fit_network
from hgkt.baselines._shared.logistic import fit_softmax, predict_softmax
from hgkt.baselines._shared.novelty import DETECTORS, NoveltyState, fit_detector
from hgkt.baselines._shared.shared_training import SharedTrainingClassifier
from hgkt.estimators.base import ClassTable


class CMTStarClassifier(SharedTrainingClassifier):
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

    _learned = (
        *("inner_", "inner_bias_", "outer_", "outer_bias_", "weights_", "bias_"),
        *("centres_", "spreads_", "points_", "point_spreads_", "starts_", "cutoff_"),
    )
    _late = ("detector", "rejected")

    def __init__(
        self,
        detector: str = "gaussian",
        rejected: float = 0.2,
        C: float = 10.0,
        n_hidden: int = 200,
        decay: float = 1e-4,
        n_steps: int = 200,
        calibration: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.detector = detector
        self.rejected = rejected
        self.C = C
        self.n_hidden = n_hidden
        self.decay = decay
        self.n_steps = n_steps
        self.calibration = calibration
        self.random_state = random_state

    def default_stages(self) -> list[dict[str, list[Any]]]:
        """Return the grid: eleven cut-offs, as the authors sweep; radii have none."""
        if self.detector == "radius":
            return []
        return [{"rejected": [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9]}]

    def _check_params(self) -> None:
        check_choice("detector", self.detector, DETECTORS)
        check_number("rejected", self.rejected, low=0.0, high=1.0)
        check_number("C", self.C, low=0.0, open_low=True)
        check_number("n_hidden", self.n_hidden, low=1, integer=True)
        check_number("decay", self.decay, low=0.0)
        check_number("n_steps", self.n_steps, low=1, integer=True)

    def _train(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> None:
        rng = check_random_state(self.random_state)
        settings = (self.n_hidden, self.decay, [self.n_steps], rng, self._progress)
        (network,) = fit_network(X, codes, unit_rows(attributes), *settings)
        self.inner_, self.inner_bias_, self.outer_, self.outer_bias_ = network.arrays
        self.weights_, self.bias_ = fit_softmax(X, codes, len(attributes), self.C, self._progress)

    def _prepare(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        table = self._embed_classes(attributes)
        state, self.cutoff_ = fit_detector(
            self.detector, self._embed_images(X), codes, table["embedding"], self.rejected
        )
        self.centres_, self.spreads_ = state.centres, state.spreads
        self.points_, self.point_spreads_ = state.points, state.point_spreads
        self.starts_ = state.starts
        return table

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return {"embedding": unit_rows(attributes)}

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
