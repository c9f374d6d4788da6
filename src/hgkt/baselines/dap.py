"""DAP: direct attribute prediction (Lampert, Nickisch, Harmeling, CVPR 2009, TPAMI 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hgkt.baselines._shared.attribute_probability import (
    AttributeProbabilityClassifier,
    attribute_priors,
    binarization_threshold,
    varying,
)
from hgkt.baselines._shared.grids import Seen
from hgkt.baselines._shared.lbfgs import fit_sigmoids
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import shapes


class DAPClassifier(AttributeProbabilityClassifier):
    """Predict each binary attribute from the image, then the class from its attributes.

    With b_z the binary attributes of class z, p_m(x) the probability of attribute m given the
    image and π_m its share among seen classes,

        score(x, z) = Σ_m b_zm log(p_m(x) / π_m) + (1 − b_zm) log((1 − p_m(x)) / (1 − π_m)).

    Every image inherits the attributes of its class; p_m is an L2-regularised logistic regression.
    An attribute that all seen classes share cannot be learned: p_m = π_m = ½, and it counts for
    nothing.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the loss of the attribute classifiers against ½‖w‖², on z-scored features
        scaled to unit mean square. Paper gap: the papers use kernel SVMs with Platt scaling on
        histograms, so there is no value to take over; this is one of the grid.
    binarization : {"global", "attribute"}, default="global"
        Threshold above which a class has an attribute: the mean of the whole table, by which the
        binary matrix of Animals with Attributes was made, or the mean of that attribute.
    prior : {"class_mean", "uniform"}, default="class_mean"
        π_m: share of seen classes with the attribute, as published, or ½.
    feature_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        What is done to each row of features first: nothing, unit length, signed square root and
        unit length, or another power and unit length.
    attribute_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        The same for each attribute vector.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.

    Attributes
    ----------
    weights_ : ndarray of shape (n_attributes, n_features)
        Weights of the attribute classifiers on raw features.
    bias_ : ndarray of shape (n_attributes,)
        Their biases.
    threshold_ : ndarray of shape (n_attributes,)
        What an attribute must exceed to count as present.
    priors_ : ndarray of shape (n_attributes,)
        π.

    References
    ----------
    Lampert, Nickisch, Harmeling, Attribute-Based Classification for Zero-Shot Visual Object
    Categorization, TPAMI 2014.

    Examples
    --------
    >>> X = np.array([[0.0, 0.1], [0.1, 0.0], [1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.9]])
    >>> y = ["egg", "egg", "car", "car", "owl", "owl"]
    >>> attributes = {"egg": [0, 0, 1], "car": [1, 0, 0], "owl": [0, 1, 0]}
    >>> model = DAPClassifier().fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"jet": [1, 1, 0]}).predict([[1.0, 1.0], [0.0, 1.0]])
    array(['jet', 'owl'], dtype='<U3')
    """

    _learned = shapes(weights_="d D", bias_="d", threshold_="d", priors_="d")
    _late = ("prior",)
    _grid = (0.01, 0.1, 1.0, 10.0, 100.0)

    def _train(self, gathered: Seen) -> ClassTable:
        X, codes, attributes = gathered
        self.threshold_ = binarization_threshold(attributes, self.binarization)
        table = self._embed_rows(attributes)
        learnable = varying(table["embedding"])
        self.weights_ = np.zeros((attributes.shape[1], X.shape[1]))
        self.bias_ = np.zeros(attributes.shape[1])
        if learnable.any():
            targets = table["embedding"][:, learnable]
            fitted = fit_sigmoids(X, codes, targets, self.C, self._progress)
            self.weights_[learnable], self.bias_[learnable] = fitted
        return table

    def _finish(self, trained: ClassTable) -> ClassTable:
        self.priors_ = attribute_priors(trained["embedding"], self.prior)
        return trained

    def _probabilities(self, X: NDArray[Any]) -> NDArray[Any]:
        probabilities: NDArray[Any] = expit(X @ self.weights_.T + self.bias_)
        return probabilities
