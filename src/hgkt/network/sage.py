"""One layer of Algorithm 2: h ← δ(W·[h ; μ·h_N] + b)."""

from __future__ import annotations

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
        mu: float = 1.0,
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
