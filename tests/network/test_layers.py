"""The SAGE layer."""

from __future__ import annotations

import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.network.layers import SageLayer


def make_layer(activation: str, mu: float = 0.3) -> SageLayer:
    generator = torch.Generator().manual_seed(0)
    return SageLayer(4, 3, mu, activation, generator, torch.float64)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("leaky_relu", lambda v: torch.maximum(v, 0.2 * v)),
        ("relu", lambda v: v.clamp(min=0)),
        ("linear", lambda v: v),
    ],
)
def test_sage_layer_is_the_formula_of_the_paper(activation: str, function: object) -> None:
    layer = make_layer(activation)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
    h, h_n = torch.randn(2, 50, 4, dtype=torch.float64)
    own, other = layer.weight[:, :4], layer.weight[:, 4:]
    expected = function(h @ own.T + 0.3 * h_n @ other.T + layer.bias)  # type: ignore[operator]
    assert (expected <= 0).any()
    torch.testing.assert_close(layer(h, h_n), expected)


def test_sage_layer_mu_zero_ignores_neighbors() -> None:
    layer = make_layer("leaky_relu", mu=0.0)
    h = torch.randn(5, 4, dtype=torch.float64)
    torch.testing.assert_close(layer(h, torch.full_like(h, 9.0)), layer(h, torch.zeros_like(h)))


def test_sage_layer_starts_glorot_with_zero_bias() -> None:
    layer = SageLayer(300, 200, generator=torch.Generator().manual_seed(0))
    bound = (6 / (600 + 200)) ** 0.5
    assert 0.99 * bound < layer.weight.abs().max() <= bound
    assert abs(layer.weight.std().item() - bound / 3**0.5) < 0.01 * bound
    assert not layer.bias.any()


def test_sage_layer_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    make_layer("relu")
    assert torch.equal(before, torch.get_rng_state())


def test_sage_layer_refuses_an_unknown_activation() -> None:
    with pytest.raises(DataError, match="activation must be one of 'leaky_relu'"):
        make_layer("tanh")
