from __future__ import annotations

import numpy as np
import pytest

from hgkt._arrays import map_rows
from hgkt.exceptions import DataError
from hgkt.statistics import ExampleSums

MAPS = ("sqrt+l2", "l2", 0.25, "none")


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(9, 6))


def second_moment(sums, kind):
    factor = sums.sums_under(kind).factor
    return factor.T @ factor


def same(one, two):
    assert one.n_examples == two.n_examples
    assert list(one.maps) == list(two.maps)
    for kind in one.maps:
        np.testing.assert_allclose(
            one.sums_under(kind).total, two.sums_under(kind).total, atol=1e-14
        )
        np.testing.assert_allclose(
            second_moment(one, kind), second_moment(two, kind), atol=1e-13, rtol=1e-13
        )


@pytest.mark.parametrize("n", [1, 4, 9])
def test_sums_are_those_of_the_mapped_rows(rows, n):
    sums = ExampleSums.of(rows[:n], MAPS)
    assert (sums.n_examples, sums.n_features) == (n, 6)
    for kind in MAPS:
        mapped = map_rows(rows[:n], kind)
        np.testing.assert_allclose(sums.sums_under(kind).total, mapped.sum(axis=0), atol=1e-14)
        np.testing.assert_allclose(second_moment(sums, kind), mapped.T @ mapped, atol=1e-13)
        assert sums.sums_under(kind).factor.shape == (min(n, 6), 6)  # never more than features


def test_batches_merge_in_any_order(rows):
    whole = ExampleSums.of(rows, MAPS)
    parts = [ExampleSums.of(rows[part], MAPS) for part in ([0, 1], [2], [3, 4, 5, 6, 7, 8])]
    assert sum(part.n_examples for part in parts) == whole.n_examples
    same(parts[0].merge(parts[1]).merge(parts[2]), whole)
    same(parts[2].merge(parts[0].merge(parts[1])), whole)


def test_merging_keeps_the_maps_that_both_have(rows):
    merged = ExampleSums.of(rows, ["l2", 0.25]).merge(ExampleSums.of(rows, [0.25, "none"]))
    assert list(merged.maps) == [0.25]
    with pytest.raises(DataError, match="none in common"):
        ExampleSums.of(rows, ["l2"]).merge(ExampleSums.of(rows, ["none"]))
    with pytest.raises(DataError, match="examples of 5 features cannot be added to examples of 6"):
        ExampleSums.of(rows, ["l2"]).merge(ExampleSums.of(rows[:, :5], ["l2"]))


def test_a_power_and_its_name_are_one_map(rows):
    sums = ExampleSums.of(rows, [0.5, "sqrt+l2", 1.0])
    assert list(sums.maps) == ["sqrt+l2", "l2"]
    assert sums.sums_under(0.5) is sums.sums_under("sqrt+l2")
    with pytest.raises(DataError, match=r"under the feature maps 'sqrt\+l2', 'l2', not under 0\.3"):
        sums.sums_under(0.3)


def test_bytes_bring_back_the_very_numbers(rows):
    sums = ExampleSums.of(rows[:4], MAPS)
    again = ExampleSums.from_bytes(sums.to_bytes())
    assert again.n_examples == 4
    assert set(again.maps) == set(sums.maps)
    for kind in MAPS:
        assert np.array_equal(again.sums_under(kind).total, sums.sums_under(kind).total)
        assert np.array_equal(again.sums_under(kind).factor, sums.sums_under(kind).factor)


def damaged(sums, **arrays):
    from safetensors.numpy import load, save

    return save({**load(sums.to_bytes()), **arrays})


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"n_examples": np.array([3])}, "have the shapes"),
        ({"n_examples": np.array([0])}, "n_examples is no positive whole number"),
        ({"version": np.array([9])}, "another version"),
        ({"total/l2": np.full(6, np.nan)}, "NaN"),
        ({"total/l2": np.zeros(5)}, "have the shapes"),
        ({"total/l2": np.zeros(6, dtype=np.float32)}, "not float64"),
        ({"total/7.5": np.zeros(6), "factor/7.5": np.zeros((4, 6))}, "feature_map"),
        ({"total/strange": np.zeros(6), "factor/strange": np.zeros((4, 6))}, "strange"),
        ({"more": np.zeros(1)}, "not complete"),
    ],
)
def test_damaged_bytes_are_refused_with_a_sentence(rows, arrays, words):
    data = damaged(ExampleSums.of(rows[:4], ["l2"]), **arrays)
    with pytest.raises(DataError, match=f"^stored example sums are damaged: .*{words}"):
        ExampleSums.from_bytes(data)


def test_cut_bytes_are_refused(rows):
    data = ExampleSums.of(rows, ["l2"]).to_bytes()
    for cut in (b"", data[:5], data[:-1], b"pickle" + data):
        with pytest.raises(DataError, match="stored example sums are damaged"):
            ExampleSums.from_bytes(cut)


def test_no_rows_are_refused(rows):
    with pytest.raises(DataError, match=r"rows of features; got an array of shape \(0, 6\)"):
        ExampleSums.of(rows[:0], MAPS)
