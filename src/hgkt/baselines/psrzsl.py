"""PSRZSL: attributes to visual features, keeping similar classes near and dissimilar ones apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import MAPS, FeatureMap, unit_rows
from hgkt._validation import check_number
from hgkt.baselines._shared.grids import ATTRIBUTE_MAPS, Seen, parameters
from hgkt.baselines._shared.networks import (
    AttributeNetworkClassifier,
    attribute_rows,
    centred_layers,
    class_mean_loss,
    feature_unit,
    trainable,
    two_layers,
)
from hgkt.baselines._shared.rows import similarity_scores
from hgkt.estimators.base import ClassRows
from hgkt.statistics import class_counts_and_means

if TYPE_CHECKING:
    import torch


@parameters
class PSRZSLClassifier(AttributeNetworkClassifier):
    """Preserving semantic relations.

    An encoder f₁ takes attributes to visual features and a decoder f₂ takes them back, both with
    one hidden layer and ReLU (the output of f₂ is linear); z_c = f₁(a_c). With δ_ij =
    cos(a_i, a_j) and a threshold τ, the other seen classes of an image x of class i are similar
    (δ_ij ≥ τ) or dissimilar. The loss is

        L_I = 1/(N·D) Σ ‖z_i − x‖²                      identical: the image's own class
        L_S = mean [δ_ij − cos(z_j, x)]₊ over similar j         at least as near as attributes say
        L_D = mean [cos(z_j, x) − δ_ij]₊ over dissimilar j      at most as near
        L_R = 1/(N·d) Σ ‖f₂(z_i) − a_i‖²                reconstruction

        L = L_I + λ_S L_S + λ_D L_D + λ_R L_R + κ/2‖θ‖²,

    and score(x, c) = cos(x, z_c). L_I and L_R are exact at each step (they need class means
    only); L_S and L_D are taken over a batch of images against all seen classes.

    .. warning::
       This is a reconstruction. The authors' code is not public, and their text could not be
       consulted; the three relations and their being kept in the embedding space are theirs.
       The hinge form, its margin δ_ij, the decoder, the widths and all weights are reconstructed,
       so figures of this class are no substitute for the published ones.

    Parameters
    ----------
    n_steps : int, default=200
        Steps of Adam.
    n_hidden : int, default=1024
        Width of the hidden layers.
    similar_weight, dissimilar_weight : float, default=0.1
        λ_S and λ_D; both zero leave DEM with a decoder.
    decoder_weight : float, default=0.1
        λ_R.
    similar_share : float, default=0.1
        Share of the pairs of seen classes that count as similar, which sets τ: cosines of
        attributes lie in another range on every data set.
    learning_rate : float, default=1e-3
        Of Adam.
    weight_decay : float, default=1e-5
        κ, on biases too.
    batch_size : int, default=256
        Images per step in L_S and L_D.
    feature_map, attribute_map, calibration : ...
    random_state : int, RandomState or None, default=None
        Of initial weights and batches.
    device : ...

    Attributes
    ----------
    w1_, b1_, w2_, b2_ : ndarray
        Weights of f₁, of shapes (n_hidden, n_attributes), (n_hidden,), (n_features, n_hidden) and
        (n_features,).

    References
    ----------
    Annadani, Biswas, "Preserving semantic relations for zero-shot learning", CVPR 2018.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = PSRZSLClassifier(n_hidden=64, learning_rate=0.01, random_state=0)
    >>> model = model.fit(X, y, class_attributes=attributes).add_classes({"zebra": [0.5, 0.5]})
    >>> model.predict([[2.0, 2.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    n_steps: int = 200
    n_hidden: int = 1024
    similar_weight: float = 0.1
    dissimilar_weight: float = 0.1
    decoder_weight: float = 0.1
    similar_share: float = 0.1
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    batch_size: int = 256
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0
    random_state: Any = None
    device: str = "auto"

    def default_stages(self) -> list[Any]:
        """Return maps, then the weight of dissimilar classes, with step counts of one run."""
        counts = {"n_steps": [25, 50, 100, 200, 400]}
        return [
            {"feature_map": list(MAPS), **counts},
            {"attribute_map": list(ATTRIBUTE_MAPS), **counts},
            {"dissimilar_weight": [0.01, 0.1, 1.0, 10.0], **counts},
        ]

    def _check_params(self) -> None:
        super()._check_params()
        check_number("batch_size", self.batch_size, low=1, integer=True)
        for name in ("similar_weight", "dissimilar_weight", "decoder_weight"):
            check_number(name, getattr(self, name), low=0.0)
        check_number("similar_share", self.similar_share, low=0.0, high=1.0)

    def _train_path(self, gathered: Seen, stops: Sequence[int]) -> Iterator[tuple[int, ClassRows]]:
        import torch

        X, codes, attributes = gathered
        seed, device = self._start()

        def tensor(array: NDArray[Any]) -> torch.Tensor:
            return torch.tensor(array, dtype=torch.float32, device=device)

        counts, means = class_counts_and_means(X, codes, len(attributes))
        unit = feature_unit(means)
        means /= unit
        weights = trainable(self._initial(means, attribute_rows(attributes), seed), device)
        cosines = unit_rows(attributes) @ unit_rows(attributes).T
        similar = torch.tensor(similar_classes(cosines, self.similar_share), device=device)
        rows, targets, margins = map(tensor, (attribute_rows(attributes), means, cosines))
        shares, rng = tensor(counts / counts.sum()), np.random.default_rng(seed)
        n_batch = min(self.batch_size, len(X))
        factors = (self.similar_weight, self.dissimilar_weight, self.decoder_weight)

        def loss(_: int) -> torch.Tensor:
            batch = np.sort(rng.choice(len(X), n_batch, replace=False))
            features = tensor(unit_rows(np.asarray(X[batch], dtype=np.float64)))
            own = torch.from_numpy(codes[batch]).to(device)
            embeddings = two_layers(rows, weights[:4])
            decoded = two_layers(embeddings, weights[4:], outer="linear")
            kept, parted = relation_losses(features, own, embeddings, margins, similar)
            identical = class_mean_loss(embeddings, targets, shares)
            rebuilt = class_mean_loss(decoded, rows, shares)
            return identical + factors[0] * kept + factors[1] * parted + factors[2] * rebuilt

        for stop in self._minimise(weights, loss, stops):
            self._in_feature_units(unit)
            yield stop, self._embed_rows(attributes)

    def _initial(
        self, means: NDArray[np.float64], rows: NDArray[np.float64], seed: int
    ) -> list[torch.Tensor]:
        """Draw the weights of the encoder, then of the decoder, for class means and attributes."""
        import torch

        generator, n_hidden = torch.Generator().manual_seed(seed), self.n_hidden
        encoder = centred_layers(rows.shape[1], n_hidden, means, generator)
        return encoder + centred_layers(means.shape[1], n_hidden, rows, generator)

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return similarity_scores(X, table["embedding"], "cosine")


def similar_classes(cosines: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Return which classes (L, L) are similar: the given share of pairs, the nearest ones.

    Examples
    --------
    >>> cosines = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
    >>> similar_classes(cosines, 0.34)
    array([[False,  True, False],
           [ True, False, False],
           [False, False, False]])
    """
    other = ~np.eye(len(cosines), dtype=bool)
    threshold = np.quantile(cosines[other], 1.0 - share, method="higher")
    similar: NDArray[np.bool_] = (cosines >= threshold) & other & (share > 0.0)
    return similar


def relation_losses(
    features: torch.Tensor,
    codes: torch.Tensor,
    embeddings: torch.Tensor,
    margins: torch.Tensor,
    similar: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return L_S and L_D of unit-length features (n, D) against all classes (L, D).

    `margins` holds δ (L, L) and `similar` which pairs are similar (L, L); an image's own class
    enters neither. A relation that no pair has costs nothing.
    """
    import torch

    cosines = features @ torch.nn.functional.normalize(embeddings, dim=1).T
    gaps = margins[codes] - cosines
    near = similar[codes]
    own = torch.nn.functional.one_hot(codes, len(embeddings)).bool()
    far = ~(near | own)
    kept = (gaps.clamp(min=0.0) * near).sum() / near.sum().clamp(min=1)
    parted = ((-gaps).clamp(min=0.0) * far).sum() / far.sum().clamp(min=1)
    return kept, parted
