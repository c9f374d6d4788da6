"""SSE: semantic similarity embedding (Zhang, Saligrama, ICCV 2015)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._geometry import unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.simplex_qp import simplex_mixtures
from hgkt.baselines._shared.templates import FEATURE_MAPS, TemplateModel, train_templates
from hgkt.estimators.base import ClassTable, GZSLClassifier
from hgkt.statistics import class_counts_and_means


class SSEClassifier(GZSLClassifier):
    """Describe classes and images alike by how much of each seen class is in them.

    Every class is a mixture of the seen ones, by its attributes a_c of unit length:

        z_c = argmin_{z ≥ 0, Σz = 1} ½‖a_c − Σ_s z_s a_s‖² + (γ/2)‖z‖².

    An image is compared with a template v_s of each seen class, entry by entry:
    φ_s(x) = min(x, v_s) or max(0, x − v_s). With one weight vector w for all,

        score(x, c) = Σ_s z_cs wᵀφ_s(x),

        min ½‖w‖² + (λ/2) Σ_s‖v_s‖² + (κ/N) Σ_n Σ_{c≠y_n} [1 + score(x_n, c) − score(x_n, y_n)]₊

    over w and v ≥ 0, by mini-batches; templates start at the class means. This is the paper's
    hinge of each image; its second hinge, of class means, is left out. Features are scaled to
    unit length. Paper gap: comparison needs non-negative features; where the training rows have
    negative ones, positive and negative parts become features of their own.

    As Σ_s z_cs = 1 and max(0, x − v) = x − min(x, v), the two maps rank classes alike with w of
    opposite signs: they are one model under this loss.

    Parameters
    ----------
    gamma : float, default=1.0
        γ. The authors' program has 10 and a comment 0.001; this value reached the highest H on
        validation classes of CUB among 0.01, 0.1, 1 and 10.
    C : float, default=1000.0
        κ, weight of the hinge, averaged over images; the highest H on validation classes of CUB
        among 10, 100 and 1000.
    feature_map : {"relu", "intersection"}, default="relu"
        max(0, x − v), which the authors' program uses, or min(x, v).
    template_decay : float, default=1e-3
        λ. Paper gap: no value is given.
    learning_rate : float, default=0.1
        First step of Adam for w, falling linearly to zero; templates step by this share of
        their mean entry.
    n_epochs : int, default=5
        Passes over the training images; zero leave w and templates at their start, the plain
        intersection similarity.
    batch_size : int, default=128
        Images a step.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.
    random_state : int, RandomState or None, default=None
        Draws the batches.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features,) or (2 * n_features,)
        w.
    templates_ : ndarray of shape (n_seen, n_features) or (n_seen, 2 * n_features)
        v.
    sources_ : ndarray of shape (n_seen, n_attributes)
        Attributes of seen classes, of unit length.
    signed_ : bool
        Whether features are split into positive and negative parts.

    References
    ----------
    Zhang, Saligrama, Zero-Shot Learning via Semantic Similarity Embedding, ICCV 2015.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> y = ["owl", "owl", "car", "car"]
    >>> model = SSEClassifier(random_state=0)
    >>> model = model.fit(X, y, class_attributes={"owl": [0, 1], "car": [1, 0]})
    >>> model.predict([[0.0, 1.0], [1.0, 0.0]])
    array(['owl', 'car'], dtype='<U3')
    >>> model.add_classes({"jet": [1, 1]}).class_embeddings_.round(2)[2]
    array([0.5, 0.5])
    """

    _learned = ("weights_", "templates_", "sources_", "signed_")

    def __init__(
        self,
        gamma: float = 1.0,
        C: float = 1000.0,
        feature_map: str = "relu",
        template_decay: float = 1e-3,
        learning_rate: float = 0.1,
        n_epochs: int = 5,
        batch_size: int = 128,
        calibration: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.gamma = gamma
        self.C = C
        self.feature_map = feature_map
        self.template_decay = template_decay
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.calibration = calibration
        self.random_state = random_state

    def default_stages(self) -> list[dict[str, list[Any]]]:
        """Return the grids: the spread of mixtures, then the weight of the hinge."""
        return [{"gamma": [0.01, 0.1, 1.0, 10.0]}, {"C": [100.0, 1000.0, 10000.0]}]

    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        self._check_params()
        self.sources_ = unit_rows(attributes)
        table = self._embed_classes(attributes)
        self.signed_ = bool(X.min() < 0.0)
        features = self._scaled(X)
        _, means = class_counts_and_means(features, codes, len(attributes))
        start = TemplateModel.start(means.astype(X.dtype), self.feature_map)
        model = train_templates(
            start,
            features,
            codes,
            table["embedding"].astype(X.dtype),
            penalties=(1.0 / self.C, self.template_decay / self.C),
            learning_rate=self.learning_rate,
            n_epochs=self.n_epochs,
            batch_size=self.batch_size,
            rng=check_random_state(self.random_state),
            progress=self._progress,
        )
        self.weights_, self.templates_ = model.weights, model.templates
        return table

    def _check_params(self) -> None:
        check_number("gamma", self.gamma, low=0.0)
        check_number("C", self.C, low=0.0, open_low=True)
        check_choice("feature_map", self.feature_map, FEATURE_MAPS)
        check_number("template_decay", self.template_decay, low=0.0)
        check_number("learning_rate", self.learning_rate, low=0.0)
        check_number("n_epochs", self.n_epochs, low=0, integer=True)
        check_number("batch_size", self.batch_size, low=1, integer=True)

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        positive = np.maximum(X, 0.0)
        if self.signed_:
            positive = np.concatenate([positive, positive - X], axis=1)
        return unit_rows(positive)

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return {"embedding": simplex_mixtures(unit_rows(attributes), self.sources_, self.gamma)}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        model = TemplateModel(self.weights_, self.templates_, self.feature_map)
        return model.similarities(self._scaled(X)) @ table["embedding"].T
