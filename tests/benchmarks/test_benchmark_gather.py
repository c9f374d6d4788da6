"""The benchmark of gathering."""

from __future__ import annotations

import pytest

import gather


@pytest.mark.endure
def test_gather_compares_with_reading_and_the_product_and_streams():
    result = gather.run(quick=True)
    rates = {rate["what"]: rate["rows_per_core_s"] for rate in result["rates"]}
    assert list(rates) == ["reading", "product", "gathering", "gathering with folds"]
    bound = min(rates["reading"], rates["product"])
    assert result["share_of_bound"] == pytest.approx(rates["gathering"] / bound)
    streamed = result["streamed"]
    points = streamed["points"]
    assert streamed["n_rows"] == gather.QUICK.n_files * gather.QUICK.n_file_rows
    assert [point["n_rows"] for point in points] == [1024, 2048, 3072, 4096, 4096]
    assert streamed["grew_last_at"] in (1024, 2048, 3072, 4096)
    assert 0 < points[0]["peak_mb"] <= streamed["peak_mb"] < gather.MOST_MB
    # One triangle of 64 × 64 and ten class sums, in float64.
    assert result["partial"]["mb"] * 1e6 > 8 * (64 * 65 / 2 + 10 * 64)
