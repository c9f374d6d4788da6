"""What is looked at before a change is written: whether the model can take it, and what is odd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hgkt._validation import attribute_matrix
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError
from hgkt.serving.editions import Edition, label_of


def refuse_unusable(base: GZSLClassifier, vectors: Mapping[str, Any]) -> None:
    """Refuse classes that a model cannot take, before they are written.

    Parameters
    ----------
    base : GZSLClassifier
        The model as its folder has it.
    vectors : mapping of str to array-like
        Attribute vectors by class name.
    """
    table = {label_of(base, name): vector for name, vector in vectors.items()}
    rows = attribute_matrix(table, list(table), base.class_attributes_.shape[1])
    with np.errstate(all="ignore"):
        trial = view_of(base)
        trial.remove_classes(trial.unseen_classes_.tolist())
        trial._add(list(table), rows)
        scores = trial.score_classes(np.ones((1, trial.n_features_in_)))[0]
    embedded = [grown.array for grown in trial._added_table.values()]
    for row, name in enumerate(vectors):
        # A score that is infinite or no number would win every prediction.
        good = all(np.isfinite(array[row]).all() for array in embedded)
        if not good or not scores[trial.candidates("unseen")[row]] < np.inf:
            raise DataError(
                f"the attributes of class {name!r} are too large for this model; its "
                "scores would not be finite numbers"
            )


def edit_doubts(edition: Edition, name: str, new_name: str, vector: Any) -> list[str]:
    """Say what is doubtful about a class as it would be; refuse a name too like another's."""
    model = edition.model
    label = label_of(model, new_name)
    others = model._others([label_of(model, name)])
    others.refuse([label], strings=isinstance(label, str))
    row = attribute_matrix({label: vector}, [label], model.class_attributes_.shape[1])[0]
    return list(others.doubts({label: row}))


def refuse_unsound(model: GZSLClassifier, name: str) -> None:
    """Refuse examples after which a model's scores are no finite numbers."""
    with np.errstate(all="ignore"):
        scores = model.score_classes(np.ones((1, model.n_features_in_)))
    if not np.isfinite(scores).all():
        raise DataError(
            f"the examples of class {name!r} do not fit this model; its scores would not be "
            "finite numbers"
        )
