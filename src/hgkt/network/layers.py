"""The layers of Algorithm 2: h ← δ(W·[h ; μ·h_N] + b), and the embedder that two of them make."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from hgkt._validation import check_choice
from hgkt.network.weights import ACTIVATIONS, NEGATIVE_SLOPE


def activate(values: torch.Tensor, activation: str) -> torch.Tensor:
    """Apply an activation by name."""
    if activation == "leaky_relu":
        return nn.functional.leaky_relu(values, NEGATIVE_SLOPE)
    return torch.relu(values) if activation == "relu" else values


class SageLayer(nn.Module):
    """GraphSAGE layer with mean aggregation and a constant weight on the neighbours.

    Own and neighbour states are concatenated and go through one matrix. PyTorch Geometric's
    `SAGEConv` adds two matrices; the functions are the same, but weight decay acts on μ·W there.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Sizes of a state before and after.
    mu : float
        Weight μ of the neighbours' mean.
    activation : {"leaky_relu", "relu", "linear"}
        δ; the slope of ``leaky_relu`` is 0.2. Paper gap: Algorithm 2 writes ReLU, the experiment
        settings leaky ReLU.
    generator : torch.Generator, optional
        Source of the initial weights (Paper gap: Glorot uniform as in GraphSAGE, biases zero).
    dtype : torch.dtype
        Type of the parameters.

    Examples
    --------
    >>> layer = SageLayer(3, 2, mu=0.5, generator=torch.Generator().manual_seed(0))
    >>> layer(torch.ones(4, 3), torch.zeros(4, 3)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        mu: float = 0.5,
        activation: str = "leaky_relu",
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, ACTIVATIONS)
        self.mu, self.activation = float(mu), activation
        self.weight = nn.Parameter(torch.empty(n_outputs, 2 * n_inputs, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(n_outputs, dtype=dtype))
        nn.init.xavier_uniform_(self.weight, generator=generator)

    def forward(self, states: torch.Tensor, neighbor_means: torch.Tensor) -> torch.Tensor:
        """Return new states (n, n_outputs) from states and neighbour means (n, n_inputs)."""
        joined = torch.cat([states, self.mu * neighbor_means], dim=1)
        return activate(nn.functional.linear(joined, self.weight, self.bias), self.activation)


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
    output_activation : {"leaky_relu", "relu", "linear"}
        δ of the output layer; the hidden one is leaky ReLU.
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
        mu: float = 0.5,
        output_activation: str = "leaky_relu",
        dtype: torch.dtype = torch.float32,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.layer1 = SageLayer(n_attributes, n_hidden, mu, generator=generator, dtype=dtype)
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
        """Embed every node of the graph, on two rows per class.

        Parameters
        ----------
        attributes : Tensor of shape (L, d)
            Class attributes.
        mixing : Tensor of shape (2L, 2L)
            `hgkt.graph.Quotient.mixing`, dense.
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
        return Embeddings(None, self.layer2(hidden[n_classes:], mixing[n_classes:] @ hidden))

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
