"""Inner products of classes without their embeddings, and what they say of images."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from hgkt._arrays import map_rows
from hgkt.closed_form import ClosedFormTransfer, KernelTerm, MetricTerm, Mixture, Ridge
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.posterior import attribute_sensitivity
from hgkt.closed_form.separation import ClassGeometry

RNG = np.random.default_rng(0)
ATTRIBUTES, NEW = RNG.random((8, 5)), RNG.random((3, 5))
CODES = np.repeat(np.arange(8), 12)
X = np.exp(ATTRIBUTES @ RNG.random((5, 10)))[CODES] + 0.2 * RNG.random((96, 10))
SEVERAL = Mixture(
    (MetricTerm("sqrt+l2", 0.3), MetricTerm("l2", 1.0, 2.0), MetricTerm("sqrt+l2", "oas", 0.5)),
    (KernelTerm("rbf", 2.0, "sqrt+l2"), KernelTerm("quadratic", attribute_map="l2", weight=2.0)),
    (Ridge(0.01), Ridge(0.1)),
    norm_power=1.2,
    device="cpu",
)


def fitted(settings):
    transfer = ClosedFormTransfer(settings)
    transfer.fit(X, CODES, ATTRIBUTES)
    return transfer


def places_of(transfer, attributes):
    weights = transfer.posterior.weights(transfer.kernel(attributes))
    return ClassGeometry.of(transfer).places(weights)


def test_products_are_those_of_the_embeddings():
    transfer = fitted(SEVERAL)
    seen, new = places_of(transfer, ATTRIBUTES), places_of(transfer, NEW)
    rows, others = transfer.embed(NEW), transfer.embed(ATTRIBUTES)
    for metric in range(3):
        part = slice(10 * metric, 10 * metric + 10)
        dots = new.weights @ seen.products[metric].T
        np.testing.assert_allclose(dots, rows[:, part] @ others[:, part].T, rtol=1e-4, atol=1e-4)
        squares = (rows[:, part] ** 2).sum(axis=1)
        np.testing.assert_allclose(new.squares[metric], squares, rtol=1e-4)


def test_scatter_needs_no_eigenvalues():
    transfer = fitted(SEVERAL)
    found = ClassGeometry.of(transfer).scatter
    for value, term in zip(found, SEVERAL.metrics, strict=True):
        spectrum = WithinClassSpectrum.of(transfer.statistics[term.feature_map])
        shrinkage = term.shrinkage
        if shrinkage == "oas":
            shrinkage = spectrum.oracle_shrinkage()
        expected = (spectrum.eigenvalues / spectrum.shrunk(shrinkage)).sum()
        assert value == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_separation_tells_how_many_images_of_two_classes_go_astray(metric):
    """Images drawn around an embedding, as round as the metric says, scored by the model."""
    transfer = fitted(Mixture(metric=metric, device="cpu"))
    geometry, places = ClassGeometry.of(transfer), places_of(transfer, ATTRIBUTES)
    penalty = 0.05 if metric == "cosine" else 3.0
    embeddings = transfer.embed(ATTRIBUTES).astype(float)
    spread = np.sqrt(geometry.scatter[0] / 10)
    rng = np.random.default_rng(1)
    found = geometry.separations(places, places, np.full((8, 8), penalty))
    for own, other in ((0, 1), (2, 5), (6, 3)):
        images = embeddings[own] + spread * rng.normal(size=(4000, 10))
        if metric == "cosine":
            images /= np.sqrt((images**2).sum(axis=1).mean())  # as long as they are on average
        scores = transfer.score_mapped(images, embeddings[[own, other]])
        astray = np.mean(scores[:, 1] - penalty > scores[:, 0])
        ratio = np.sign(found[own, other]) * np.sqrt(abs(found[own, other]))
        assert astray == pytest.approx(norm.sf(ratio), abs=0.03)


def test_a_class_is_not_separated_from_itself():
    transfer = fitted(SEVERAL)
    places = places_of(transfer, ATTRIBUTES)
    found = ClassGeometry.of(transfer).separations(places, places, np.zeros((1, 1)))
    assert np.abs(np.diag(found)).max() < 1e-3
    assert (found + np.eye(8) > 1e-3).all()


@pytest.mark.parametrize("settings", [SEVERAL, Mixture(metric="euclidean", device="cpu")])
def test_slopes_of_a_lead_are_its_differences(settings):
    transfer = fitted(settings)
    geometry = ClassGeometry.of(transfer)
    weights = transfer.posterior.weights(transfer.kernel(NEW[:1]))
    rivals = places_of(transfer, ATTRIBUTES[:2])
    shares = np.array([0.7, 0.3])
    slopes = geometry.lead_slopes(geometry.places(weights), rivals, shares)

    def lead(moved):
        """What a score leads by, with images as long as before."""
        rows = (moved @ transfer.source_vectors())[0]
        others = rivals.weights.astype(float) @ transfer.source_vectors()
        if settings.metric == "euclidean":
            return shares @ ((rows - others) ** 2).sum(axis=1)
        total = 0.0
        for g, term in enumerate(settings.metrics):
            own, rest = rows[10 * g : 10 * g + 10], others[:, 10 * g : 10 * g + 10]
            power = settings.norm_power
            lengths = np.linalg.norm(rest, axis=1) ** power
            gaps = np.linalg.norm(own) ** (2 - power) - (rest @ own) / lengths
            square = geometry.places(weights).squares[g, 0]
            total += term.weight / np.sqrt(square + geometry.scatter[g]) * (shares @ gaps)
        return total

    step = 1e-5 * np.eye(8)
    numeric = [(lead(weights + row) - lead(weights - row)) / 2e-5 for row in step]
    np.testing.assert_allclose(slopes, numeric, rtol=2e-3, atol=2e-3 * np.abs(slopes).max())


@pytest.mark.parametrize("name", ["none", "l2", "sqrt+l2"])
@pytest.mark.parametrize("kind", ["rbf", "quadratic", "linear"])
def test_sensitivity_is_the_change_with_one_attribute(name, kind):
    kernel = fitted(Mixture(kernels=(KernelTerm(kind, 0.7, name),), device="cpu")).kernel
    slopes = np.random.default_rng(2).normal(size=8)
    found = attribute_sensitivity(kernel, NEW[0], slopes)
    mapped, spread = map_rows(NEW[:1], name)[0], map_rows(ATTRIBUTES, name).std(axis=0)
    back = {"none": lambda row: row, "l2": lambda row: row, "sqrt+l2": lambda row: row**2}[name]
    numeric = []
    for place in range(5):
        step = 1e-6 * spread[place] * np.eye(5)[place]
        values = [kernel(back(mapped + sign * step)[None])[0] @ slopes for sign in (1, -1)]
        numeric.append((values[0] - values[1]) / 2e-6)
    np.testing.assert_allclose(found, numeric, rtol=1e-4, atol=1e-8)


def test_sensitivity_counts_what_relevance_leaves_of_an_attribute():
    term = KernelTerm("rbf", 1.0, "l2", relevance=True)
    kernel = fitted(Mixture(kernels=(term,), device="cpu")).kernel
    slopes = np.random.default_rng(2).normal(size=8)
    found = attribute_sensitivity(kernel, NEW[0], slopes)
    mapped, spread = map_rows(NEW[:1], "l2")[0], map_rows(ATTRIBUTES, "l2").std(axis=0)
    step = 1e-6 * spread[1] * np.eye(5)[1]
    values = [kernel((mapped + sign * step)[None])[0] @ slopes for sign in (1, -1)]
    assert found[1] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-3)
