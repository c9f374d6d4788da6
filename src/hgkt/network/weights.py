"""The trained embedder in plain NumPy: what is saved, and what embeds classes that come later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.graph.construction import ClassNeighbors

if TYPE_CHECKING:
    from hgkt.network.layers import HGKTEmbedder

ACTIVATIONS = ("leaky_relu", "relu", "linear")
NEGATIVE_SLOPE = 0.2


@dataclass(frozen=True, eq=False)
class SeenEmbeddings:
    """States of the seen classes, one row per class.

    Parameters
    ----------
    hidden : ndarray of shape (n_classes, n_hidden)
        Layer one of the representatives: what new classes average over.
    representative : ndarray of shape (n_classes, n_features)
        Embeddings z of the representatives: what a class is recognised by.
    ordinary : ndarray of shape (n_classes, n_features) or None
        Embeddings of ordinary instances, where they were asked for.
    """

    hidden: NDArray[Any]
    representative: NDArray[Any]
    ordinary: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class EmbedderWeights:
    """Weights of the two-layer embedder and its forward passes; torch is not needed.

    Parameters
    ----------
    w1 : ndarray of shape (n_hidden, 2 n_attributes)
    b1 : ndarray of shape (n_hidden,)
    w2 : ndarray of shape (n_features, 2 n_hidden)
    b2 : ndarray of shape (n_features,)
    mu : float
        Weight of the neighbours' mean in both layers.
    output_activation : {"leaky_relu", "relu", "linear"}
        δ of the output layer; the hidden one is leaky ReLU.

    Examples
    --------
    >>> weights = EmbedderWeights(np.ones((1, 2)), np.zeros(1), np.ones((1, 2)), np.zeros(1), 1.0)
    >>> weights.embed_new([[2.0]], [[0]], seen_attributes=[[1.0]], seen_hidden=[[4.0]])
    array([[7.]])
    """

    w1: NDArray[Any]
    b1: NDArray[Any]
    w2: NDArray[Any]
    b2: NDArray[Any]
    mu: float = 0.5
    output_activation: str = "leaky_relu"

    def __post_init__(self) -> None:
        check_choice("output_activation", self.output_activation, ACTIVATIONS)

    @classmethod
    def from_module(cls, module: HGKTEmbedder) -> Self:
        """Copy the weights out of a torch module."""
        arrays = {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in module.named_weights().items()
        }
        return cls.from_arrays(arrays, module.mu, module.layer2.activation)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        mu: float,
        output_activation: str = "leaky_relu",
    ) -> Self:
        """Restore from what `arrays` returned."""
        w1, b1, w2, b2 = (np.asarray(arrays[name]) for name in ("w1", "b1", "w2", "b2"))
        return cls(w1, b1, w2, b2, float(mu), output_activation)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the four arrays by name, to be saved."""
        return {"w1": self.w1, "b1": self.b1, "w2": self.w2, "b2": self.b2}

    def scaled(self, factor: float) -> Self:
        """Return weights whose embeddings are `factor` > 0 times as long, exactly.

        Every activation here is positively homogeneous: δ(a·x) = a·δ(x).
        """
        number = self.w2.dtype.type(factor)
        return replace(self, w2=self.w2 * number, b2=self.b2 * number)

    @property
    def n_attributes(self) -> int:
        """Length of an attribute vector."""
        return int(self.w1.shape[1] // 2)

    def embed_seen(
        self, attributes: ArrayLike, mixing: Any, ordinary: bool = False
    ) -> SeenEmbeddings:
        """Run Algorithm 2 over the quotient of the training graph.

        Parameters
        ----------
        attributes : array-like of shape (n_classes, n_attributes)
            Attributes of the seen classes.
        mixing : matrix of shape (2 n_classes, 2 n_classes)
            `hgkt.graph.Quotient.mixing` of the training graph, sparse or dense.
        ordinary : bool
            Whether to embed ordinary instances too.
        """
        rows = self._check(attributes)
        n_classes = len(rows)
        states = np.concatenate([rows, rows])
        hidden = self._layer1(states, self._cast(mixing @ states))
        wanted = slice(0 if ordinary else n_classes, 2 * n_classes)
        output = self._layer2(hidden[wanted], self._cast(mixing[wanted] @ hidden))
        return SeenEmbeddings(
            hidden[n_classes:], output[-n_classes:], output[:n_classes] if ordinary else None
        )

    def embed_new(
        self,
        attributes: ArrayLike,
        neighbors: ClassNeighbors | ArrayLike,
        seen_attributes: ArrayLike,
        seen_hidden: ArrayLike,
    ) -> NDArray[Any]:
        """Embed classes known by their attributes alone (Algorithm 3, step 2).

        Layer one averages over the neighbours' attributes, layer two over the hidden states of
        their representatives. Paper gap: a new class reads seen classes only and nothing reads
        it, so seen embeddings never change and the order of arrival has no effect. Without
        neighbours a class averages over itself.

        Parameters
        ----------
        attributes : array-like of shape (n_new, n_attributes)
            Attributes of the new classes.
        neighbors : ClassNeighbors or array-like of shape (n_new, k)
            Seen classes nearest to each new one; k = 0 for none.
        seen_attributes : array-like of shape (n_classes, n_attributes)
            Attributes of the seen classes.
        seen_hidden : array-like of shape (n_classes, n_hidden)
            `SeenEmbeddings.hidden`.

        Returns
        -------
        ndarray of shape (n_new, n_features)
        """
        rows, seen = self._check(attributes), self._check(seen_attributes)
        if not isinstance(neighbors, ClassNeighbors):
            neighbors = ClassNeighbors.from_rows(neighbors)
        if neighbors.n_classes != len(rows):
            raise DataError(
                f"there are {len(rows)} new classes and neighbours of {neighbors.n_classes}; "
                "the same number is expected"
            )
        neighbors.validate(n_references=len(seen))
        hidden = self._layer1(rows, _neighbor_means(neighbors, seen, rows))
        means = _neighbor_means(neighbors, self._cast(np.asarray(seen_hidden)), hidden)
        return self._layer2(hidden, means)

    def _layer1(self, states: NDArray[Any], means: NDArray[Any]) -> NDArray[Any]:
        return _layer(states, means, self.w1, self.b1, self.mu, "leaky_relu")

    def _layer2(self, states: NDArray[Any], means: NDArray[Any]) -> NDArray[Any]:
        return _layer(states, means, self.w2, self.b2, self.mu, self.output_activation)

    def _cast(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(values, dtype=self.w1.dtype)

    def _check(self, attributes: ArrayLike) -> NDArray[Any]:
        rows = self._cast(np.asarray(attributes))
        if rows.ndim != 2 or rows.shape[1] != self.n_attributes:
            raise DataError(
                f"attributes must have {self.n_attributes} columns, one row a class; "
                f"got shape {rows.shape}"
            )
        return rows


def _layer(
    states: NDArray[Any],
    means: NDArray[Any],
    weight: NDArray[Any],
    bias: NDArray[Any],
    mu: float,
    activation: str,
) -> NDArray[Any]:
    joined = np.concatenate([states, np.asarray(mu, dtype=means.dtype) * means], axis=1)
    values: NDArray[Any] = joined @ weight.T + bias
    if activation == "linear":
        return values
    slope = NEGATIVE_SLOPE if activation == "leaky_relu" else 0.0
    return np.where(values > 0, values, values * np.asarray(slope, dtype=values.dtype))


def _neighbor_means(
    neighbors: ClassNeighbors, references: NDArray[Any], own: NDArray[Any]
) -> NDArray[Any]:
    """Mean of each row's neighbours among `references`; its own state where it has none."""
    means = own.copy()
    for row in np.flatnonzero(neighbors.degrees).tolist():
        means[row] = references[neighbors.of(row)].mean(axis=0)
    return means
