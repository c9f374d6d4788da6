"""The benchmarks with bounds run, and what they say holds together."""

from __future__ import annotations

import pytest

import network
import predict
import suite


@pytest.mark.endure
def test_predict_compares_with_the_products_and_the_peer():
    found = predict.run(quick=True)
    assert [batch["n_classes"] for batch in found["batches"]] == list(predict.QUICK.n_classes)
    for batch in found["batches"]:
        assert batch["share"] == pytest.approx(
            batch["bound_cpu_seconds"] / max(batch["predict_cpu_seconds"], 1e-9)
        )
    assert 0 < found["row"]["predict_fastest_ms"] <= found["row"]["predict_median_ms"]
    assert found["row"]["n_classes"] == predict.QUICK.n_row_classes


def test_predict_on_a_device_compares_with_the_products_there(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("hgkt.estimators.hgkt.scoring_device", lambda name: "cpu")
    found = predict.run_on("cpu", quick=True)
    assert [batch["n_classes"] for batch in found["batches"]] == [25, 60]
    for batch in found["batches"]:
        assert batch["share"] == pytest.approx(batch["bound_seconds"] / batch["predict_seconds"])
        assert batch["host_rows_per_second"] == pytest.approx(256 / batch["host_seconds"])


def test_the_full_graph_does_the_steps_of_the_quotient():
    pytest.importorskip("torch_geometric")
    found = network.run(quick=True)
    assert found["largest_difference"] < 1e-5
    assert [way["n_steps"] for way in found["ways"][:2]] == [10, 2]
    assert found["ratio_full_graph"] > 0


def test_the_suite_has_the_shapes_of_the_benchmarks():
    # Rows, as Xian et al. (2018) print them: train and validation, test seen, test unseen.
    rows = {s.name: (s.n_train, s.n_test_seen, s.n_test_unseen) for s in suite.FULL}
    totals = {"AWA1": 30_475, "AWA2": 37_322, "CUB": 11_788, "SUN": 14_340, "APY": 15_339}
    assert {name: sum(parts) for name, parts in rows.items()} == totals
    data = suite.make_shape(suite.QUICK[0]).validate()
    assert (len(data.seen_classes), len(data.unseen_classes)) == (12, 4)


def test_the_suite_times_the_protocol_and_the_peers():
    (row,) = suite.run(quick=True, device="cpu")["shapes"]
    assert row["total_seconds"] >= row["select_seconds"] + row["test_seconds"]
    assert min(row["lda_seconds"], row["cn_zsl_seconds"], row["fit_alone_seconds"]) > 0
