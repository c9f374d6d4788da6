"""The map of classes."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt import HGKTClassifier, load_dataset
from hgkt.serving.class_facts import ClassMap


def test_the_map_follows_a_model_of_few_rows_that_grows():
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.normal(size=(24, 4_200))).astype(np.float32), np.arange(24) % 6
    attributes = {name: rng.random(4) for name in range(8)}
    model = HGKTClassifier(calibration=0.0).fit(X[:20], y[:20], class_attributes=attributes)
    plane = ClassMap.of(model)
    assert None not in plane.instance_places(model, X)
    model.grow({7: model.example_sums(X[20:])})
    places = plane.places(model)
    assert places.shape == (8, 2)
    assert np.isfinite(places).all()
    assert np.ptp(places) > 0


@pytest.mark.parametrize(
    "params", [{"metric": "euclidean"}, {"metric": "euclidean", "members": [{}, {"ridge": 0.3}]}]
)
def test_rows_lie_where_their_class_does_where_distances_decide(params):
    digits = load_dataset("digits")
    X, y = digits.rows("train")
    model = HGKTClassifier(**params, calibration=0.0)
    model.fit(X, y, digits.attributes_of(digits.seen_classes))
    plane = ClassMap.of(model)
    rows = np.array(plane.instance_places(model, X))
    means = np.array([rows[y == name].mean(axis=0) for name in model.classes_])
    gaps = np.linalg.norm(means[:, None] - plane.places(model), axis=2)
    np.testing.assert_array_equal(gaps.argmin(axis=1), np.arange(8))
