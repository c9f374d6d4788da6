from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from hgkt._arrays import map_rows
from hgkt.closed_form.kernels import KERNELS, ClassKernel, KernelSettings, simplex_grid
from hgkt.exceptions import DataError

ATTRIBUTES = np.random.default_rng(0).random((7, 4))
NEW = np.random.default_rng(1).random((3, 4))


def kernel_of(kind="rbf", scale=1.0, name="l2", *, blocks=None, block_weights=None, k=2):
    weights = None if block_weights is None else tuple(block_weights)
    return ClassKernel(KernelSettings(kind, scale, name, block_weights=weights), blocks, k)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_kernels_match_scikit_learn():
    A, B = unit(ATTRIBUTES), unit(NEW)
    gamma = 0.5 / np.median(pdist(A, "sqeuclidean"))
    fitted = {kind: kernel_of(kind, 0.5).fit(ATTRIBUTES) for kind in KERNELS}
    np.testing.assert_allclose(fitted["rbf"](NEW), rbf_kernel(B, A, gamma=gamma))
    np.testing.assert_allclose(fitted["linear"](NEW), linear_kernel(B, A))
    expected = polynomial_kernel(B, A, degree=2, gamma=1, coef0=1) / 4
    np.testing.assert_allclose(fitted["quadratic"](NEW), expected)


@pytest.mark.parametrize("kind", KERNELS)
def test_seen_kernel_is_positive_semi_definite(kind):
    kernel = kernel_of(kind, 1.0, "sqrt+l2").fit(ATTRIBUTES).seen
    np.testing.assert_allclose(kernel, kernel.T)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-10


@pytest.mark.parametrize("kind", ["rbf", "quadratic", "linear"])
def test_kernel_of_seen_classes_agrees_with_calling_it(kind):
    kernel = kernel_of(kind).fit(ATTRIBUTES)
    np.testing.assert_allclose(kernel(ATTRIBUTES), kernel.seen)


def test_knn_kernel_keeps_the_nearest_classes_only():
    kernel = kernel_of("knn").fit(ATTRIBUTES)
    full = kernel_of("rbf").fit(ATTRIBUTES)(NEW)
    sparse = kernel(NEW)
    assert ((sparse > 0).sum(axis=1) == 2).all()
    for row, whole in zip(sparse, full, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(row), np.sort(np.argsort(-whole)[:2]))


def test_knn_kernel_with_more_neighbours_than_classes_is_the_full_one():
    many = kernel_of("knn", k=50).fit(ATTRIBUTES)
    np.testing.assert_allclose(many(NEW), kernel_of("rbf").fit(ATTRIBUTES)(NEW))


def test_blocks_sum_their_own_kernels():
    blocks = kernel_of("rbf", blocks=[1, 3], block_weights=[1, 3]).fit(ATTRIBUTES)
    parts = [
        kernel_of("rbf").fit(ATTRIBUTES[:, columns])(NEW[:, columns])
        for columns in (slice(0, 1), slice(1, 4))
    ]
    np.testing.assert_allclose(blocks(NEW), 0.25 * parts[0] + 0.75 * parts[1])


def test_block_of_weight_zero_is_left_out():
    blocks = kernel_of("rbf", blocks=[1, 3], block_weights=[0, 1]).fit(ATTRIBUTES)
    alone = kernel_of("rbf").fit(ATTRIBUTES[:, 1:])
    np.testing.assert_allclose(blocks(NEW), alone(NEW[:, 1:]))


def test_wrong_blocks_and_kinds_are_refused():
    with pytest.raises(DataError, match=r"attribute_blocks \[1, 2\] add up to 3"):
        kernel_of(blocks=[1, 2]).fit(ATTRIBUTES)
    with pytest.raises(DataError, match="block_weights must be 2 numbers"):
        kernel_of(blocks=[1, 3], block_weights=[1]).fit(ATTRIBUTES)
    with pytest.raises(DataError, match="kernel must be one of"):
        kernel_of("cubic")


def test_duplicate_classes_have_a_finite_bandwidth():
    kernel = kernel_of("rbf").fit(np.ones((3, 2)))
    np.testing.assert_allclose(kernel.seen, 1.0)


def test_a_kernel_is_taken_as_it_is_whatever_its_size():
    alone = kernel_of("linear", 1.0, "none").fit(3.0 * ATTRIBUTES)
    np.testing.assert_allclose(alone.seen, 9.0 * ATTRIBUTES @ ATTRIBUTES.T)
    np.testing.assert_allclose(alone(NEW), 3.0 * NEW @ ATTRIBUTES.T)


@pytest.mark.parametrize("blocks", [None, [1, 3]])
def test_linear_rows_and_references_make_the_linear_kernel(blocks):
    weights = [0.2, 0.8] if blocks else None
    kernel = kernel_of("linear", blocks=blocks, block_weights=weights).fit(ATTRIBUTES)
    assert kernel.is_linear
    assert not kernel_of("quadratic").is_linear
    found = kernel.linear_rows(NEW) @ kernel.linear_references().T
    np.testing.assert_allclose(found, kernel(NEW))


def test_relevance_scales_attributes_before_the_kernel():
    weights = np.array([4.0, 1.0, 0.25, 1.0])
    settings = KernelSettings("rbf", 1.0, "l2", relevance=True)
    kernel = ClassKernel(settings).fit(ATTRIBUTES, lambda rows: weights)
    factors = np.sqrt(weights)
    factors /= np.linalg.norm(unit(ATTRIBUTES) * factors, axis=1).mean()
    A, B = unit(ATTRIBUTES) * factors, unit(NEW) * factors
    gamma = 1.0 / np.median(pdist(A, "sqeuclidean"))
    np.testing.assert_allclose(kernel(NEW), rbf_kernel(B, A, gamma=gamma))
    np.testing.assert_allclose(kernel.attribute_relevance(), weights / weights.mean())
    with pytest.raises(DataError, match="without a way to learn it"):
        ClassKernel(settings).fit(ATTRIBUTES)
    again = ClassKernel(settings).fit(ATTRIBUTES, relevance=kernel.relevance)  # known before
    np.testing.assert_array_equal(again(NEW), kernel(NEW))


def test_simplex_grid_has_every_division_into_parts():
    grid = simplex_grid(3, 4)
    assert len(grid) == 15
    assert all(sum(row) == 1.0 for row in grid)


def test_power_maps_keep_signs_and_zero_rows():
    rows = np.array([[4.0, -9.0], [0.0, 0.0]])
    np.testing.assert_allclose(map_rows(rows, "l2")[0], [4 / 97**0.5, -9 / 97**0.5])
    np.testing.assert_allclose(map_rows(rows, "sqrt+l2")[0], np.array([2, -3]) / 13**0.5)
    np.testing.assert_allclose(map_rows(rows, 1.0), map_rows(rows, "l2"))
    assert map_rows(rows, "none") is rows
    assert not map_rows(rows, 0.5)[1].any()


@pytest.mark.parametrize("kernel", ["rbf", "quadratic", "linear"])
def test_many_classes_are_compared_block_by_block(kernel, monkeypatch):
    attributes = np.random.default_rng(0).random((11, 4))
    whole = ClassKernel(KernelSettings(kernel)).fit(attributes)
    monkeypatch.setattr("hgkt.closed_form.kernels._BLOCK_ROWS", 3)
    blocks = ClassKernel(KernelSettings(kernel)).fit(attributes)
    np.testing.assert_allclose(blocks.seen, whole.seen, rtol=1e-12)


def test_the_bandwidth_of_many_classes_comes_of_evenly_spaced_ones(monkeypatch):
    attributes = np.random.default_rng(0).random((11, 4))
    monkeypatch.setattr("hgkt.closed_form.kernels._MAX_COMPARED", 4)
    some = ClassKernel(KernelSettings()).fit(attributes)
    of_four = ClassKernel(KernelSettings()).fit(attributes[::3])
    assert some.medians == of_four.medians
