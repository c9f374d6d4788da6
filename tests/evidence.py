"""What speaks for a class, attribute by attribute, the strongest first."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hgkt.estimators.explain import AlteredClass


class Evidence(NamedTuple):
    position: int
    value: float
    weight: float


def attribute_evidence(model: Any, x: Any, label: Any) -> list[Evidence]:
    row = model.one_row(x)
    values = model.class_attributes_[model.column_of(label)]
    weights = AlteredClass(model, label).weights(row)[0]
    order = np.argsort(-np.abs(weights), kind="stable").tolist()
    return [Evidence(i, float(values[i]), float(weights[i])) for i in order]
