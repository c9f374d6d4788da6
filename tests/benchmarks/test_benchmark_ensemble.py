"""The nested study of what the parts of the ensemble are worth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ensemble
from hgkt.closed_form.ensemble import Member, MemberPool
from hgkt.closed_form.member import Ensemble
from hgkt.data import make_synthetic

POOL = MemberPool.of(Ensemble())


def small(pool: MemberPool) -> MemberPool:
    """Return a pool of few members."""
    kernels = tuple(k for k in pool.kernels if (k.kernel, k.kernel_scale) == ("rbf", 0.5))
    return replace(pool, metrics=pool.metrics[:4], kernels=kernels, ridges=(0.01, 0.1))


def test_rows_are_drawn_by_class():
    y = np.repeat(["a", "b"], [5, 2])
    rows = ensemble.drawn(y, 3)
    assert y[rows].tolist() == ["a", "a", "a", "b", "b"]
    assert np.array_equal(np.sort(rows), rows)


def test_lesser_pools_lack_what_they_are_called_after():
    member = Member()
    whole = POOL.variants(member, learnable=True)
    assert {other.relevance for other in whole} == {other.observed for other in whole}
    for name, part in (("without relevance", "relevance"), ("without observed means", "observed")):
        left = ensemble.VARIANTS[name](POOL).variants(member, learnable=True)
        assert left == [other for other in whole if not getattr(other, part)]


@pytest.mark.endure  # it takes long
def test_every_variant_is_scored_on_classes_that_no_choice_has_seen(monkeypatch):
    data = make_synthetic(n_instances=900, n_seen=30, n_unseen=5, noise=0.8, seed=3)
    monkeypatch.setattr(ensemble, "load_dataset", lambda *_, **__: data)
    changed = {
        name: lambda pool, change=change: change(small(pool))
        for name, change in ensemble.VARIANTS.items()
    }
    monkeypatch.setattr(ensemble, "VARIANTS", changed)
    rows = {row["variant"]: row for row in ensemble.results("CUB:sent", "nowhere")}
    assert list(rows) == list(changed)
    assert {row["data"] for row in rows.values()} == {"CUB:sent"}
    assert rows["one member"]["members"] == 1
    assert all(1 <= row["members"] <= 8 for row in rows.values())
    chance = 100 / 30
    assert all(row["AUSUC"] > 2 * chance and row["H"] > 2 * chance for row in rows.values())
