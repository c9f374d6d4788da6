"""The benchmark of the closed-form fit."""

from __future__ import annotations

import pytest

import _timing
import fit


def test_fit_compares_with_named_peers_on_the_same_data():
    result = fit.run(quick=True)
    methods = [record["method"] for record in result["fits"]]
    assert methods == [
        "hgkt, closed form",
        "scikit-learn LDA, lsqr",
        "scikit-learn LDA, eigen",
        "hgkt, network, 500 steps",
    ]
    ours, *peers, network = result["fits"]
    for record in (ours, *peers):
        assert record["accuracy"] > 95
        assert record["seconds"] > 0
        assert not record["extrapolated"]
    assert network["extrapolated"]
    assert network["accuracy"] is None
    assert any("extrapolated to 500 steps" in note for note in result["notes"])
    stages = {row["stage"]: row for row in result["stages"]}
    assert list(stages) == [*fit.STAGES, "the rest"]
    assert min(row["seconds"] for row in stages.values()) > 0
    assert sum(row["share"] for row in stages.values()) == pytest.approx(1.0)


def test_make_problem_has_the_sizes_asked_for():
    problem = _timing.make_problem(fit.QUICK[0], n_test=30)
    assert problem.X.shape == (300, 16)
    assert len(problem.X_test) == 30
    assert (problem.X >= 0).all()
    assert len(problem.class_attributes) == 6
