"""ConSE: convex combination of semantic embeddings (Norouzi et al., ICLR 2014)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import MAPS, FeatureMap, unit_rows
from hgkt._validation import check_number
from hgkt.baselines._shared.grids import GridClassifier, Seen, center_grid, parameters
from hgkt.baselines._shared.lbfgs import fit_softmax, predict_softmax
from hgkt.estimators.base import ClassRows


@parameters
class ConSEClassifier(GridClassifier):
    """Place an image between the seen classes it resembles and take the nearest class.

    With q(x) the probabilities of the seen classes under multinomial logistic regression and
    t_1 … t_T the T most probable of them,

        f(x) = Σ_i q_{t_i}(x) a_{t_i} / Σ_i q_{t_i}(x),   score(x, c) = cos(f(x), a_c),

    where a_c are attributes of unit length. Nothing is learned beyond the seen classifier. With
    T = 1 the generalized prediction is that classifier's own.

    Parameters
    ----------
    n_top : int, default=10
        T, the usual choice; where there are fewer seen classes, all of them.
    C : float, default=10.0
        Weight of the loss of the softmax regression against ½‖W‖², on z-scored features scaled
        to unit mean square. Paper gap: the original has the softmax layer of a network; this
        is one of the grid.
    feature_map, attribute_map, centering, calibration : ...

    Attributes
    ----------
    weights_ : ndarray of shape (n_seen, n_features)
        Weights of the softmax regression on raw features.
    bias_ : ndarray of shape (n_seen,)
        Its biases.
    seen_embeddings_ : ndarray of shape (n_seen, n_attributes)
        Attributes of seen classes, of unit length.

    References
    ----------
    Norouzi et al., Zero-Shot Learning by Convex Combination of Semantic Embeddings, ICLR 2014.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> y = ["owl", "owl", "car", "car"]
    >>> model = ConSEClassifier().fit(X, y, class_attributes={"owl": [0, 1], "car": [1, 0]})
    >>> model.add_classes({"jet": [1, 1]}).predict([[0.5, 0.5], [1.0, 0.0]])
    array(['jet', 'car'], dtype='<U3')
    """

    n_top: int = 10
    C: float = 10.0
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    centering: str = "none"
    calibration: float = 0.0

    mathematics_version: ClassVar[int] = 3  # 2: nothing centred

    _learned = ("weights_", "bias_", "seen_embeddings_")
    _late = ("n_top",)

    def default_stages(self) -> list[Any]:
        """Return feature maps, C and T, then attribute maps and centring.

        A softmax regression serves all T. A thousand classes are all there are. Its bias undoes
        what is taken off features.
        """
        tops = {"n_top": [1, 2, 5, 10, 20, 50, 1000]}
        return [
            {"feature_map": list(MAPS), "C": [1.0, 10.0, 100.0], **tops},
            {"C": [0.1, 1.0, 10.0, 100.0, 1000.0], **tops},
            {**center_grid(["none", "attributes"]), **tops},
        ]

    def _check_params(self) -> None:
        check_number("n_top", self.n_top, low=1, integer=True)
        check_number("C", self.C, low=0.0, open_low=True)

    def _train(self, gathered: Seen) -> ClassRows:
        X, codes, attributes = gathered
        self.weights_, self.bias_ = fit_softmax(X, codes, len(attributes), self.C, self._progress)
        self.seen_embeddings_ = unit_rows(attributes)
        return {"embedding": self.seen_embeddings_}

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": unit_rows(rows)}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        probabilities = predict_softmax(X, self.weights_, self.bias_)
        if self.n_top < probabilities.shape[1]:
            # argpartition, not a cut-off value: ties must not let more than T classes in.
            order = np.argpartition(-probabilities, self.n_top - 1, axis=1)
            np.put_along_axis(probabilities, order[:, self.n_top :], 0.0, axis=1)
        # The cosine does not see the factor 1/Σq.
        return unit_rows(probabilities @ self.seen_embeddings_) @ table["embedding"].T
