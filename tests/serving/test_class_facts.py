"""The map of classes."""

from __future__ import annotations

import numpy as np

from hgkt import HGKTClassifier
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
