"""How far the examples of a class that came by its attributes are trusted, written out."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt._arrays import map_rows
from hgkt.closed_form import ClosedFormTransfer, Ensemble, Member

RNG = np.random.default_rng(3)
ATTRIBUTES = RNG.random((7, 4))
MEANS = ATTRIBUTES @ RNG.random((4, 9)) + 1.0
CODES = np.repeat(np.arange(7), [12, 15, 9, 14, 11, 3, 1])
X = MEANS[CODES] + 0.1 * RNG.normal(size=(len(CODES), 9))
TEXTS = np.abs(MEANS + 0.05 * RNG.normal(size=MEANS.shape))
GROWN = np.arange(7) >= 5
SETTINGS = Ensemble(
    (
        Member("sqrt+l2", 0.5, ridge=0.001, weight=2.0),
        Member("l2", 0.3, ridge=0.3),
        Member("sqrt+l2", 0.5, "linear", ridge=0.03, observed=True, weight=0.5),
    ),
    device="cpu",
)
DESCRIBED = Ensemble(
    (
        Member("sqrt+l2", 0.5, ridge=0.01, prior=0.6),
        Member("l2", 0.3, ridge=0.3, prior=1.0, observed=True, weight=2.0),
    ),
    shared_space=True,
    device="cpu",
)
BOTH = pytest.mark.parametrize(
    ("settings", "attributes"), [(SETTINGS, ATTRIBUTES), (DESCRIBED, TEXTS)]
)


def solved(grown=GROWN, settings=SETTINGS, attributes=ATTRIBUTES):
    transfer = ClosedFormTransfer(settings)
    transfer.dtype = X.dtype
    transfer.table = transfer.solve(transfer.gather(X, CODES, 7), attributes, grown)
    return transfer


def first_classes(settings=SETTINGS, attributes=ATTRIBUTES):
    """A transfer that never saw the classes that grow."""
    some, transfer = CODES < 5, ClosedFormTransfer(settings)
    transfer.fit(X[some], CODES[some], attributes[:5])
    return transfer


@BOTH
def test_the_noise_of_a_grown_class_is_that_of_its_examples(settings, attributes):
    """ν/n: variance inside classes over the scale of the process, by the definition."""
    transfer, plain = solved(GROWN, settings, attributes), solved(None, settings, attributes)
    sizes = np.bincount(CODES)
    for member in settings.members:
        process = transfer.processes[member.process_key]
        seen, kernel = process.kernel.seen, process.kernel.seen[:5, :5]
        noise = member.ridge * np.diag(seen).mean() * sizes[:5].mean() / sizes[:5]
        np.testing.assert_allclose(process.noise[:5], noise)
        space = transfer.spaces[member.feature_map]
        projection = space.projection * space.scales[member.shrinkage]
        scatter = space.statistics.within_scatter / (len(X) - 7)
        inside = np.trace(projection.T @ scatter @ projection) / 9
        means = space.statistics.means[:5]
        residuals = means - means.mean(axis=0)
        if member.prior:
            texts = map_rows(attributes[:5], member.feature_map)
            residuals = residuals - member.prior * (texts - texts.mean(axis=0))
        residuals = residuals @ projection
        precision = np.linalg.inv(kernel + np.diag(noise))
        signal = np.trace(residuals.T @ precision @ residuals) / (5 * 9)
        np.testing.assert_allclose(process.noise[5:], inside / signal / np.array([3, 1]))
        assert not np.allclose(plain.processes[member.process_key].noise[5:], process.noise[5:])


@BOTH
def test_growth_leaves_the_centre_and_the_noise_of_other_classes_alone(settings, attributes):
    transfer, before = solved(GROWN, settings, attributes), first_classes(settings, attributes)
    for name, space in transfer.spaces.items():
        np.testing.assert_allclose(space.center, before.spaces[name].center)
        if settings.shares_space:
            np.testing.assert_allclose(
                space.description_center, before.spaces[name].description_center
            )
    for key, process in transfer.processes.items():
        np.testing.assert_allclose(process.noise[:5], before.processes[key].noise)


@BOTH
def test_grown_classes_lean_on_attributes_where_learned_ones_stay_at_their_means(
    settings, attributes
):
    transfer = solved(GROWN, settings, attributes)
    found = transfer.vectors(attributes, ~GROWN)
    for member, rows in zip(settings.members, found, strict=True):
        process = transfer.processes[member.process_key]
        weights = np.linalg.inv(process.kernel.seen + np.diag(process.noise))
        means, prior = transfer.source_vectors(member.metric_key), 0.0
        if member.prior:
            prior = transfer.prior_means(member, attributes)
        predicted = prior + process.kernel.seen @ weights @ (means - prior)
        np.testing.assert_allclose(rows[5:], predicted[5:], atol=1e-9)
        expected = means[:5] if member.observed else predicted[:5]
        np.testing.assert_allclose(rows[:5], expected, atol=1e-9)
    np.testing.assert_allclose(transfer.table, transfer.join(found, attributes), atol=1e-9)


@BOTH
def test_learned_shares_are_own_weights_over_those_of_learned_classes(settings, attributes):
    transfer, expected = solved(GROWN, settings, attributes), np.zeros(2)
    for member in settings.members:
        process = transfer.processes[member.process_key]
        seen = process.kernel.seen
        own = np.diag(seen @ np.linalg.inv(seen + np.diag(process.noise)))
        full = 1.0 if member.observed else own[:5].mean()  # what it is of learned classes
        expected += member.weight * np.minimum(own[5:] / full, 1.0)
    shares = transfer.learned_shares(GROWN)
    total = sum(member.weight for member in settings.members)
    np.testing.assert_allclose(shares[5:], expected / total)
    assert shares[:5].tolist() == [0.0] * 5
    assert shares[6] < shares[5]  # one example, three examples


@pytest.mark.parametrize("weighting", ["uniform", "count"])
def test_classes_that_all_came_by_attributes_or_count_alike_have_their_usual_noise(weighting):
    settings = Ensemble(weighting=weighting, device="cpu")
    grown = GROWN if weighting == "uniform" else np.ones(7, dtype=bool)
    (one,), (other,) = (solved(g, settings).processes.values() for g in (grown, None))
    assert np.array_equal(one.noise, other.noise)
