"""IAP: indirect attribute prediction (Lampert, Nickisch, Harmeling, CVPR 2009, TPAMI 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.baselines._shared.attribute_probability import (
    AttributeProbabilityClassifier,
    attribute_priors,
    binarization_threshold,
    varying,
)
from hgkt.baselines._shared.grids import Seen
from hgkt.baselines._shared.lbfgs import fit_softmax, predict_softmax
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import shapes


class IAPClassifier(AttributeProbabilityClassifier):
    """Predict the seen class, from it the attributes, and from these the class.

    With q(x) the probabilities of the L seen classes under multinomial logistic regression and
    b_c their binary attributes,

        p_m(x) = Σ_c b_cm q_c(x),
        score(x, z) = Σ_m b_zm log(p_m(x) / π_m) + (1 − b_zm) log((1 − p_m(x)) / (1 − π_m)),

    for every candidate z, seen classes included; π_m is the share of seen classes with
    attribute m.

    Paper gap: where all seen classes share an attribute, p_m is 0 or 1 for every image and a
    class that differs could never win; p_m = π_m = ½ there, so that it counts for nothing.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the loss of the softmax regression against ½‖W‖², on z-scored features scaled
        to unit mean square. Paper gap: published for histograms only, so there is no value to take
        over; this is one of the grid.
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
    weights_ : ndarray of shape (n_seen, n_features)
        Weights of the softmax regression on raw features.
    bias_ : ndarray of shape (n_seen,)
        Its biases.
    seen_binary_ : ndarray of shape (n_seen, n_attributes)
        Binary attributes of seen classes; ½ where all of them agree.
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
    >>> model = IAPClassifier().fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"jet": [1, 1, 0]}).predict([[1.0, 1.0], [0.0, 1.0]])
    array(['jet', 'owl'], dtype='<U3')
    """

    _learned = shapes(weights_="L D", bias_="L", seen_binary_="L d", threshold_="d", priors_="d")
    _late = ("binarization", "prior")
    _grid = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)

    def _train(self, gathered: Seen) -> NDArray[np.float64]:
        X, codes, attributes = gathered
        self.weights_, self.bias_ = fit_softmax(X, codes, len(attributes), self.C, self._progress)
        return attributes

    def _finish(self, trained: NDArray[np.float64]) -> ClassTable:
        self.threshold_ = binarization_threshold(trained, self.binarization)
        table = self._embed_rows(trained)
        binary = table["embedding"]
        self.priors_ = attribute_priors(binary, self.prior)
        self.seen_binary_ = np.where(varying(binary), binary, 0.5)
        return table

    def _probabilities(self, X: NDArray[Any]) -> NDArray[Any]:
        probabilities: NDArray[Any] = predict_softmax(X, self.weights_, self.bias_)
        return probabilities @ self.seen_binary_
