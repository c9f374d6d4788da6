"""The texts by which a model's classes were described, for people to read them again.

A text is kept by a fingerprint of the vector that was made of it. So a class that is renamed keeps
its text, and one that is described anew does not show what no longer holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

DESCRIPTIONS = "descriptions"
"""Where a model's ``about_`` has them."""


def described_by(
    vectors: Mapping[Any, NDArray[Any]], texts: Mapping[Any, str | Sequence[str]]
) -> dict[str, str]:
    """Return the texts of classes, several of one class joined, by fingerprint of their vectors.

    Parameters
    ----------
    vectors : mapping
        The attribute vector (d,) of each class.
    texts : mapping
        What was said of some of them.

    Examples
    --------
    >>> kept = described_by({"okapi": np.ones(2), "horse": np.zeros(2)}, {"okapi": "striped legs"})
    >>> description_of({"descriptions": kept}, np.ones(2))
    'striped legs'
    >>> description_of({"descriptions": kept}, np.zeros(2)) is None
    True
    """
    said = {
        name: text if isinstance(text, str) else " ".join(part for part in text if part)
        for name, text in texts.items()
    }
    return {_fingerprint(row): said[name] for name, row in vectors.items() if said.get(name)}


def keep_descriptions(
    model: GZSLClassifier, vectors: Mapping[Any, NDArray[Any]], texts: Mapping[Any, Any]
) -> None:
    """Have a model remember the texts of classes that it was given; see `described_by`."""
    about = getattr(model, "about_", {})
    more = described_by(vectors, texts)
    if more:
        model.about_ = {**about, DESCRIPTIONS: {**about.get(DESCRIPTIONS, {}), **more}}


def description_of(about: Mapping[str, Any], vector: NDArray[Any]) -> str | None:
    """Return the text that the vector (d,) of a class was made of; None where none is kept."""
    kept = about.get(DESCRIPTIONS)
    return kept.get(_fingerprint(vector)) if kept else None


def _fingerprint(vector: NDArray[Any]) -> str:
    """Return the same for a vector in single and in double precision."""
    numbers = np.asarray(vector, dtype="<f4") + np.float32(0)  # no negative zeros
    return hashlib.sha256(numbers.tobytes()).hexdigest()[:16]
