"""Which model is served: a digest of what it learned, and one of its folder's files."""

from __future__ import annotations

import hashlib

import numpy as np

from hgkt.estimators import GZSLClassifier
from hgkt.estimators.transfer import TransferClassifier

_TRANSFER = ("center", "counts", "dual", "noise", "projection", "second_moment", "sums")
_CLOSED_FORM_ARRAYS = {"grown", "seen/embedding", *(f"transfer/{name}" for name in _TRANSFER)}


def model_identity(model: GZSLClassifier) -> str:
    """Return a digest of what a model has learned: its method, seen classes and arrays.

    Classes that were added and the calibration do not count: the same model with a class more is
    the same model. A model fitted again, or on other attributes, is another one. A model that
    release 0.1 saved has the identity that it had there, so that its added classes stay its own:
    the digest has the names and arrays of that release. There closed form and network were one
    class, and no other method said which of its classes had grown.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    name = type(model).__qualname__
    state = {key: rows for key, rows in model._state().items() if not key.startswith("added/")}
    if isinstance(model, TransferClassifier):
        name = "HGKTClassifier"
        if state.keys() >= _CLOSED_FORM_ARRAYS:  # what a later release keeps besides is left out
            kept = _CLOSED_FORM_ARRAYS | ({"transfer/span"} & state.keys())
            state = {key: state[key] for key in kept}
    else:
        state.pop("grown", None)
    digest = hashlib.sha256(f"{name} {model.seen_classes_.tolist()!r}".encode())
    for key, rows in sorted((state | {"attributes": model._seen_attributes}).items()):
        array = np.ascontiguousarray(rows)
        digest.update(f"\n{key} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.tobytes() if array.dtype.kind in "OU" else array.data)
    return digest.hexdigest()
