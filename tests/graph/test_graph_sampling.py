"""Drawn neighbours follow the instance graph's distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare, hypergeom

from hgkt.graph import (
    AGGREGATIONS,
    ClassNeighbors,
    Quotient,
    SampledNeighbors,
    sample_neighbors,
)

COUNTS = [9, 1, 2, 5, 30]
ROWS = [[1, 3, 4], [0], [], [4, 0], [2]]


def every_node(quotient: Quotient) -> tuple[np.ndarray, np.ndarray]:
    """Return class and role of the 2L rows of the mixing matrix."""
    n = quotient.n_classes
    return np.tile(np.arange(n), 2), np.repeat([False, True], n)


def state_weights(draws: SampledNeighbors, n_classes: int) -> np.ndarray:
    """Sum the weights by state, in the order of `Quotient.mixing`."""
    states = draws.classes + n_classes * draws.representative
    table = np.zeros((len(states), 2 * n_classes))
    np.add.at(table, (np.arange(len(states))[:, None], states), draws.weights)
    return table


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("intra", [True, False])
@pytest.mark.parametrize("n_sampled", [1, 4, 50])
def test_sample_neighbors_is_unbiased(aggregation: str, intra: bool, n_sampled: int) -> None:
    quotient = Quotient(COUNTS, ClassNeighbors.from_rows(ROWS), intra, aggregation)
    classes, roles = every_node(quotient)
    rng, n_draws = np.random.default_rng(0), 4000
    draws = sample_neighbors(
        quotient, np.tile(classes, n_draws), np.tile(roles, n_draws), n_sampled, rng
    )
    weights = state_weights(draws, 5).reshape(n_draws, 10, 10)
    np.testing.assert_allclose(weights.sum(axis=2), 1.0)
    mean, error = weights.mean(axis=0), weights.std(axis=0) / np.sqrt(n_draws)
    assert (np.abs(mean - quotient.mixing().toarray()) <= 5 * error + 1e-12).all()


def test_sample_neighbors_draws_each_neighbor_once_where_degree_equals_n_sampled() -> None:
    quotient = Quotient(COUNTS, ClassNeighbors.from_rows(ROWS))
    degree = COUNTS[0] - 1 + 3
    draws = sample_neighbors(quotient, [0] * 20, [True] * 20, degree, np.random.default_rng(1))
    expected = quotient.mixing().toarray()[5]
    np.testing.assert_allclose(state_weights(draws, 5), np.tile(expected, (20, 1)))


def test_sample_neighbors_counts_are_hypergeometric_without_replacement() -> None:
    quotient = Quotient(COUNTS, ClassNeighbors.from_rows(ROWS))
    draws = sample_neighbors(quotient, [0] * 8000, [True] * 8000, 6, np.random.default_rng(2))
    hits = draws.representative.sum(axis=1)
    expected = hypergeom(8 + 3, 3, 6).pmf(np.arange(4)) * 8000
    assert chisquare(np.bincount(hits, minlength=4), expected).pvalue > 1e-3
    # Without replacement no other representative comes twice, and all come equally often.
    others = state_weights(draws, 5)[:, 5:] * 6
    assert others.max() <= 1 + 1e-9
    totals = others.sum(axis=0)[[1, 3, 4]]
    assert chisquare(totals).pvalue > 1e-3


def test_sample_neighbors_counts_are_binomial_with_replacement() -> None:
    quotient = Quotient(COUNTS, ClassNeighbors.from_rows(ROWS))
    draws = sample_neighbors(quotient, [3] * 8000, [True] * 8000, 10, np.random.default_rng(3))
    hits = draws.representative.sum(axis=1)
    expected = binom(10, 2 / 6).pmf(np.arange(11)) * 8000
    observed = np.bincount(hits, minlength=11)
    pooled = [np.append(part[:8], part[8:].sum()) for part in (observed, expected)]
    assert chisquare(*pooled).pvalue > 1e-3


def test_sample_neighbors_matches_drawing_instances() -> None:
    """The spread of the mean equals that of drawing from the written-out neighbour list."""
    quotient = Quotient([12, 3], ClassNeighbors.from_rows([[1], [0]]))
    rng = np.random.default_rng(4)
    pool = np.array([0] * 11 + [3])  # states of the representative's neighbours, class 0
    direct = np.array([rng.choice(pool, 5, replace=False) == 3 for _ in range(6000)]).mean(axis=1)
    draws = sample_neighbors(quotient, [0] * 6000, [True] * 6000, 5, rng)
    ours = state_weights(draws, 2)[:, 3]
    assert abs(ours.mean() - direct.mean()) < 5 * direct.std() * np.sqrt(2 / 6000)
    assert abs(ours.std() / direct.std() - 1) < 0.08


def test_sample_neighbors_is_a_function_of_the_generator() -> None:
    quotient = Quotient(COUNTS, ClassNeighbors.from_rows(ROWS))
    first, second, third = (
        sample_neighbors(quotient, [0, 3], [True, False], 5, np.random.default_rng(seed)).classes
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


def test_sample_neighbors_without_neighbors_draws_the_node_itself() -> None:
    quotient = Quotient([1, 4], ClassNeighbors.empty(2), intra=False)
    draws = sample_neighbors(quotient, [0, 1, 1], [True, True, False], 3, np.random.default_rng(0))
    np.testing.assert_array_equal(
        state_weights(draws, 2), [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    )
