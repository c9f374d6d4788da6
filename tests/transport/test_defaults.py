"""Units, weights, types and devices: what has no effect, and what happens unless told."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from hgkt.exceptions import DataError
from hgkt.transport import (
    entropic_barycenter,
    entropic_distances,
    ground_cost,
    line_barycenter,
    line_distances,
    line_pairwise,
    select_representatives,
    to_simplex,
)


@pytest.mark.parametrize("unit", [0.01, 1.0, 30.0])
def test_the_unit_of_a_normalised_cost_does_not_matter(unit: float) -> None:
    rows = np.random.default_rng(3).dirichlet(np.ones(4), size=2)
    cost = ground_cost(4, "absolute")
    expected = entropic_barycenter(rows, cost, 0.5)
    np.testing.assert_allclose(entropic_barycenter(rows, unit * cost, 0.5), expected, atol=1e-9)
    far = entropic_distances(rows, rows[0], cost, 0.5)
    np.testing.assert_allclose(entropic_distances(rows, rows[0], unit * cost, 0.5), unit * far)
    nothing = entropic_distances(rows, rows[0], 0.0 * cost, 0.5)
    np.testing.assert_array_equal(nothing, [0.0, 0.0])


def test_no_rows_make_no_histograms() -> None:
    assert to_simplex(np.ones((0, 3))).shape == (0, 3)


@pytest.mark.endure
def test_the_line_needs_no_torch() -> None:
    code = (
        "import sys, numpy as np; from hgkt.transport import line_barycenter, line_pairwise; "
        "line_barycenter(np.eye(3)); print(line_pairwise(np.eye(3), device='cpu').tolist()); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.strip() == str(line_pairwise(np.eye(3), device="cpu").tolist())


def test_a_weight_counts_as_so_many_instances() -> None:
    rows = np.random.default_rng(4).dirichlet(np.ones(8), size=2)
    weighted = entropic_barycenter(rows, "squared", 0.1, weights=[1.0, 3.0])
    repeated = entropic_barycenter(rows[[0, 1, 1, 1]], "squared", 0.1)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("method", ["euclidean", "medoid"])
@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_the_unit_of_features_does_not_change_the_representative(method: str, unit: float) -> None:
    rows = np.random.default_rng(5).random((30, 4))
    codes = np.arange(30) % 2
    found = select_representatives(unit * rows, codes, 2, method)
    for code, row in enumerate(found.indices):
        own = rows[codes == code]
        centre = own.mean(axis=0)
        distances = (
            np.linalg.norm(own - centre, axis=1)
            if method == "euclidean"
            else np.linalg.norm(own[:, None] - own[None], axis=2).mean(axis=1)
        )
        assert row == np.flatnonzero(codes == code)[distances.argmin()]
        assert found.distances[code] == pytest.approx(unit * distances.min())


def test_mass_may_miss_one_by_a_millionth() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = np.array([[0.5, 0.5 + 9e-7]])
        assert line_distances(near, [0.5, 0.5])[0] == pytest.approx(0.0, abs=1e-6)
        assert line_distances(torch.tensor(near), torch.tensor([0.5, 0.5]))[0] < 1e-6
    with pytest.raises(DataError, match="sum to one"):
        line_distances([[0.5, 0.5 + 1.1e-6]], [0.5, 0.5])


def test_equal_weights_are_the_default() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(6), size=4)
    for histograms in (rows, torch.tensor(rows)):
        for given, default in [
            (line_barycenter(histograms, weights=[3.0] * 4), line_barycenter(histograms)),
            (line_pairwise(histograms, histograms), line_pairwise(histograms)),
        ]:
            np.testing.assert_allclose(np.asarray(given), np.asarray(default), atol=1e-15)


def test_device_cpu_is_numpy_and_a_tensor_stays_one() -> None:
    rows = np.random.default_rng(2).dirichlet(np.ones(5), size=3)
    assert isinstance(line_barycenter(rows, device="cpu"), np.ndarray)
    assert isinstance(line_pairwise(rows, device="cpu"), np.ndarray)
    tensor = torch.tensor(rows, dtype=torch.float32)
    for found in (
        line_barycenter(tensor),
        line_distances(tensor, tensor[0]),
        line_pairwise(tensor, tensor),
    ):
        assert isinstance(found, torch.Tensor)
        assert found.dtype == torch.float64


@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid"])
def test_representative_of_instances_that_are_all_the_same_is_the_first(method: str) -> None:
    rows = np.tile([0.25, 0.5, 0.25], (5, 1))
    found = select_representatives(rows, [1, 0, 0, 1, 1], 2, method)
    assert found.indices.tolist() == [1, 0]
    assert found.indices.dtype == np.intp
    assert found.distances.tolist() == [0.0, 0.0]
    assert found.method == method
