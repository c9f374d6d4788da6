"""The benchmark of adding a class."""

from __future__ import annotations

import pytest

import add_class
from add_class import QUICK, TRANSFERS, fitted_model
from hgkt.exceptions import ClassWarning


def test_add_class_reports_every_size():
    result = add_class.run(quick=True)
    by_classes = result["by_classes"]
    n_models = len(QUICK.n_classes) + len(QUICK.n_seen)
    assert len(by_classes) == len(TRANSFERS) * n_models
    for record in by_classes:
        assert record["median_cpu_ms"] > 0
    added = {r["n_seen"] + r["n_added"] for r in by_classes if r["n_added"]}
    seen = {r["n_seen"] for r in by_classes if not r["n_added"]}
    assert (added, seen) == (set(QUICK.n_classes), set(QUICK.n_seen))
    assert result["refit_peer_cpu_ms"] > 0


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_fitted_model_has_as_many_seen_classes_as_asked_for(transfer):
    model = fitted_model(QUICK, transfer, n_attributes=10, n_instances=154, n_seen=77)
    assert len(model.seen_classes_) == 77
    with pytest.warns(ClassWarning, match="'new' is described like class 'class 00076'"):
        model.add_classes({"new": model.class_attributes_[76]})
    assert model.seen_classes_[76] in [s.label for s in model.explain_class("new").sources]
