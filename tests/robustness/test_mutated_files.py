"""Damaged files of every kind, a few of each; `make mutated` reads ten thousand."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.endure


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_damaged_files_of_every_kind_are_read_well():
    import mutated_files as mutated

    n_kinds = len(mutated.KINDS)
    found = mutated.run(n_files=8 * n_kinds, seed=2026, jobs=1)
    assert found["failures"] == []
    assert all(row["files"] == 8 for row in found["rows"])
    renewed = [row for row in found["rows"] if "renewed" in row["kind"]]
    assert [row["one sentence"] for row in renewed] == [8, 8]
    assert sum(row["one sentence"] for row in found["rows"]) > 4 * n_kinds
