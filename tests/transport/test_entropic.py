"""Entropic transport through POT against linear programs and the exact line solver."""

from __future__ import annotations

import warnings

import numpy as np
import ot
import pytest

from hgkt.exceptions import DataError
from hgkt.transport import (
    emd_distances,
    entropic_barycenter,
    entropic_distances,
    ground_cost,
    line_barycenter,
    line_distances,
    to_simplex,
)


def smooth_histograms(rng, n_rows, n_bins):
    centers, bins = rng.uniform(2, n_bins - 3, size=(n_rows, 1)), np.arange(n_bins)
    return to_simplex(np.exp(-((bins - centers) ** 2) / 6) + 1e-3 * rng.random((n_rows, n_bins)))


@pytest.mark.parametrize("kind", ["squared", "absolute", "zero-one"])
def test_ground_cost_matches_its_formula(kind):
    formula = {
        "squared": lambda i, j: (i - j) ** 2,
        "absolute": lambda i, j: abs(i - j),
        "zero-one": lambda i, j: float(i != j),
    }[kind]
    expected = [[formula(i, j) for j in range(6)] for i in range(6)]
    np.testing.assert_array_equal(ground_cost(6, kind), expected)


def test_ground_cost_correlation_equals_numpy():
    features = np.random.default_rng(0).random((40, 5))
    np.testing.assert_allclose(
        ground_cost(5, "correlation", features), 1 - np.corrcoef(features.T), atol=1e-12
    )
    features[:, 2] = 3.0
    cost = ground_cost(5, "correlation", features)
    np.testing.assert_array_equal(cost[2, [0, 1, 3, 4]], 1.0)
    assert cost[2, 2] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, "cosine"), "'squared', 'absolute', 'zero-one', 'correlation' or a matrix"),
        ((3, np.eye(2)), r"shape \(3, 3\)"),
        ((2, -np.eye(2)), "minimum -1"),
        ((3, "correlation"), "needs features"),
        ((3, "correlation", np.eye(2)), "2 columns; 3 bins"),
        ((0,), "n_bins"),
    ],
)
def test_ground_cost_says_what_is_wrong(arguments, message):
    with pytest.raises(DataError, match=message):
        ground_cost(*arguments)


@pytest.mark.parametrize("weights", [None, [0.3, 0.7], [0.9, 0.1]])
def test_entropic_barycenter_nears_the_linear_program_with_any_weights(weights):
    histograms = smooth_histograms(np.random.default_rng(4), 2, 15)
    lam = np.full(2, 0.5) if weights is None else np.asarray(weights)
    cost = ground_cost(15)
    program = ot.lp.barycenter(histograms.T, cost, weights=lam, solver="highs")
    program = np.maximum(program, 0) / program.sum()
    ours = entropic_barycenter(histograms, "squared", 1e-3, weights, max_iter=5000)
    assert ours.sum() == pytest.approx(1.0)

    def objective(a):
        return sum(w * ot.emd2(a, row, cost) for w, row in zip(lam, histograms, strict=True))

    # Entropic blur leaves some excess; a solver that mistook the weights would be at twice the
    # optimum: the barycenter with swapped weights is the control.
    assert objective(ours) <= 1.05 * objective(program)
    if weights is not None:
        swapped = entropic_barycenter(histograms, "squared", 1e-3, lam[::-1], max_iter=5000)
        assert objective(swapped) > 1.5 * objective(program)


def test_entropic_barycenter_falls_towards_the_exact_one_with_reg():
    histograms = smooth_histograms(np.random.default_rng(5), 4, 30)
    best = line_distances(histograms, line_barycenter(histograms)).mean()
    excess = [
        line_distances(histograms, entropic_barycenter(histograms, "squared", reg)).mean() / best
        for reg in (1e-1, 1e-2, 1e-3)
    ]
    assert excess[0] > excess[1] > excess[2] >= 1
    assert excess[2] < 1.05


def test_entropic_barycenter_refuses_the_void_kernel():
    histograms = smooth_histograms(np.random.default_rng(6), 3, 20)
    with pytest.raises(DataError, match=r"reg=1e-05 is void.*geometric mean.*normalize_cost=True"):
        entropic_barycenter(histograms, "squared", 1e-5, normalize_cost=False)
    with pytest.raises(DataError, match="void"):
        entropic_distances(histograms, histograms[0], "squared", 1e-5, normalize_cost=False)
    scaled = entropic_barycenter(histograms, "squared", 1e-2)
    raw = entropic_barycenter(histograms, "squared", 1e-2 * 19**2, normalize_cost=False)
    np.testing.assert_allclose(scaled, raw, rtol=1e-8)


def test_entropic_functions_warn_when_iterations_do_not_suffice():
    histograms = smooth_histograms(np.random.default_rng(7), 3, 20)
    with pytest.warns(UserWarning, match="did not converge in 3 iterations .* raise max_iter or"):
        entropic_barycenter(histograms, "squared", 1e-3, max_iter=3)
    with pytest.warns(UserWarning, match="distances did not converge"):
        entropic_distances(histograms, histograms[0], "squared", 1e-3, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entropic_barycenter(histograms, "squared", 1e-1)


@pytest.mark.parametrize("kind", ["squared", "absolute", "zero-one"])
def test_entropic_distances_near_the_exact_ones(kind):
    rng = np.random.default_rng(8)
    histograms, target = smooth_histograms(rng, 5, 12), smooth_histograms(rng, 1, 12)[0]
    exact = emd_distances(histograms, target, kind)
    found = entropic_distances(histograms, target, kind, 5e-3, max_iter=5000)
    assert (found >= exact - 1e-5).all()
    np.testing.assert_allclose(found, exact, rtol=0.2, atol=0.02)


@pytest.mark.parametrize("weights", [None, [0.1, 0.2, 0.3, 0.15, 0.25]])
def test_on_a_torch_device_the_iteration_is_that_of_pot(weights):
    torch_solver = pytest.importorskip("hgkt.transport._entropic_torch")
    rng = np.random.default_rng(10)
    rows, cost = smooth_histograms(rng, 5, 30), ground_cost(30, "squared")
    scaled, options = cost / cost.max(), {"max_iter": 200, "tol": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        center = entropic_barycenter(rows, cost, 1e-3, weights, **options)
        apart = entropic_distances(rows, center, cost, 1e-3, **options)
    shares = None if weights is None else np.array(weights)
    found, error = torch_solver.barycenter(rows, scaled, 1e-3, shares, **options, device="cpu")
    np.testing.assert_allclose(found / found.sum(), center, atol=1e-12)
    assert error > 0
    away, error = torch_solver.distances(rows, center, scaled, 1e-3, **options, device="cpu")
    np.testing.assert_allclose(away * cost.max(), apart, rtol=1e-3)
    assert 0 < error < 0.1


@pytest.mark.parametrize(("kind", "p"), [("squared", 2), ("absolute", 1)])
def test_emd_distances_equal_the_line_solver(kind, p):
    rng = np.random.default_rng(9)
    histograms, target = smooth_histograms(rng, 5, 40), smooth_histograms(rng, 1, 40)[0]
    np.testing.assert_allclose(
        emd_distances(histograms, target, kind), line_distances(histograms, target, p), rtol=1e-10
    )


def test_emd_distances_under_zero_one_cost_are_total_variation():
    rng = np.random.default_rng(10)
    histograms, target = smooth_histograms(rng, 4, 9), smooth_histograms(rng, 1, 9)[0]
    np.testing.assert_allclose(
        emd_distances(histograms, target, "zero-one"),
        np.abs(histograms - target).sum(axis=1) / 2,
        atol=1e-12,
    )
    with pytest.raises(DataError, match="one histogram of 9 bins"):
        emd_distances(histograms, [1.0, 0.0])
