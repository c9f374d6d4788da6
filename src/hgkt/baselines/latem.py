"""LatEm: latent embeddings, the best of several bilinear maps."""

from __future__ import annotations

from typing import Any, ClassVar

from hgkt._geometry import FeatureMap
from hgkt.baselines._shared.compatibility import CompatibilityClassifier


class LatEmClassifier(CompatibilityClassifier):
    """Latent embeddings.

    The compatibility F(x, c) = max_{k≤K} xᵀW_k a_c is linear in pieces: each image picks, for each
    class, the matrix that suits it best. Descent draws one wrong class c for each instance of an
    epoch and follows the subgradient of

    [m + F(x_n, c) − F(x_n, y_n)]₊,

    which moves the winning matrix of either class, from independent starts W_k ~ N(0, 1)/√D. The
    class of x is argmax_c F(x, c).

    Parameters
    ----------
    learning_rate : float, default=1.0
        Step η for one instance; a batch moves W by the sum over its rows. The default
        comes from validation classes of CUB.
    n_epochs : int, default=150
        Passes over the data; stopping early is the regularisation. Selection on validation
        classes gets all epoch counts of a grid from one run.
    n_matrices : int, default=2
        K; the authors' demo has 2, the paper searches up to 10. With 1 the model is a bilinear
        map and has ``class_embeddings_``.
    batch_size : int, default=64
        Rows a step; 1 is the published stochastic descent.
    margin : float, default=1.0
        m. The authors' code has 1.
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
        Seed of the order of rows, the wrong classes and the start.

    Attributes
    ----------
    weights_ : ndarray of shape (n_matrices, n_features, n_attributes)
        W_k.
    mean_, divisor_ : ndarray of shape (n_features,)
        The scaling x ↦ (x − mean)/divisor that ``scaling="zscore"`` found.
    loss_ : float
        Mean loss met in the last epoch.

    References
    ----------
    Xian, Akata, Sharma, Nguyen, Hein, Schiele, "Latent embeddings for zero-shot classification",
    CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = LatEmClassifier(random_state=0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    mathematics_version: ClassVar[int] = 6  # 5: maps and rates chosen with one matrix

    _loss = "latent"
    _rates = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    _epochs = (5, 10, 20, 50, 100, 150)

    def __init__(
        self,
        learning_rate: float = 1.0,
        n_epochs: int = 150,
        n_matrices: int = 2,
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
        self.n_matrices = n_matrices

    def default_stages(self) -> list[Any]:
        """Return those of all compatibilities with one or two matrices, then their number."""
        preparations, *others = super().default_stages()
        epochs, either = [10, 20, 50, 100], [False, True]
        counts = {"n_matrices": [1, 2, 4, 8], "n_epochs": epochs, "averaged": either}
        return [[{**grid, "n_matrices": [1, 2]} for grid in preparations], *others, counts]
