"""Which attributes of a model mean something one by one, and what they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier


def attribute_names(model: GZSLClassifier) -> tuple[NDArray[np.intp], list[str] | None]:
    """Return the places of attributes that mean something one by one, and their names.

    The numbers that a sentence encoder makes of a text mean nothing one by one and are left out.
    The names are None where the model has none for these places.
    """
    about, n_attributes = getattr(model, "about_", {}), model._seen_attributes.shape[1]
    widths = about.get("attribute_blocks") or [n_attributes]
    kinds = about.get("attribute_kinds") or ["att"] * len(widths)
    if len(kinds) != len(widths) or sum(widths) != n_attributes:
        widths, kinds = [n_attributes], ["att"]
    places = np.flatnonzero(np.repeat([kind != "text" for kind in kinds], widths))
    names = [str(name) for name in about.get("attribute_names") or ()]
    return places, names if names and len(names) == len(places) else None
