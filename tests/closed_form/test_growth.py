"""How far the examples of a class that came by its attributes are trusted, written out."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.closed_form import ClosedFormTransfer, Mixture
from hgkt.closed_form.mixture import MetricTerm, Ridge

RNG = np.random.default_rng(3)
ATTRIBUTES = RNG.random((7, 4))
MEANS = ATTRIBUTES @ RNG.random((4, 9)) + 1.0
CODES = np.repeat(np.arange(7), [12, 15, 9, 14, 11, 3, 1])
X = MEANS[CODES] + 0.1 * RNG.normal(size=(len(CODES), 9))
GROWN = np.arange(7) >= 5
SETTINGS = Mixture(
    metrics=(MetricTerm("sqrt+l2", 0.5, 2.0), MetricTerm("l2", 0.3, 1.0)),
    ridges=(Ridge(0.001), Ridge(0.3)),
    device="cpu",
)


def solved(grown=GROWN, settings=SETTINGS):
    transfer = ClosedFormTransfer(settings)
    transfer.dtype = X.dtype
    transfer.solve(transfer.gather(X, CODES, 7), ATTRIBUTES, grown)
    return transfer


def test_the_noise_of_a_grown_class_is_that_of_its_examples():
    """ν/n: variance inside classes over the scale of the process, by the definition."""
    transfer, plain = solved(), solved(None)
    kernel = transfer.kernel.seen[:5, :5]
    sizes = np.bincount(CODES)
    noise = np.outer(
        [0.001, 0.3], np.diag(transfer.kernel.seen).mean() * sizes[:5].mean() / sizes[:5]
    )
    np.testing.assert_allclose(transfer.noise[:, :5], noise)
    precision = 0.5 * sum(np.linalg.inv(kernel + np.diag(row)) for row in noise)
    ratios = []
    for name, scale, _ in transfer.metric_scales():
        space = transfer.spaces[name]
        projection = space.projection * scale
        scatter = space.statistics.within_scatter / (len(X) - 7)
        inside = np.trace(projection.T @ scatter @ projection) / 9
        means = (space.statistics.means[:5] - space.statistics.means[:5].mean(axis=0)) @ projection
        signal = np.trace(means.T @ precision @ means) / (5 * 9)
        ratios.append(inside / signal)
    ratio = (2 * ratios[0] + ratios[1]) / 3
    np.testing.assert_allclose(transfer.noise[:, 5:], [[ratio / 3, ratio / 1]] * 2)
    assert not np.allclose(plain.noise[:, 5:], transfer.noise[:, 5:])


def test_growth_leaves_the_centre_and_the_noise_of_other_classes_alone():
    transfer = solved()
    first = CODES < 5
    before = ClosedFormTransfer(SETTINGS)
    before.fit(X[first], CODES[first], ATTRIBUTES[:5])
    for name, space in transfer.spaces.items():
        np.testing.assert_allclose(space.center, before.spaces[name].center)
    np.testing.assert_allclose(transfer.noise[:, :5], before.noise)


def test_learned_shares_are_own_weights_over_those_of_learned_classes():
    transfer = solved()
    own = np.zeros(7)
    for noise in transfer.noise:
        own += 0.5 * np.diag(
            transfer.kernel.seen @ np.linalg.inv(transfer.kernel.seen + np.diag(noise))
        )
    shares = transfer.learned_shares(GROWN)
    np.testing.assert_allclose(shares[5:], np.minimum(own[5:] / own[:5].mean(), 1.0))
    assert shares[:5].tolist() == [0.0] * 5
    assert shares[6] < shares[5]  # one example, three examples


@pytest.mark.parametrize("weighting", ["uniform", "count"])
def test_classes_that_all_came_by_attributes_or_count_alike_have_their_usual_noise(weighting):
    settings = Mixture(weighting=weighting, device="cpu")
    grown = GROWN if weighting == "uniform" else np.ones(7, dtype=bool)
    assert np.array_equal(solved(grown, settings).noise, solved(None, settings).noise)
