"""Independent views of one fitted model: what was learned is shared, the added classes are not."""

from __future__ import annotations

from copy import copy
from typing import TypeVar

from hgkt.estimators.base import GZSLClassifier

Model = TypeVar("Model", bound=GZSLClassifier)


def view_of(model: Model) -> Model:
    """Return a view of a fitted model to which classes can be added without changing `model`.

    Learned arrays and the rows of added classes are shared, never copied; the cost is one dict
    entry per class. Adding to and removing from the view, or from the model, shows in that one
    only. Views may be read by any number of threads; views of one model may be changed by one
    thread at a time.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.

    Returns
    -------
    GZSLClassifier
        Of the same type, with bit-identical scores.

    Examples
    --------
    >>> from hgkt import HGKTClassifier
    >>> X, y = [[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]], ["cat", "cat", "dog", "dog"]
    >>> model = HGKTClassifier().fit(X, y, {"cat": [1.0, 0.0], "dog": [0.0, 1.0]})
    >>> view = view_of(model).add_classes({"fox": [1.0, 1.0]})
    >>> len(model.classes_), len(view.classes_)
    (2, 3)
    """
    return copy(model)
