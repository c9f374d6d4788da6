"""The embedded digits and the hold-out split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits as sklearn_digits
from sklearn.linear_model import Ridge

from hgkt.data import load_dataset, load_digits
from hgkt.data.dataset import hold_out
from hgkt.data.digits import DIGITS
from hgkt.exceptions import DataError


def test_digits_are_those_of_scikit_learn() -> None:
    data = load_digits().validate()
    bunch = sklearn_digits()
    assert np.array_equal(data.features, bunch.data)
    assert [DIGITS[code] for code in bunch.target] == data.names(data.labels)
    assert data.features.min() >= 0
    assert ((data.class_attributes >= 0) & (data.class_attributes <= 1)).all()


def test_digits_segments_and_complements_add_up() -> None:
    data = load_digits()
    assert (data.class_attributes[:, :7] + data.class_attributes[:, 7:14] == 1).all()
    n_lit = data.class_attributes[:, :7].sum(axis=1)
    assert n_lit.tolist() == [6, 2, 5, 5, 4, 5, 6, 3, 7, 6]  # of a common calculator display
    assert data.attribute_names is not None
    assert len(data.attribute_names) == data.class_attributes.shape[1]


@pytest.mark.parametrize("unseen", [("zero", "one"), ("nine",), ("six", "two", "four")])
def test_digits_take_any_unseen_classes(unseen: tuple[str, ...]) -> None:
    data = load_dataset("digits", unseen=unseen)
    assert set(data.names(data.unseen_classes)) == set(unseen)
    n_rows = sum(len(data.rows(split)[1]) for split in ("train", "test_seen", "test_unseen"))
    assert n_rows == 1797


def test_digits_hold_out_a_fifth_of_each_seen_class_deterministically() -> None:
    data = load_digits()
    for code in data.seen_classes:
        n_test = (data.labels[data.test_seen] == code).sum()
        assert n_test == round(0.2 * (data.labels == code).sum())
    assert load_digits().fingerprint() == data.fingerprint()
    assert load_digits(seed=1).fingerprint()["split"] != data.fingerprint()["split"]


@pytest.mark.parametrize("unseen", [("eleven",), (), DIGITS])
def test_digits_refuse_unusable_unseen(unseen: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="unseen"):
        load_digits(unseen=unseen)


def test_digits_attributes_carry_to_unseen_digits() -> None:
    """Ridge regression from attributes to class means beats chance on two unseen digits."""
    data = load_digits()
    X, y = data.rows("train")
    seen, unseen = data.names(data.seen_classes), data.names(data.unseen_classes)
    means = np.array([X[y == name].mean(axis=0) for name in seen])
    model = Ridge().fit(data.class_attributes[data.seen_classes], means)
    guesses = model.predict(data.class_attributes[data.unseen_classes])
    X_new, y_new = data.rows("test_unseen")
    nearest = ((X_new[:, None] - guesses) ** 2).sum(axis=2).argmin(axis=1)
    assert (np.array(unseen)[nearest] == y_new).mean() > 0.9


@given(
    st.lists(st.integers(2, 30), min_size=1, max_size=6), st.floats(0.01, 0.9), st.integers(0, 99)
)
def test_hold_out_is_a_partition_with_every_class_on_both_sides(
    sizes: list[int], fraction: float, seed: int
) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(len(labels))
    kept, held_out = hold_out(rows, labels, fraction, seed)
    assert np.array_equal(np.sort(np.concatenate([kept, held_out])), rows)
    assert set(labels[kept]) == set(labels[held_out]) == set(labels)


def test_hold_out_keeps_the_only_row_of_a_class() -> None:
    kept, held_out = hold_out(np.arange(3), np.array([0, 0, 1]), 0.2, 0)
    assert 2 in kept
    assert len(held_out) == 1
