"""Transport on a line against linear programs, brute force and what must be true."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from itertools import product

import numpy as np
import ot
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hgkt.exceptions import DataError
from hgkt.transport import (
    ground_cost,
    line_barycenter,
    line_distances,
    line_pairwise,
    to_simplex,
)


@pytest.fixture(params=["numpy", "torch"])
def backend(request):
    """Turn an array into the backend's own kind, and back."""
    if request.param == "numpy":
        return np.asarray
    return pytest.importorskip("torch").as_tensor


def random_histograms(rng, n_rows, n_bins, zeros=0.4):
    features = rng.gamma(0.7, size=(n_rows, n_bins)) * (rng.random((n_rows, n_bins)) > zeros)
    features[:, 0] += 1e-3
    return to_simplex(features)


def exact_objective(histograms, weights, candidate):
    cost = ground_cost(histograms.shape[1])
    values = [ot.emd2(candidate, row, cost) for row in histograms]
    return float(np.dot(weights, values))


@st.composite
def problems(draw):
    """A few histograms with many ties: masses are multiples of 1/8 or arbitrary."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n_bins = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    if draw(st.booleans()):
        histograms = rng.multinomial(8, np.ones(n_bins) / n_bins, size=n_rows) / 8
    else:
        histograms = random_histograms(rng, n_rows, n_bins)
    weights = rng.integers(1, 5, size=n_rows) if draw(st.booleans()) else np.ones(n_rows, int)
    return histograms, weights


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_line_barycenter_attains_the_linear_program(problem):
    histograms, weights = problem
    lam = weights / weights.sum()
    found = line_barycenter(histograms, weights)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    cost = ground_cost(histograms.shape[1])
    best = ot.lp.barycenter(histograms.T, cost, weights=lam, solver="highs")
    best = np.maximum(best, 0) / np.maximum(best, 0).sum()
    ours, program = (exact_objective(histograms, lam, a) for a in (found, best))
    assert ours <= program + 1e-9


def test_line_barycenter_attains_brute_force():
    rng = np.random.default_rng(3)
    for _ in range(8):
        histograms = rng.multinomial(6, [0.3, 0.2, 0.2, 0.3], size=3) / 6
        grid = [np.array(a) / 18 for a in product(range(19), repeat=4) if sum(a) == 18]
        objective = line_pairwise(np.array(grid), histograms).mean(axis=1)
        ours = line_distances(histograms, line_barycenter(histograms)).mean()
        assert ours == pytest.approx(objective.min(), abs=1e-12)


def test_line_barycenter_of_many_bins_attains_the_linear_program():
    histograms = random_histograms(np.random.default_rng(1), 6, 40)
    weights = np.array([0.3, 0.05, 0.05, 0.25, 0.15, 0.2])
    ours = line_barycenter(histograms, weights)
    program = ot.lp.barycenter(histograms.T, ground_cost(40), weights=weights, solver="highs")
    assert line_distances(histograms, ours) @ weights == pytest.approx(
        exact_objective(histograms, weights, np.maximum(program, 0) / program.sum()), abs=1e-9
    )


def test_line_barycenter_of_diracs_is_the_rounded_mean(backend):
    diracs = np.eye(10)[[1, 2, 9]]
    assert np.argmax(np.asarray(line_barycenter(backend(diracs)))) == 4
    assert np.argmax(np.asarray(line_barycenter(backend(diracs), [1, 1, 6]))) == 7  # 57/8
    # 1.5 lies between two bins: the lower one is taken
    assert np.argmax(np.asarray(line_barycenter(backend(diracs[:2])))) == 1


def test_line_barycenter_of_one_histogram_is_itself(backend):
    histograms = random_histograms(np.random.default_rng(0), 1, 30)
    np.testing.assert_allclose(line_barycenter(backend(histograms)), histograms[0], atol=1e-15)


def test_line_barycenter_follows_a_translation():
    rng = np.random.default_rng(5)
    histograms = np.zeros((4, 20))
    histograms[:, 3:12] = random_histograms(rng, 4, 9)
    moved = np.roll(histograms, 6, axis=1)
    np.testing.assert_allclose(
        line_barycenter(moved), np.roll(line_barycenter(histograms), 6), atol=1e-15
    )


# Half of the weight lies on either side of a bin, and thirds are no exact numbers.
TIE = (np.array([[5, 1, 2], [0, 5, 3], [2, 4, 2]]) / 8, np.array([2, 3, 1]))


@settings(max_examples=60, deadline=None)
@given(problem=problems(), seed=st.integers(0, 100))
@example(problem=TIE, seed=0)
def test_line_barycenter_ignores_order_and_counts_weights_as_copies(problem, seed):
    histograms, weights = problem
    order = np.random.default_rng(seed).permutation(len(histograms))
    weighted = line_barycenter(histograms, weights)
    shuffled = line_barycenter(histograms[order], weights[order])
    np.testing.assert_array_equal(weighted, shuffled)
    copies = line_barycenter(np.repeat(histograms, weights, axis=0))
    np.testing.assert_array_equal(weighted, copies)


# Weights whose first rows sum to 1/2 exactly, and in whole units of 2⁻⁵² to one unit more: sixths
# round up.
SIXTHS = np.array([1, 1, 1, 3])
EXCESS = 2.0**-46  # seen by float64, and beyond what rounding the weights can add up to


def two_bins(first):
    return np.stack([first, 1 - np.asarray(first)], axis=1)


def test_line_barycenter_takes_the_lower_bin_where_rounded_weights_miss_a_tie(backend):
    rows = two_bins([0.2, 0.3, 0.4, 0.9])
    # The mean quantile is exactly 1/2 for t from 0.4 to 0.9: either bin is as good.
    found = np.asarray(line_barycenter(backend(rows), SIXTHS))
    np.testing.assert_allclose(found, [0.9, 0.1])


def test_line_barycenter_takes_the_better_bin_where_it_is_better_by_little(backend):
    rows = two_bins([0.2, 0.3, 0.4, 0.9])
    weights = SIXTHS / 6 + EXCESS * np.array([1, 0, 0, -1])
    found = np.asarray(line_barycenter(backend(rows), weights))
    np.testing.assert_allclose(found, [0.4, 0.6])


def test_line_barycenter_leaves_out_rows_of_weight_zero():
    histograms = random_histograms(np.random.default_rng(2), 5, 12)
    np.testing.assert_array_equal(
        line_barycenter(histograms, [1, 0, 2, 0, 1]),
        line_barycenter(histograms[[0, 2, 4]], [1, 2, 1]),
    )


def test_line_distances_equal_the_network_simplex(backend):
    rng = np.random.default_rng(7)
    histograms, target = random_histograms(rng, 12, 25), random_histograms(rng, 1, 25)[0]
    cost = ground_cost(25)
    expected = [ot.emd2(row, target, cost) for row in histograms]
    found = np.asarray(line_distances(backend(histograms), backend(target)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_line_distances_equal_the_merged_quantiles_on_2048_bins():
    rng = np.random.default_rng(8)
    histograms = random_histograms(rng, 5, 2048)
    target = line_barycenter(histograms)
    bins = np.arange(2048.0)
    expected = [ot.emd2_1d(bins, bins, row, target, metric="sqeuclidean") for row in histograms]
    np.testing.assert_allclose(line_distances(histograms, target), expected, rtol=1e-11)


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_line_pairwise_is_a_metric_and_agrees_with_distances(problem):
    histograms, _ = problem
    table = line_pairwise(histograms)
    np.testing.assert_array_equal(table, table.T)
    assert (np.diag(table) == 0).all()
    both = line_pairwise(histograms, histograms)
    np.testing.assert_allclose(table, both, atol=1e-12)
    roots = np.sqrt(table)
    assert (roots[:, :, None] <= roots[:, None, :] + roots.T[None, :, :] + 1e-6).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_torch_equals_numpy(weighted):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(10)
    histograms = random_histograms(rng, 33, 301)
    weights = rng.random(33) if weighted else None
    tensor = torch.as_tensor(histograms)
    center = line_barycenter(histograms, weights)
    found = line_barycenter(tensor, weights)
    assert torch.is_tensor(found)
    np.testing.assert_allclose(found, center, atol=1e-10)
    np.testing.assert_allclose(
        line_distances(tensor, center), line_distances(histograms, center), atol=1e-10
    )
    np.testing.assert_allclose(
        line_pairwise(tensor), line_pairwise(histograms), rtol=1e-12, atol=1e-10
    )
    np.testing.assert_allclose(
        line_pairwise(tensor, tensor[:4]),
        line_pairwise(histograms, histograms[:4]),
        rtol=1e-12,
        atol=1e-10,
    )


def test_line_on_cuda_equals_numpy():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    histograms = random_histograms(np.random.default_rng(11), 50, 512)
    center = line_barycenter(histograms)
    found = line_barycenter(histograms, device="cuda")
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, center, atol=1e-10)
    np.testing.assert_allclose(
        line_distances(histograms, center, device="cuda"), line_distances(histograms, center)
    )


def test_single_bin_costs_nothing(backend):
    ones = backend(np.ones((3, 1)))
    np.testing.assert_array_equal(line_barycenter(ones), [1.0])
    np.testing.assert_array_equal(line_barycenter(ones, [1, 2, 3]), [1.0])
    np.testing.assert_array_equal(line_distances(ones, ones[0]), np.zeros(3))


def test_line_distances_need_little_memory():
    histograms = random_histograms(np.random.default_rng(12), 4000, 1024).astype(np.float32)
    tracemalloc.start()
    line_distances(histograms, histograms[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: line_barycenter(b([[0.5, 0.5], [0.5, 0.6]])), "row 1 has .* sum 1.1"),
        (lambda b: line_barycenter(b([[1.5, -0.5]])), "row 0 has minimum -0.5"),
        (lambda b: line_barycenter(b(np.empty((0, 3)))), "rows"),
        (lambda b: line_barycenter(b([[1.0, 0.0]]), [1.0, 2.0]), r"shape \(1,\)"),
        (lambda b: line_barycenter(b([[1.0, 0.0]]), [-1.0]), "non-negative"),
        (lambda b: line_distances(b([[1.0, 0.0]]), b([1.0, 0.0, 0.0])), "2 bins, their target 3"),
        (lambda b: line_distances(b([[1.0, 0.0]]), b([[1.0, 0.0]])), "one histogram"),
        (lambda b: line_pairwise(b([[1.0, 0.0]]), b([[1.0]])), "2 bins, their target 1"),
    ],
)
def test_line_functions_say_what_is_wrong(call, message, backend):
    with pytest.raises(DataError, match=message):
        call(lambda values: backend(np.asarray(values)))


@pytest.mark.endure
def test_import_of_transport_leaves_torch_and_pot_alone():
    code = "import sys, hgkt.transport; sys.exit('torch' in sys.modules or 'ot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
