"""The benchmark of the service."""

from __future__ import annotations

import json

import numpy as np
import pytest

import serve


@pytest.mark.slow
def test_serve_measures_every_form_beside_direct_calls():
    result = serve.run(quick=True)
    loads = result["loads"]
    assert [(load["form"], load["rows"], load["clients"]) for load in loads] == [
        (form, 16 if batched else 1, n_clients)
        for form, batched in serve.FORMS
        for n_clients in (1, 2)
    ]
    for load in loads:
        assert load["n_failures"] == 0
        assert load["rows_per_s"] == pytest.approx(load["requests_per_s"] * load["rows"])
        assert load["ratio"] == pytest.approx(load["rows_per_s"] / load["direct_rows_per_s"])
        assert 0 < load["p50_ms"] <= load["p99_ms"]
        assert 0 < load["health_p99_ms"] <= load["health_max_ms"]
        assert load["direct_cpu_ms"] > 0
        assert load["server_cpu_ms"] is None or load["server_cpu_ms"] >= 0
    assert sum(load["n_changes"] for load in loads) > 0


def test_encode_keeps_the_numbers_of_a_batch():
    rows = serve.batches(3, 4)[1]
    assert rows.min() >= 0
    octets = np.frombuffer(serve.encode(rows, "octets"), "<f4").reshape(3, 4)
    np.testing.assert_array_equal(octets, rows)
    np.testing.assert_allclose(json.loads(serve.encode(rows, "json"))["features"], rows)
