"""What every benchmark says of the run, and the one whose claims other tests do not measure."""

from __future__ import annotations

import time

import numpy as np
import pytest

import _timing
import representatives
from hgkt._plain import plain
from hgkt.estimators import HGKTClassifier


def test_document_tells_machine_versions_and_mathematics(monkeypatch):
    monkeypatch.setattr(HGKTClassifier, "mathematics_version", 7, raising=False)
    size = _timing.Size("s", 1, 2, 3, 4)
    found = _timing.document("x", True, {"sizes": size}, ["n"], ["POT"], [HGKTClassifier])
    assert found == plain(found)  # JSON can say it
    assert found["sizes"]["n_features"] == 2
    environment = found["environment"]
    assert environment["mathematics"] == {"hgkt": "7"}
    assert environment["n_cpus"] >= 1
    assert environment["numpy"] == np.__version__
    assert environment["POT"].startswith("0.")


def test_timed_tells_waiting_from_computing():
    result, took = _timing.timed(lambda: time.sleep(0.05) or "done")
    assert result == "done"
    assert took.wall >= 0.05
    assert took.cpu < took.wall


@pytest.mark.endure
def test_representatives_are_exact_and_beat_pot():
    result = representatives.run(quick=True)
    assert all(run["excess"] >= -1e-12 for run in result["pot"])
    assert [run["solver"] for run in result["pot"]] == ["sinkhorn", "sinkhorn_log"]
    for run in result["pot"]:
        assert run["reached"] == (run["bins"] <= 0.5)
        assert run["excess"] == pytest.approx(run["objective"] / run["objective_exact"] - 1)
        factor = result["sizes"]["n_instances"] / run["n_instances"]
        assert run["cpu_seconds_extrapolated"] == pytest.approx(run["cpu_seconds"] * factor)
