"""Rows of features as histograms."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hgkt.exceptions import DataError
from hgkt.transport import to_simplex

MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e6, 1e6, width=32),
)


@settings(max_examples=60, deadline=None)
@given(MATRICES)
def test_to_simplex_gives_histograms(features):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = to_simplex(features)
    assert rows.dtype == np.float64
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)


def test_to_simplex_leaves_nonnegative_rows_alone():
    features = np.array([[0.5, 1.5, 2.0], [1.0, 0.0, 3.0]], dtype=np.float32)
    expected = features.astype(np.float64) / features.sum(axis=1, keepdims=True)
    before = features.copy()
    np.testing.assert_array_equal(to_simplex(features), expected)
    np.testing.assert_array_equal(features, before)


def test_to_simplex_treats_negative_rows_as_documented():
    features = np.array([[-1.0, 1.0, 2.0], [1.0, 1.0, 2.0]])
    np.testing.assert_allclose(to_simplex(features), [[0.0, 0.4, 0.6], [0.25, 0.25, 0.5]])


def test_to_simplex_warns_once_for_zero_rows():
    features = np.ones((3000, 4))
    features[[7, 2500]] = 0.0
    with pytest.warns(UserWarning, match="2 rows .* row 7") as record:
        rows = to_simplex(features)
    assert len(record) == 1
    np.testing.assert_array_equal(rows[[7, 2500]], 0.25)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, np.nan]], "NaN in row 0"),
        ([1.0, 2.0], "matrix"),
        ([["a", "b"]], "numbers"),
        (np.empty((2, 0)), "matrix"),
        ([[1e308, 1e308]], "row 0 are too large"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_to_simplex_refuses_what_is_no_feature_matrix(features, message):
    with pytest.raises(DataError, match=message):
        to_simplex(features)
