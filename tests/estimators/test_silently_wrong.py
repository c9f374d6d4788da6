"""What was taken without a word and gave wrong answers: refused, or made right."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt import HGKTClassifier
from hgkt._arrays import unit_rows
from hgkt.data import GZSLDataset
from hgkt.estimators.methods import METHODS
from hgkt.exceptions import DataError

RNG = np.random.default_rng(0)
X = RNG.random((40, 3)).astype(np.float32)
Y = np.repeat(["cat", "dog"], 20)
TABLE = {"cat": [1.0, 0.0], "dog": [0.0, 1.0]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["hgkt", "ridge"])
def test_rows_too_long_to_be_scaled_are_refused(method: str, dtype: type) -> None:
    model = METHODS.load(method)().fit(X.astype(dtype), Y, TABLE)
    rows = np.full((2, 3), 3e38, dtype=dtype)
    rows[0] = 0.5
    sentence = r"^features have a length over 1e\+18 in row 1; scale them to ordinary numbers$"
    for call in (model.predict, model.score_classes, model.decision_function):
        with pytest.raises(DataError, match=sentence):
            call(rows)
    with pytest.raises(DataError, match=sentence):
        METHODS.load(method)().fit(np.concatenate([rows, X]), ["cat", "dog", *Y], TABLE)
    large = model.score_classes(X.astype(dtype) * dtype(1e15))
    assert np.isfinite(large).all()


def test_tiny_rows_have_the_direction_they_have() -> None:
    model = HGKTClassifier(feature_map="l2").fit(X, Y, TABLE)
    tiny = (X * np.float32(1e-30)).astype(np.float32)
    np.testing.assert_allclose(model.score_classes(tiny), model.score_classes(X), atol=1e-4)
    rows = unit_rows(np.array([[0, 0], [3e-30, 4e-30], [3, 4]], dtype=np.float32))
    np.testing.assert_allclose(rows, [[0, 0], [0.6, 0.8], [0.6, 0.8]], rtol=1e-6)


def test_a_row_that_is_twice_in_a_split_is_refused() -> None:
    data = GZSLDataset(
        name="toy", features=X[:4], labels=[0, 0, 0, 1], class_names=["cat", "dog"],
        class_attributes=np.eye(2), train=[0, 1, 0, 1], test_seen=[2], test_unseen=[3],
    )  # fmt: skip
    with pytest.raises(DataError, match=r"'toy': row 0 is twice in train \(2 such rows\)"):
        data.validate()


def test_partial_fit_refuses_other_attributes_of_a_known_class() -> None:
    model = HGKTClassifier().fit(X, Y, TABLE).add_classes({"fox": [0.5, 0.5]})
    before = model.score_classes(X)
    for name in ("cat", "fox"):
        with pytest.raises(DataError, match=f"class '{name}' is known with other attributes"):
            model.partial_fit(X[:2], ["cat", "cat"], {name: [0.3, 0.3]})
    np.testing.assert_array_equal(model.score_classes(X), before)
    same = np.array([0.5, 0.5], dtype=np.float32)
    model.partial_fit(X[:2], ["fox", "elk"], {"elk": [0.2, 0.9], "fox": same})
    assert model.seen_classes_.tolist() == ["cat", "dog", "elk", "fox"]


@pytest.mark.parametrize("name", ["Cat", "elk ", "e\u200blk", "e\u0301lan"])
def test_partial_fit_has_the_rule_for_names_too(name: str) -> None:
    model = HGKTClassifier().fit(X, Y, TABLE)
    with pytest.raises(DataError, match=r"^class "):
        model.partial_fit(X[:1], [name], {name: [0.3, 0.3]})
