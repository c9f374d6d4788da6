"""Classes scored by the probabilities of their binary attributes: what DAP and IAP share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import MAPS, FeatureMap
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import StagedClassifier
from hgkt.estimators.base import ClassTable

BINARIZATIONS = ("global", "attribute")
PRIORS = ("class_mean", "uniform")
_CLIP = 1e-6


class AttributeProbabilityClassifier(StagedClassifier):
    """Base of the methods that score a class by how probable its binary attributes are."""

    _grid: ClassVar[tuple[float, ...]]
    """The values of C that selection tries."""

    threshold_: NDArray[np.float64]
    priors_: NDArray[np.float64]

    def __init__(
        self,
        C: float = 10.0,
        binarization: str = "global",
        prior: str = "class_mean",
        feature_map: FeatureMap = "none",
        attribute_map: FeatureMap = "none",
        calibration: float = 0.0,
    ) -> None:
        self.C = C
        self.binarization = binarization
        self.prior = prior
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.calibration = calibration

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

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassTable:
        return {"embedding": (rows > self.threshold_).astype(np.float64)}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        return attribute_scores(self._probabilities(X), table["embedding"], self.priors_)


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
    return attributes.mean(axis=0)


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
