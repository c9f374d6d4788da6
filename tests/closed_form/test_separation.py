"""Where classes lie in each metric, and what that says of images."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from hgkt._arrays import map_rows
from hgkt.closed_form import ClosedFormTransfer, Ensemble, Member
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.posterior import attribute_sensitivity
from hgkt.closed_form.separation import ClassGeometry

RNG = np.random.default_rng(0)
ATTRIBUTES, NEW = RNG.random((8, 5)), RNG.random((3, 5))
CODES = np.repeat(np.arange(8), 12)
X = np.exp(ATTRIBUTES @ RNG.random((5, 10)))[CODES] + 0.2 * RNG.random((96, 10))
TEXTS, NEW_TEXTS = X[::12] + 0.5 * RNG.random((8, 10)), X[5:40:12] + RNG.random((3, 10))
SEVERAL = Ensemble(
    (
        Member("sqrt+l2", 0.3, "rbf", 2.0, ridge=0.01, norm_power=1.2),
        Member("l2", 1.0, "quadratic", attribute_map="l2", ridge=0.1, weight=2.0, observed=True),
        Member("sqrt+l2", 0.3, "linear", attribute_map="none", norm_power=0.0, weight=0.5),
        Member("sqrt+l2", "oas", relevance=True, norm_power=1.3, weight=0.5),
    ),
    device="cpu",
)
DISTANCES = Ensemble(
    (Member(ridge=0.1), Member(kernel="linear", attribute_map="l2", weight=0.5, observed=True)),
    metric="euclidean",
    device="cpu",
)
SHARED = Ensemble(
    (
        Member("l2", 0.5, prior=0.6, norm_power=1.2),
        Member("sqrt+l2", 0.9, "quadratic", prior=1.0, weight=0.5),
        Member("l2", 0.5, ridge=0.3, observed=True, weight=2.0),
    ),
    zero_shot=1.5,
    shared_space=True,
    device="cpu",
)
WAYS = {
    "cosine": Ensemble(device="cpu"),
    "euclidean": Ensemble(metric="euclidean", device="cpu"),
    "several": SEVERAL,
    "distances": DISTANCES,
    "shared space": SHARED,
}
EVERY_WAY = pytest.mark.parametrize("settings", WAYS.values(), ids=list(WAYS))


def attributes_of(settings):
    """Attributes of seen and of new classes."""
    return (TEXTS, NEW_TEXTS) if settings.shares_space else (ATTRIBUTES, NEW)


def fitted(settings):
    transfer = ClosedFormTransfer(settings)
    transfer.fit(X, CODES, attributes_of(settings)[0])
    return transfer


def vectors_of(transfer, kind):
    seen, new = attributes_of(transfer.settings)
    if kind == "seen":
        return transfer.vectors(seen, np.ones(8, dtype=bool)), seen
    return transfer.vectors(new), new


def places_of(transfer, kind="seen"):
    return ClassGeometry.of(transfer).places(*vectors_of(transfer, kind))


def parts_of(settings, vectors):
    """Images, rows and offsets in each metric, member by member in float64."""
    found = []
    for metric in settings.metric_keys:
        own = [
            (member, rows.astype(np.float64))
            for member, rows in zip(settings.members, vectors, strict=True)
            if (member.feature_map, member.shrinkage) == metric
        ]
        total = sum(member.weight for member, _ in own)
        images = sum(member.weight * rows for member, rows in own) / total
        if settings.metric == "euclidean":
            offsets = sum(m.weight * (rows**2).sum(axis=1) for m, rows in own) / total
            found.append((images, images, offsets))
        else:
            rows = sum(
                m.weight * z / np.linalg.norm(z, axis=1)[:, None] ** m.norm_power for m, z in own
            )
            found.append((images, rows, np.zeros(len(rows))))
    return found


@EVERY_WAY
@pytest.mark.parametrize("kind", ["seen", "new"])
def test_places_are_those_of_the_members(settings, kind):
    transfer = fitted(settings)
    vectors, _ = vectors_of(transfer, kind)
    places = places_of(transfer, kind)
    for index, (images, rows, offsets) in enumerate(parts_of(settings, vectors)):
        np.testing.assert_allclose(places.images[:, index], images, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(places.rows[:, index], rows, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(places.offsets, offsets, rtol=1e-6, atol=1e-9)
    assert places.rows.shape[1] == len(settings.metric_keys)
    whole = places.join(places_of(transfer, "new"))
    assert len(whole.images) == len(places.images) + 3
    np.testing.assert_array_equal(whole.take(slice(len(places.images))).rows, places.rows)
    np.testing.assert_array_equal(whole.take(np.array([1])).offsets, places.offsets[1:2])


@EVERY_WAY
def test_scatter_needs_no_eigenvalues(settings):
    transfer = fitted(settings)
    found = ClassGeometry.of(transfer).scatter
    for value, (name, shrinkage) in zip(found, settings.metric_keys, strict=True):
        spectrum = WithinClassSpectrum.of(transfer.statistics[name])
        if shrinkage == "oas":
            shrinkage = spectrum.oracle_shrinkage()
        expected = (spectrum.eigenvalues / spectrum.shrunk(shrinkage)).sum()
        assert value == pytest.approx(expected, rel=1e-6)


@EVERY_WAY
def test_separations_match_the_formulas_written_out(settings):
    """A lead is normal: its mean and its variance are sums over the metrics."""
    transfer = fitted(settings)
    geometry, scatter = ClassGeometry.of(transfer), ClassGeometry.of(transfer).scatter
    new, seen = places_of(transfer, "new"), places_of(transfer)
    penalties = np.random.default_rng(1).normal(size=(3, 8)) * 0.1
    ours, theirs = (parts_of(settings, vectors_of(transfer, kind)[0]) for kind in ("new", "seen"))
    lead, variance = penalties.copy(), np.zeros((3, 8))
    for index in range(len(scatter)):
        (images, rows, offsets), (_, others, other_offsets) = ours[index], theirs[index]
        apart = rows[:, None] - others
        if settings.metric == "euclidean":
            reach = np.full(3, 2.0)
        else:
            reach = 1.0 / np.sqrt((images**2).sum(axis=1) + scatter[index])
        lead += reach[:, None] * np.einsum("nd,ncd->nc", images, apart)
        lead += other_offsets - offsets[:, None]
        variance += (reach**2)[:, None] * scatter[index] / 10 * (apart**2).sum(axis=2)
    expected = np.sign(lead) * lead**2 / variance
    found = geometry.separations(new, seen, penalties)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["euclidean", "cosine", "several", "distances"])
def test_separation_tells_how_many_images_of_two_classes_go_astray(name):
    """Images drawn around an embedding, as round as the metric says, scored by the model."""
    settings = WAYS[name]
    transfer = fitted(settings)
    geometry, places = ClassGeometry.of(transfer), places_of(transfer)
    penalty = 3.0 if settings.metric == "euclidean" else 0.05
    vectors, attributes = vectors_of(transfer, "seen")
    table = transfer.join(vectors, attributes)
    rng = np.random.default_rng(1)
    found = geometry.separations(places, places, np.full((8, 8), penalty))
    for own, other in ((0, 1), (2, 5), (6, 3)):
        blocks = []
        for index, scatter in enumerate(geometry.scatter):
            center = places.images[own, index].astype(float)
            images = center + np.sqrt(scatter / 10) * rng.normal(size=(4000, 10))
            if settings.metric == "euclidean":
                squares = (images**2).sum(axis=1)[:, None]
                blocks += [2.0 * images, -np.ones_like(squares), -squares]
            else:  # as long as they are on average
                blocks.append(images / np.sqrt((images**2).sum(axis=1).mean()))
        scores = transfer.score_mapped(np.hstack(blocks), table[[own, other]])
        # What is taken off the other class beyond what is taken off the own one.
        astray = np.mean(scores[:, 1] - penalty > scores[:, 0])
        ratio = np.sign(found[own, other]) * np.sqrt(abs(found[own, other]))
        assert astray == pytest.approx(norm.sf(ratio), abs=0.03)


@EVERY_WAY
def test_a_class_is_not_separated_from_itself(settings):
    transfer = fitted(settings)
    places = places_of(transfer)
    found = ClassGeometry.of(transfer).separations(places, places, np.zeros((1, 1)))
    # Means of several members of one metric are not their rows: a lead is one of rounding alone.
    assert np.abs(np.diag(found)).max() < 1e-3
    assert np.abs(found[~np.eye(8, dtype=bool)]).min() > 1e-3


def back(mapped, name):
    """Return attributes whose mapped rows have the direction of these."""
    return mapped**2 if name == "sqrt+l2" else mapped


@EVERY_WAY
def test_sensitivities_are_differences_of_the_lead(settings):
    """By way of the kernels, with images as long as before; descriptions stay where they are."""
    transfer = fitted(settings)
    geometry = ClassGeometry.of(transfer)
    seen, new = attributes_of(settings)
    own, shares = new[:1], np.array([0.7, 0.3])
    place, rivals = places_of(transfer, "new").take(slice(1)), places_of(transfer).take(slice(2))
    found = geometry.sensitivities(own[0], place, rivals, shares)
    rival_parts = parts_of(settings, [rows[:2] for rows in vectors_of(transfer, "seen")[0]])
    reaches = [
        1.0 / np.sqrt((images[0] ** 2).sum() + scatter) if settings.metric == "cosine" else 2.0
        for (images, _, _), scatter in zip(
            parts_of(settings, [rows[:1] for rows in vectors_of(transfer, "new")[0]]),
            geometry.scatter,
            strict=True,
        )
    ]

    def lead(place, step):
        """What a score leads by once one mapped attribute of each member has moved."""
        vectors = []
        for member in settings.members:
            spread = map_rows(seen, member.attribute_map).std(axis=0)[place]
            moved = map_rows(own, member.attribute_map).copy()
            moved[0, place] += step * spread
            carried = transfer.processes[member.process_key].products(
                back(moved, member.attribute_map)
            )
            vectors.append(carried + transfer.prior_means(member, own))
        total = 0.0
        for reach, (images, rows, offset), (_, others, offsets) in zip(
            reaches, parts_of(settings, vectors), rival_parts, strict=True
        ):
            total += shares @ (reach * (rows[0] - others) @ images[0] - offset[0] + offsets)
        return total

    numeric = [(lead(j, 1e-5) - lead(j, -1e-5)) / 2e-5 for j in range(own.shape[1])]
    np.testing.assert_allclose(found, numeric, rtol=2e-3, atol=2e-3 * np.abs(numeric).max())


def kernel_of(member):
    (process,) = fitted(Ensemble((member,), device="cpu")).processes.values()
    return process.kernel


@pytest.mark.parametrize("name", ["none", "l2", "sqrt+l2"])
@pytest.mark.parametrize("kind", ["rbf", "quadratic", "linear"])
def test_sensitivity_is_the_change_with_one_attribute(name, kind):
    kernel = kernel_of(Member(kernel=kind, kernel_scale=0.7, attribute_map=name))
    slopes = np.random.default_rng(2).normal(size=8)
    found = attribute_sensitivity(kernel, NEW[0], slopes)
    mapped, spread = map_rows(NEW[:1], name)[0], map_rows(ATTRIBUTES, name).std(axis=0)
    numeric = []
    for place in range(5):
        step = 1e-6 * spread[place] * np.eye(5)[place]
        values = [kernel(back(mapped + sign * step, name)[None])[0] @ slopes for sign in (1, -1)]
        numeric.append((values[0] - values[1]) / 2e-6)
    np.testing.assert_allclose(found, numeric, rtol=1e-4, atol=1e-8)


def test_sensitivity_counts_what_relevance_leaves_of_an_attribute():
    kernel = kernel_of(Member(attribute_map="l2", relevance=True))
    slopes = np.random.default_rng(2).normal(size=8)
    found = attribute_sensitivity(kernel, NEW[0], slopes)
    mapped, spread = map_rows(NEW[:1], "l2")[0], map_rows(ATTRIBUTES, "l2").std(axis=0)
    step = 1e-6 * spread[1] * np.eye(5)[1]
    values = [kernel((mapped + sign * step)[None])[0] @ slopes for sign in (1, -1)]
    assert found[1] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-3)
