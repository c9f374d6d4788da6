"""Entropic transport against POT, linear programs and the exact line solver."""

from __future__ import annotations

import warnings

import numpy as np
import ot
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.transport import (
    entropic,
    entropic_barycenter,
    entropic_distances,
    ground_cost,
    line_barycenter,
    line_distances,
    to_simplex,
)


def emd_distances(histograms, target, kind):
    """Exact distances by POT's network simplex."""
    cost = ground_cost(histograms.shape[1], kind)
    return np.array([ot.emd2(row / row.sum(), target / target.sum(), cost) for row in histograms])


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, "cosine"), "'squared', 'absolute', 'zero-one' or a matrix"),
        ((3, np.eye(2)), r"shape \(3, 3\)"),
        ((2, -np.eye(2)), "minimum -1"),
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


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("weights", [None, [0.1, 0.2, 0.3, 0.15, 0.25]])
@pytest.mark.parametrize(("reg", "max_iter"), [(1e-3, 200), (1e-1, 1000)])
@pytest.mark.parametrize("span", [600.0, 0.0])  # by a product, and by the largest term of each sum
def test_the_iterations_are_those_of_pot(backend, weights, reg, max_iter, span, monkeypatch):
    monkeypatch.setattr(entropic, "_SPAN", span)
    if backend == "torch":
        monkeypatch.setattr(entropic, "on_device", lambda array, device: torch.as_tensor(array))
    rng = np.random.default_rng(10)
    rows, cost = smooth_histograms(rng, 5, 30), ground_cost(30, "squared")
    scaled = cost / cost.max()
    limits = {"numItermax": max_iter, "stopThr": 1e-6, "warn": False}
    floored = to_simplex(rows + 1e-12)
    center = ot.bregman.barycenter(
        floored.T, scaled, reg, weights=None if weights is None else np.array(weights),
        method="sinkhorn_log", **limits
    )  # fmt: skip
    center /= center.sum()
    goal = to_simplex([center + 1e-12])[0]
    plans = (ot.bregman.sinkhorn_log(row, goal, scaled, reg, **limits) for row in floored)
    apart = [np.vdot(plan, cost) for plan in plans]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = entropic_barycenter(rows, cost, reg, weights, max_iter=max_iter)
        away = entropic_distances(rows, center, cost, reg, max_iter=max_iter)
    np.testing.assert_allclose(found, center, atol=1e-12)
    np.testing.assert_allclose(away, apart, rtol=1e-10)


def test_distances_on_a_line_are_those_of_the_network_simplex():
    rng = np.random.default_rng(9)
    histograms, target = smooth_histograms(rng, 5, 40), smooth_histograms(rng, 1, 40)[0]
    np.testing.assert_allclose(
        emd_distances(histograms, target, "squared"), line_distances(histograms, target), rtol=1e-10
    )
