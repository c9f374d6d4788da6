from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

from hgkt._geometry import map_rows
from hgkt.closed_form.kernels import KERNELS, ClassKernel
from hgkt.exceptions import DataError

ATTRIBUTES = np.random.default_rng(0).random((7, 4))
NEW = np.random.default_rng(1).random((3, 4))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_kernels_match_scikit_learn():
    A, B = unit(ATTRIBUTES), unit(NEW)
    gamma = 0.5 / np.median(pdist(A, "sqeuclidean"))
    fitted = {kind: ClassKernel(kind, 0.5, "l2").fit(ATTRIBUTES) for kind in KERNELS}
    np.testing.assert_allclose(fitted["rbf"](NEW), rbf_kernel(B, A, gamma=gamma))
    np.testing.assert_allclose(fitted["linear"](NEW), linear_kernel(B, A))
    expected = polynomial_kernel(B, A, degree=2, gamma=1, coef0=1) / 4
    np.testing.assert_allclose(fitted["quadratic"](NEW), expected)


@pytest.mark.parametrize("kind", KERNELS)
def test_seen_kernel_is_positive_semi_definite(kind):
    kernel = ClassKernel(kind, 1.0, "sqrt+l2", n_neighbors=2).fit(ATTRIBUTES).seen
    np.testing.assert_allclose(kernel, kernel.T)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-10


@pytest.mark.parametrize("kind", ["rbf", "quadratic", "linear"])
def test_kernel_of_seen_classes_agrees_with_calling_it(kind):
    kernel = ClassKernel(kind).fit(ATTRIBUTES)
    np.testing.assert_allclose(kernel(ATTRIBUTES), kernel.seen)


def test_knn_kernel_keeps_the_nearest_classes_only():
    kernel = ClassKernel("knn", n_neighbors=2).fit(ATTRIBUTES)
    full = ClassKernel("rbf").fit(ATTRIBUTES)(NEW)
    sparse = kernel(NEW)
    assert ((sparse > 0).sum(axis=1) == 2).all()
    for row, whole in zip(sparse, full, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(row), np.sort(np.argsort(-whole)[:2]))


def test_knn_kernel_with_more_neighbours_than_classes_is_the_full_one():
    many = ClassKernel("knn", n_neighbors=50).fit(ATTRIBUTES)
    np.testing.assert_allclose(many(NEW), ClassKernel("rbf").fit(ATTRIBUTES)(NEW))


def test_blocks_sum_their_own_kernels():
    blocks = ClassKernel("rbf", blocks=[1, 3], block_weights=[1, 3]).fit(ATTRIBUTES)
    parts = [
        ClassKernel("rbf").fit(ATTRIBUTES[:, columns])(NEW[:, columns])
        for columns in (slice(0, 1), slice(1, 4))
    ]
    np.testing.assert_allclose(blocks(NEW), 0.25 * parts[0] + 0.75 * parts[1])


def test_block_of_weight_zero_is_left_out():
    blocks = ClassKernel("rbf", blocks=[1, 3], block_weights=[0, 1]).fit(ATTRIBUTES)
    alone = ClassKernel("rbf").fit(ATTRIBUTES[:, 1:])
    np.testing.assert_allclose(blocks(NEW), alone(NEW[:, 1:]))


def test_wrong_blocks_and_kinds_are_refused():
    with pytest.raises(DataError, match=r"attribute_blocks \[1, 2\] add up to 3"):
        ClassKernel(blocks=[1, 2]).fit(ATTRIBUTES)
    with pytest.raises(DataError, match="block_weights must be 2 numbers"):
        ClassKernel(blocks=[1, 3], block_weights=[1]).fit(ATTRIBUTES)(NEW)
    with pytest.raises(DataError, match="kernel must be one of"):
        ClassKernel("cubic").fit(ATTRIBUTES)


def test_duplicate_classes_have_a_finite_bandwidth():
    kernel = ClassKernel("rbf").fit(np.ones((3, 2)))
    np.testing.assert_allclose(kernel.seen, 1.0)


def test_power_maps_keep_signs_and_zero_rows():
    rows = np.array([[4.0, -9.0], [0.0, 0.0]])
    np.testing.assert_allclose(map_rows(rows, "l2")[0], [4 / 97**0.5, -9 / 97**0.5])
    np.testing.assert_allclose(map_rows(rows, "sqrt+l2")[0], np.array([2, -3]) / 13**0.5)
    np.testing.assert_allclose(map_rows(rows, 1.0), map_rows(rows, "l2"))
    assert map_rows(rows, "none") is rows
    assert not map_rows(rows, 0.5)[1].any()
