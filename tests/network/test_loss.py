"""The loss from class means equals the loss over instances."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt._arrays import batches
from hgkt.exceptions import DataError
from hgkt.network.loss import SquaredObjective, Targets

COUNTS = [5, 1, 2, 8]
CODES = np.random.default_rng(0).permutation(np.repeat(np.arange(4), COUNTS))
X = np.random.default_rng(1).normal(size=(16, 3)) + CODES[:, None]
REPRESENTATIVES = np.array([np.flatnonzero(c == CODES)[-1] for c in range(4)])


def brute_force(z_ordinary: np.ndarray, z: np.ndarray, nodes: str, weight: str) -> float:
    total, weights = 0.0, 0.0
    for i, (x, c) in enumerate(zip(X, CODES, strict=True)):
        is_representative = REPRESENTATIVES[c] == i
        if nodes == "representative" and not is_representative:
            continue
        row = z_ordinary[c] if nodes == "instance" and not is_representative else z[c]
        w = 1.0 if weight == "count" or nodes == "representative" else 1.0 / COUNTS[c]
        total += w * ((row - x) ** 2).sum()
        weights += w
    return total / weights


@pytest.mark.parametrize("nodes", ["class", "instance", "representative"])
@pytest.mark.parametrize("weight", ["count", "uniform"])
def test_objective_equals_the_loss_over_instances(nodes: str, weight: str) -> None:
    targets = Targets.from_features(X, CODES, 4, REPRESENTATIVES)
    objective = SquaredObjective.build(targets, nodes, weight)
    z_ordinary, z = np.random.default_rng(2).normal(size=(2, 4, 3))
    rows = np.concatenate([z_ordinary, z]) if objective.needs_ordinary else z
    expected = brute_force(z_ordinary, z, nodes, weight)
    assert objective.numpy_loss(rows) == pytest.approx(expected, rel=1e-12)
    assert objective.needs_ordinary == (nodes == "instance")


def test_objective_without_scatter_differs_by_a_constant() -> None:
    full = Targets.from_features(X, CODES, 4)
    bare = Targets(full.counts, full.means)
    z = np.random.default_rng(3).normal(size=(2, 4, 3))
    gaps = [
        SquaredObjective.build(full).numpy_loss(rows)
        - SquaredObjective.build(bare).numpy_loss(rows)
        for rows in z
    ]
    assert gaps[0] == pytest.approx(gaps[1], rel=1e-12)
    assert gaps[0] > 0


def test_targets_reduce_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Targets.from_features(X, CODES, 4)
    monkeypatch.setattr("hgkt.network.loss.batches", lambda n_rows: batches(n_rows, 3))
    assert whole.scatter is not None
    np.testing.assert_allclose(Targets.from_features(X, CODES, 4).scatter, whole.scatter)
    np.testing.assert_allclose(whole.scatter[3], (X[CODES == 3].var(axis=0) * 8).sum())


def test_targets_refuse_with_a_sentence() -> None:
    with pytest.raises(DataError, match="class 1 has no instance"):
        Targets([2, 0], np.ones((2, 3)))
    with pytest.raises(DataError, match=r"one row a class; got \[1, 2\] rows"):
        Targets([2, 1], np.ones((1, 3)))
    with pytest.raises(DataError, match="loss_nodes='instance' needs the features"):
        SquaredObjective.build(Targets([2], np.ones((1, 3))), "instance")
    with pytest.raises(DataError, match="weighting must be one of"):
        SquaredObjective.build(Targets([2], np.ones((1, 3))), weighting="max")
