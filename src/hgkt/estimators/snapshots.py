"""Independent views of one fitted model: what was learned is shared, the added classes are not."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from hgkt.estimators.base import GZSLClassifier

Model = TypeVar("Model", bound=GZSLClassifier)


def snapshot(model: Model) -> Model:
    """Return a view of a fitted model to which classes can be added without changing `model`.

    Learned arrays and the rows of added classes are shared, never copied; the cost is one dict
    entry a class. Adding to and removing from the view, or from the model, shows in that one only.
    Views may be read by any number of threads; views of one model may be changed by one thread at a
    time.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model, or one that wraps a fitted model (calibration, selection).

    Returns
    -------
    GZSLClassifier
        Of the same type, with bit-identical scores.

    Examples
    --------
    >>> from hgkt import HGKTClassifier
    >>> X, y = [[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]], ["cat", "cat", "dog", "dog"]
    >>> model = HGKTClassifier().fit(X, y, {"cat": [1.0, 0.0], "dog": [0.0, 1.0]})
    >>> view = snapshot(model).add_classes({"fox": [1.0, 1.0]})
    >>> len(model.classes_), len(view.classes_)
    (2, 3)
    """
    view = copy(model)
    state: dict[str, Any] = view.__dict__
    copies: dict[int, GZSLClassifier] = {}
    for name, value in list(state.items()):
        # A wrapper holds its fitted method, some of them twice (as given, and as fitted).
        if isinstance(value, GZSLClassifier) and value.__sklearn_is_fitted__():
            state[name] = copies.setdefault(id(value), snapshot(value))
    # The one thing that adding changes in place; everything else is replaced.
    if "_columns" in state:
        state["_columns"] = dict(state["_columns"])
    return view
