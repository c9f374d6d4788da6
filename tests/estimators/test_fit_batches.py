"""The network learned from batches, held against the one learned from all rows."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTNetworkClassifier, load_model
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def batches(X, y, size=150):
    return lambda: ((X[i : i + size], y[i : i + size]) for i in range(0, len(X), size))


def network(**params) -> HGKTNetworkClassifier:
    options = {"n_hidden": 32, "n_steps": 40, "feature_map": "sqrt+l2", "random_state": 0}
    return HGKTNetworkClassifier(**{**options, "device": "cpu", **params})


def test_fit_batches_learns_what_fit_learns(digits, tmp_path):
    X, y = digits.rows("train")
    unseen = digits.rows("test_unseen")[0]
    table = digits.attributes_of(range(10))  # classes without rows are added
    whole = network().fit(X, y, class_attributes=table)
    found = network().fit_batches(batches(X, y), class_attributes=table)
    assert found.seen_classes_.tolist() == whole.seen_classes_.tolist()
    assert found.unseen_classes_.tolist() == whole.unseen_classes_.tolist()
    assert found.representatives_.tolist() == whole.representatives_.tolist()
    np.testing.assert_allclose(
        found.decision_function(unseen), whole.decision_function(unseen), rtol=1e-3, atol=1e-3
    )
    loaded = load_model(found.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(unseen), found.predict(unseen))


def test_fit_batches_with_little_memory_chooses_rows_of_the_right_classes(digits):
    X, y = digits.rows("train")
    found = network().fit_batches(
        batches(X, y), digits.attributes_of(digits.seen_classes), memory=8 * 8 * 64 * 4
    )
    assert y[found.representatives_].tolist() == found.seen_classes_.tolist()


def test_fit_batches_refuses_what_needs_all_rows(digits):
    X, y = digits.rows("train")
    table = digits.attributes_of(digits.seen_classes)
    with pytest.raises(DataError, match="n_sampled draws instances, which must then be in memory"):
        network(n_sampled=5).fit_batches(batches(X, y), table)
    with pytest.raises(DataError, match="calibration='auto' learns once more"):
        network(calibration="auto").fit_batches(batches(X, y), table)
    missing = dict(list(table.items())[1:])
    with pytest.raises(DataError, match=r"class_attributes has no class '.*', which has rows"):
        network().fit_batches(batches(X, y), missing)
    one = y == y[0]
    with pytest.raises(DataError, match="the batches hold one class only"):
        network().fit_batches(batches(X[one], y[one]), table)
