"""Ranking losses against loops and finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.baselines._shared.ranking import hinge_max, hinge_sum, latent, warp


def loop_loss(name, scores, codes, margin):
    total = 0.0
    for row, own in zip(scores, codes, strict=True):
        hinges = [max(0.0, margin + s - row[own]) for c, s in enumerate(row) if c != own]
        rank = sum(h > 0 for h in hinges)
        if name == "warp" and rank:
            total += sum(1 / j for j in range(1, rank + 1)) / rank * sum(hinges)
        elif name == "hinge_sum":
            total += sum(hinges)
        elif name == "hinge_max":
            total += max(hinges)
    return total


def difference_quotient(function, point, step=1e-6):
    slope = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        up, down = point.copy(), point.copy()
        up[index] += step
        down[index] -= step
        slope[index] = (function(up) - function(down)) / (2 * step)
    return slope


@pytest.mark.parametrize("loss", [warp, hinge_sum, hinge_max])
@pytest.mark.parametrize("margin", [0.1, 1.0])
def test_score_losses_match_loops_and_difference_quotients(loss, margin):
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(40, 6)), rng.integers(6, size=40)
    value, slope = loss(scores, codes, margin)
    assert value == pytest.approx(loop_loss(loss.__name__, scores, codes, margin), rel=1e-12)
    quotient = difference_quotient(lambda s: loss(s, codes, margin)[0], scores)
    np.testing.assert_allclose(slope, quotient, atol=1e-8)


def test_score_losses_are_zero_when_every_margin_holds():
    scores, codes = 5.0 * np.eye(3), np.arange(3)
    for loss in (warp, hinge_sum, hinge_max):
        value, slope = loss(scores, codes, 1.0)
        assert value == 0.0
        assert not slope.any()


def test_latent_loss_matches_loop_and_difference_quotient():
    rng = np.random.default_rng(1)
    pieces, attributes = rng.normal(size=(12, 3, 4)), rng.normal(size=(5, 4))
    codes = rng.integers(5, size=12)
    rivals = (codes + rng.integers(1, 5, size=12)) % 5
    value, slope = latent(pieces, rivals, codes, attributes, 1.0)
    expected = sum(
        max(0.0, 1 + max(p @ attributes[r]) - max(p @ attributes[c]))
        for p, r, c in zip(pieces, rivals, codes, strict=True)
    )
    assert value == pytest.approx(expected, rel=1e-12)
    quotient = difference_quotient(
        lambda p: latent(p, rivals, codes, attributes, 1.0)[0], pieces.copy()
    )
    np.testing.assert_allclose(slope, quotient, atol=1e-8)
