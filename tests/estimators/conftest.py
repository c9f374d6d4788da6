from __future__ import annotations

import numpy as np
import pytest

from hgkt.estimators import METHODS


@pytest.fixture(scope="session")
def small():
    """Six seen and two unseen classes whose attributes determine the class means."""
    rng = np.random.default_rng(0)
    attributes = rng.random((8, 5))
    mixing = rng.random((5, 12))
    means = np.exp(attributes @ mixing / 2)
    names = np.array([f"class {letter}" for letter in "abcdefgh"])
    codes = np.repeat(np.arange(8), 15)
    X = np.maximum(means[codes] + 0.05 * rng.normal(size=(120, 12)), 0)
    seen = codes < 6
    table = dict(zip(names.tolist(), attributes, strict=True))
    return {
        "mixing": mixing,
        "X": X[seen],
        "y": names[codes[seen]],
        "seen": {name: table[name] for name in names[:6].tolist()},
        "unseen": {name: table[name] for name in names[6:].tolist()},
        "X_unseen": X[~seen],
        "y_unseen": names[codes[~seen]],
    }


@pytest.fixture
def small_of(small):
    """From a method to data for it; one of one space has class vectors among the features."""

    def data(name):
        if name not in METHODS or not METHODS[name].shared_space:
            return small
        return small | {
            key: {label: np.exp(row @ small["mixing"] / 2) for label, row in small[key].items()}
            for key in ("seen", "unseen")
        }

    return data
