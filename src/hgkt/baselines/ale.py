"""ALE: attribute label embedding, a bilinear map under a rank-weighted hinge loss."""

from __future__ import annotations

from typing import Any

from hgkt._geometry import FeatureMap
from hgkt.baselines._shared.compatibility import CompatibilityClassifier


class ALEClassifier(CompatibilityClassifier):
    """Attribute label embedding.

    The compatibility F(x, c) = xᵀWa_c ranks the classes. W minimises by stochastic descent

    (1/N) Σ_n (β_{r_n}/r_n) Σ_{c≠y_n} [m + F(x_n, c) − F(x_n, y_n)]₊,  β_r = Σ_{j≤r} 1/j,

    where r_n counts the classes that violate the margin for x_n. The published algorithm estimates
    r_n by drawing classes until one violates; here whole batches are scored against all classes,
    so rank and loss are exact. The class of x is argmax_c F(x, c).

    Parameters
    ----------
    learning_rate : float, default=0.1
        Step η for one instance; a batch moves W by the sum over its rows. The default
        and the grid around it come from validation classes of CUB.
    n_epochs : int, default=50
        Passes over the data; stopping early is the regularisation. Selection on validation
        classes gets all epoch counts of a grid from one run.
    batch_size : int, default=64
        Rows a step; 1 is the published stochastic descent.
    margin : float, default=1.0
        m. Descent starts at W = 0, so it sets units only: the model of
        (learning_rate η, margin m) is m times that of (η/m, 1).
    scaling : {"zscore", "none"}, default="zscore"
        What is done to mapped features: "zscore" standardises them and divides by the largest
        value of the standardised training rows, as in the evaluation code of Xian et al.,
        "Zero-shot learning: a comprehensive evaluation of the good, the bad and the ugly", TPAMI
        2019.
    averaged : bool, default=False
        Whether W is its average over the ends of all epochs, which smooths the noise of single
        steps, and not the last one, as published.
    feature_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        What is done to each row of features first: nothing, unit length, signed square root and
        unit length, or another power and unit length.
    attribute_map : {"none", "l2", "sqrt+l2"} or float, default="l2"
        The same for each attribute vector.
    centering : {"none", "features", "attributes", "both"}, default="none"
        Whose mean over the training data is taken off after the maps; attributes are brought to
        unit length again.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows.

    Attributes
    ----------
    weights_ : ndarray of shape (1, n_features, n_attributes)
        W.
    mean_, divisor_ : ndarray of shape (n_features,)
        The scaling x ↦ (x − mean)/divisor that ``scaling="zscore"`` found.
    loss_ : float
        Mean loss met in the last epoch.

    References
    ----------
    Akata, Perronnin, Harchaoui, Schmid, "Label-embedding for image classification", TPAMI 2016.

    Examples
    --------
    >>> import numpy as np
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = ALEClassifier(random_state=0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    _loss = "warp"
    _rates = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    _epochs = (5, 10, 20, 50, 100, 200)

    def __init__(
        self,
        learning_rate: float = 0.1,
        n_epochs: int = 50,
        batch_size: int = 64,
        margin: float = 1.0,
        scaling: str = "zscore",
        averaged: bool = False,
        feature_map: FeatureMap = "none",
        attribute_map: FeatureMap = "l2",
        centering: str = "none",
        calibration: float = 0.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            *(learning_rate, n_epochs, batch_size, margin, scaling, averaged),
            *(feature_map, attribute_map, centering, calibration, random_state),
        )
