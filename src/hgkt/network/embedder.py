"""The two-layer embedder of Algorithm 2: class attributes to visual features, over the graph."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from hgkt.network.sage import SageLayer


class Embeddings(NamedTuple):
    """Embeddings of ordinary instances (None where not asked for) and of representatives."""

    ordinary: torch.Tensor | None
    representative: torch.Tensor


class HGKTEmbedder(nn.Module):
    """Two SAGE layers from attributes (d) over a hidden state to visual features (D).

    Parameters
    ----------
    n_attributes : int
        Length d of an attribute vector.
    n_features : int
        Length D of a feature vector.
    n_hidden : int
        Width of the hidden state; 1600 in the paper.
    mu : float
        Weight of the neighbours' mean, shared by both layers.
    activation, output_activation : {"leaky_relu", "relu", "linear"}
        δ of the hidden and of the output layer.
    dtype : torch.dtype
        Type of the parameters.
    generator : torch.Generator, optional
        Source of the initial weights; None draws from torch's global one.

    Examples
    --------
    >>> embedder = HGKTEmbedder(3, n_features=5, n_hidden=4)
    >>> embedder.forward_quotient(torch.rand(2, 3), torch.eye(4)).representative.shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        n_attributes: int,
        n_features: int,
        n_hidden: int = 1600,
        mu: float = 1.0,
        activation: str = "leaky_relu",
        output_activation: str = "leaky_relu",
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.layer1 = SageLayer(n_attributes, n_hidden, mu, activation, generator, dtype)
        self.layer2 = SageLayer(n_hidden, n_features, mu, output_activation, generator, dtype)

    @property
    def mu(self) -> float:
        """Weight of the neighbours' mean."""
        return self.layer1.mu

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters."""
        return self.layer1.weight.dtype

    def named_weights(self) -> dict[str, nn.Parameter]:
        """Return the four parameters under the names in which they are saved."""
        return {
            "w1": self.layer1.weight,
            "b1": self.layer1.bias,
            "w2": self.layer2.weight,
            "b2": self.layer2.bias,
        }

    def forward_quotient(
        self, attributes: torch.Tensor, mixing: torch.Tensor, ordinary: bool = True
    ) -> Embeddings:
        """Embed every node of the graph, on two rows a class.

        Parameters
        ----------
        attributes : Tensor of shape (L, d)
            Class attributes.
        mixing : Tensor of shape (2L, 2L), dense or sparse
            `hgkt.graph.Quotient.mixing`. With ``ordinary=False`` a dense one is faster.
        ordinary : bool
            Whether ordinary instances are wanted; without them the second layer, most of the
            work, has half as many rows.

        Returns
        -------
        Embeddings
            ``ordinary`` (L, D) or None, and ``representative`` (L, D).
        """
        n_classes = len(attributes)
        states = torch.cat([attributes, attributes])
        hidden = self.layer1(states, mixing @ states)
        if ordinary:
            output = self.layer2(hidden, mixing @ hidden)
            return Embeddings(output[:n_classes], output[n_classes:])
        if mixing.layout != torch.strided:
            means = (mixing @ hidden)[n_classes:]
        else:
            means = mixing[n_classes:] @ hidden
        return Embeddings(None, self.layer2(hidden[n_classes:], means))

    def forward_sampled(
        self,
        own: torch.Tensor,
        own_means: torch.Tensor,
        drawn: torch.Tensor,
        drawn_means: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """Embed B nodes from T drawn neighbours each, as GraphSAGE trains.

        Parameters
        ----------
        own : Tensor of shape (B, d)
            Attributes of the nodes.
        own_means : Tensor of shape (B, d)
            Mean attributes of the nodes' neighbours as drawn for layer one.
        drawn : Tensor of shape (B * T, d)
            Attributes of the neighbours drawn for layer two.
        drawn_means : Tensor of shape (B * T, d)
            Mean attributes of the neighbours drawn for those.
        weights : Tensor of shape (B, T)
            Weights of the drawn neighbours.

        Returns
        -------
        Tensor of shape (B, D)
        """
        n_nodes, n_draws = weights.shape
        hidden = self.layer1(torch.cat([own, drawn]), torch.cat([own_means, drawn_means]))
        neighbors = hidden[n_nodes:].view(n_nodes, n_draws, -1)
        means = torch.bmm(weights[:, None, :], neighbors)[:, 0]
        result: torch.Tensor = self.layer2(hidden[:n_nodes], means)
        return result
