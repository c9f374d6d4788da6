"""DEM: a network from attributes to visual features, trained on class means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hgkt._arrays import MAPS, FeatureMap
from hgkt._validation import check_choice
from hgkt.baselines._shared.grids import Seen, parameters
from hgkt.baselines._shared.networks import (
    AttributeNetworkClassifier,
    attribute_rows,
    centred_layers,
    class_mean_loss,
    feature_unit,
    trainable,
    two_layers,
)
from hgkt.baselines._shared.rows import METRICS, similarity_scores
from hgkt.estimators.base import ClassRows
from hgkt.statistics import class_counts_and_means

if TYPE_CHECKING:
    import torch


@parameters
class DEMClassifier(AttributeNetworkClassifier):
    """Deep embedding model.

    Attributes become visual features, g(a) = δ(W₂ δ(W₁a + b₁) + b₂) with δ the ReLU, by

        J = 1/(N·D) Σ_i ‖g(a_{y_i}) − x_i‖² + κ/2 (‖W₁‖² + ‖b₁‖² + ‖W₂‖² + ‖b₂‖²).

    As g depends on the class only, the first term is Σ_c (N_c/N)‖g(a_c) − x̄_c‖²/D plus a
    constant: a step over the L class means is an exact full-batch step over all N instances.
    score(x, c) = −‖x − g(a_c)‖², or cos(x, g(a_c)).

    The released code trains by mini-batches and stops by hand; here the number of steps is a
    parameter that is chosen on validation classes. Entries of each attribute vector are scaled to a
    root mean square of 1, and every output starts close to the mean feature, so that no ReLU is
    dead from the start; the authors' first weights need their 10⁵ and more steps to be forgotten.

    Parameters
    ----------
    n_steps : int, default=200
        Full-batch steps of Adam; the default is from validation classes of CUB, as are those of
        `weight_decay` and `learning_rate`.
    n_hidden : int, default=1600
        Width of the hidden layer; the authors' (1200 for CUB).
    weight_decay : float, default=1e-5
        κ; the authors take 1e-3 for AWA, 1e-2 for CUB, 1e-5 for SUN and 1e-4 for aPY.
    learning_rate : float, default=1e-3
        Of Adam; the authors take 1e-4 and less for mini-batches, which are noisy.
    metric : {"euclidean", "cosine"}, default="euclidean"
        What is compared; the authors take the cosine for CUB.
    feature_map, attribute_map, calibration : ...
    random_state : int, RandomState or None, default=None
        Of the initial weights.
    device : ...

    Attributes
    ----------
    w1_, b1_, w2_, b2_ : ndarray
        Weights, of shapes (n_hidden, n_attributes), (n_hidden,), (n_features, n_hidden) and
        (n_features,).

    References
    ----------
    Zhang, Xiang, Gong, "Learning a deep embedding model for zero-shot learning", CVPR 2017.

    Examples
    --------
    >>> X = [[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]]
    >>> y = ["horse", "horse", "tiger", "tiger"]
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = DEMClassifier(n_hidden=64, learning_rate=0.01, random_state=0)
    >>> model = model.fit(X, y, class_attributes=attributes).add_classes({"zebra": [0.5, 0.5]})
    >>> model.predict([[2.0, 2.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    n_steps: int = 200
    n_hidden: int = 1600
    weight_decay: float = 1e-5
    learning_rate: float = 1e-3
    metric: str = "euclidean"
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "none"
    calibration: float = 0.0
    random_state: Any = None
    device: str = "auto"

    _late = ("metric",)

    def default_stages(self) -> list[Any]:
        """Return maps, then weight decay, with step counts and metrics, which one run serves."""
        runs = {"n_steps": [25, 50, 100, 200, 400], "metric": list(METRICS)}
        return [
            {"feature_map": list(MAPS), **runs},
            {"attribute_map": ["none", "sqrt+l2"], **runs},
            {"weight_decay": [0.0, 1e-5, 1e-4, 1e-3], **runs, "n_steps": [50, 100, 200, 400, 800]},
        ]

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("metric", self.metric, METRICS)

    def _train_path(self, gathered: Seen, stops: Sequence[int]) -> Iterator[tuple[int, ClassRows]]:
        import torch

        X, codes, attributes = gathered
        counts, means = class_counts_and_means(X, codes, len(attributes))
        unit = feature_unit(means)
        means /= unit
        seed, device = self._start()
        generator = torch.Generator().manual_seed(seed)
        initial = centred_layers(attributes.shape[1], self.n_hidden, means, generator)
        weights = trainable(initial, device)
        arrays = (attribute_rows(attributes), means, counts / counts.sum())
        rows, targets, shares = (
            torch.tensor(array, dtype=torch.float32, device=device) for array in arrays
        )

        def loss(_: int) -> torch.Tensor:
            return class_mean_loss(two_layers(rows, weights), targets, shares)

        for stop in self._minimise(weights, loss, stops):
            self._in_feature_units(unit)
            yield stop, self._embed_rows(attributes)

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return similarity_scores(X, table["embedding"], self.metric)
