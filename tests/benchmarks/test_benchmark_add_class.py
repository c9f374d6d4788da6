"""The benchmark of adding a class."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.benchmarks import add_class
from hgkt.benchmarks.add_class import QUICK, TRANSFERS, fitted_model, widen_seen


def test_add_class_reports_every_size():
    result = add_class.run(quick=True)
    by_classes = result["by_classes"]
    assert len(by_classes) == 2 * len(TRANSFERS) * len(QUICK.n_classes)
    for record in by_classes:
        assert record["n_seen"] + record["n_added"] in QUICK.n_classes
        assert 0 < record["median_ms"] <= record["p95_ms"]
    # Existing classes as added ones and as seen ones.
    assert {record["n_added"] > 0 for record in by_classes} == {True, False}
    assert {record["n_instances"] for record in result["by_instances"]} == set(QUICK.n_instances)
    assert result["worst_median_ms"] >= max(record["median_ms"] for record in by_classes)


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_widen_seen_makes_an_add_read_all_seen_classes(transfer):
    model = widen_seen(fitted_model(QUICK, transfer, 10, 100), 77)
    assert len(model.seen_classes_) == 77
    own = model.class_attributes_[76]
    model.add_classes({"new": own})
    sources = model.explain_class("new").sources if transfer == "network" else None
    if sources is not None:
        assert model.seen_classes_[76] in [source.label for source in sources]
    else:
        # A kernel row over all 77 classes, nearest to the class whose attributes it shares.
        row = model._transfer.kernel(own[None, :] ** 2)
        assert row.shape == (1, 77)
        assert row.argmax() == 76
    assert np.isfinite(model.class_embeddings_).all()
