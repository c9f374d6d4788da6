"""The benchmark runs, and what it says holds together."""

from __future__ import annotations

import json

import numpy as np
import pytest

import representatives


@pytest.fixture(scope="module")
def result():
    return representatives.run(quick=True)


@pytest.mark.endure
def test_run_returns_plain_data(result):
    assert json.loads(json.dumps(result)) == result
    assert result["quick"] is True
    assert result["seconds"] > 0
    assert result["peak_over_input"] >= 1
    assert result["sort_cpu_seconds"] > 0


@pytest.mark.endure
def test_run_never_finds_pot_below_the_exact_objective(result):
    for pot in result["pot"]:
        assert pot["objective"] >= pot["objective_exact"] * (1 - 1e-9)
        assert pot["reached"] == (pot["bins"] <= 0.5)
        expected = pot["cpu_seconds"] * result["sizes"]["n_instances"] / pot["n_instances"]
        assert pot["cpu_seconds_extrapolated"] == pytest.approx(expected)


def test_resnet_like_is_nonnegative_sparse_and_the_same_in_parts():
    sizes = representatives.QUICK
    features = representatives.resnet_like(sizes)
    assert features.dtype == np.float32
    assert features.min() == 0
    assert 0.3 < (features == 0).mean() < 0.5
    again = representatives.resnet_like(sizes)
    np.testing.assert_array_equal(features, again)
