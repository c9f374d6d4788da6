"""Attribute prediction: DAP and IAP score a class by how probable its binary attributes are."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from hgkt._arrays import MAPS, FeatureMap
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import GridClassifier, Seen, parameters
from hgkt.baselines._shared.lbfgs import fit_sigmoids, fit_softmax, predict_softmax
from hgkt.estimators.base import ClassRows

BINARIZATIONS = ("global", "attribute")
PRIORS = ("class_mean", "uniform")
_CLIP = 1e-6


@parameters
class AttributeProbabilityClassifier(GridClassifier):
    """Base of the methods that score a class by how probable its binary attributes are.

    Parameters
    ----------
    binarization : {"global", "attribute"}
        Threshold above which a class has an attribute: the mean of the whole table, by which the
        binary matrix of Animals with Attributes was made, or the mean of that attribute.
    prior : {"class_mean", "uniform"}
        π_m: share of seen classes with the attribute, as published, or ½.

    Attributes
    ----------
    threshold_ : ndarray of shape (n_attributes,)
        What an attribute must exceed to count as present.
    priors_ : ndarray of shape (n_attributes,)
        π.
    """

    C: float = 10.0
    binarization: str = "global"
    prior: str = "class_mean"
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "none"
    calibration: float = 0.0

    _grid: ClassVar[tuple[float, ...]]
    """The values of C that selection tries."""

    def default_stages(self) -> list[Any]:
        """Return maps of features, C, then maps of attributes; the prior costs no training."""
        choices = {"binarization": list(BINARIZATIONS), "prior": list(PRIORS)}
        return [
            {"feature_map": list(MAPS), "C": [self._grid[len(self._grid) // 2]], **choices},
            {"C": list(self._grid), "prior": list(PRIORS)},
            {"attribute_map": ["none", "sqrt+l2"], **choices},
        ]

    def _check_params(self) -> None:
        check_number("C", self.C, low=0.0, open_low=True)
        check_choice("binarization", self.binarization, BINARIZATIONS)
        check_choice("prior", self.prior, PRIORS)

    @abstractmethod
    def _probabilities(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return how probable each attribute is for each image, (n, d)."""

    def _binarize(self, attributes: NDArray[np.float64]) -> ClassRows:
        """Learn the threshold from seen classes, and return their table."""
        self.threshold_ = binarization_threshold(attributes, self.binarization)
        return self._embed_rows(attributes)

    def _learn_priors(self, binary: NDArray[np.float64]) -> None:
        self.priors_ = attribute_priors(binary, self.prior)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": (rows > self.threshold_).astype(np.float64)}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return attribute_scores(self._probabilities(X), table["embedding"], self.priors_)


@parameters
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
    binarization, prior, feature_map, attribute_map, calibration : ...

    Attributes
    ----------
    weights_ : ndarray of shape (n_attributes, n_features)
        Weights of the attribute classifiers on raw features.
    bias_ : ndarray of shape (n_attributes,)
        Their biases.
    threshold_, priors_ : ...

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

    _learned = ("weights_", "bias_", "threshold_", "priors_")
    _late = ("prior",)
    _grid = (0.01, 0.1, 1.0, 10.0, 100.0)

    def _train(self, gathered: Seen) -> ClassRows:
        X, codes, attributes = gathered
        table = self._binarize(attributes)
        learnable = varying(table["embedding"])
        self.weights_ = np.zeros((attributes.shape[1], X.shape[1]))
        self.bias_ = np.zeros(attributes.shape[1])
        if learnable.any():
            targets = table["embedding"][:, learnable]
            fitted = fit_sigmoids(X, codes, targets, self.C, self._progress)
            self.weights_[learnable], self.bias_[learnable] = fitted
        return table

    def _finish(self, trained: ClassRows) -> ClassRows:
        self._learn_priors(trained["embedding"])
        return trained

    def _probabilities(self, X: NDArray[Any]) -> NDArray[Any]:
        probabilities: NDArray[Any] = expit(X @ self.weights_.T + self.bias_)
        return probabilities


@parameters
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
    binarization, prior, feature_map, attribute_map, calibration : ...

    Attributes
    ----------
    weights_ : ndarray of shape (n_seen, n_features)
        Weights of the softmax regression on raw features.
    bias_ : ndarray of shape (n_seen,)
        Its biases.
    seen_binary_ : ndarray of shape (n_seen, n_attributes)
        Binary attributes of seen classes; ½ where all of them agree.
    threshold_, priors_ : ...

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

    _learned = ("weights_", "bias_", "seen_binary_", "threshold_", "priors_")
    _late = ("binarization", "prior")
    _grid = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)

    def _train(self, gathered: Seen) -> NDArray[np.float64]:
        X, codes, attributes = gathered
        self.weights_, self.bias_ = fit_softmax(X, codes, len(attributes), self.C, self._progress)
        return attributes

    def _finish(self, trained: NDArray[np.float64]) -> ClassRows:
        table = self._binarize(trained)
        binary = table["embedding"]
        self._learn_priors(binary)
        self.seen_binary_ = np.where(varying(binary), binary, 0.5)
        return table

    def _probabilities(self, X: NDArray[Any]) -> NDArray[Any]:
        probabilities: NDArray[Any] = predict_softmax(X, self.weights_, self.bias_)
        return probabilities @ self.seen_binary_


def binarization_threshold(attributes: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Return the value (d,) above which an attribute counts as present.

    "global" is the rule by which the binary matrix of Animals with Attributes was made: the mean
    of the whole table. "attribute" takes the mean of each attribute. Either is over seen classes.

    Examples
    --------
    >>> binarization_threshold(np.array([[0.0, 4.0], [2.0, 6.0]]), "attribute")
    array([1., 5.])
    """
    if kind == "global":
        return np.full(attributes.shape[1], attributes.mean())
    means: NDArray[np.float64] = attributes.mean(axis=0)
    return means


def attribute_priors(binary: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """Return the prior π (d,) of each attribute from the binary rows (L, d) of seen classes.

    The mean is over classes, not images. An attribute that all seen classes share tells nothing,
    so its prior is one half.

    Examples
    --------
    >>> attribute_priors(np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), "class_mean")
    array([0.25, 0.5 ])
    """
    if kind == "uniform":
        return np.full(binary.shape[1], 0.5)
    return np.where(varying(binary), binary.mean(axis=0), 0.5)


def varying(binary: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which attributes (d,) are present in some rows (L, d) and absent in others."""
    result: NDArray[np.bool_] = (binary != binary[:1]).any(axis=0)
    return result


def attribute_scores(
    probabilities: NDArray[Any], binary: NDArray[np.float64], priors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log-odds of each class against the prior of its attributes.

    score(x, z) = Σ_m log p_m(x) − log π_m over attributes that z has, plus the same with 1 − p_m
    and 1 − π_m over those it lacks. Probabilities are kept off 0 and 1 by 1e-6.

    Parameters
    ----------
    probabilities : ndarray of shape (n, d)
        Probability that each image has each attribute.
    binary : ndarray of shape (n_classes, d)
        Attributes of the classes, 0 or 1.
    priors : ndarray of shape (d,)
        Attribute priors.

    Returns
    -------
    ndarray of shape (n, n_classes)

    Examples
    --------
    >>> scores = attribute_scores(np.array([[0.8]]), np.array([[1.0], [0.0]]), np.array([0.5]))
    >>> np.exp(scores).round(2)
    array([[1.6, 0.4]])
    """
    present = np.clip(probabilities.astype(np.float64), _CLIP, 1.0 - _CLIP)
    has = np.log(present) - np.log(priors)
    lacks = np.log1p(-present) - np.log1p(-priors)
    scores: NDArray[np.float64] = has @ binary.T + lacks @ (1.0 - binary).T
    return scores
