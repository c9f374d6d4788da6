"""A class of one model described anew for another: by its text, by names, or by equal width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.language import ClassDescription
from hgkt.language.encoder import uses_description
from hgkt.serving.entries import ClassEntry
from hgkt.serving.model_facts import TEXT, ModelFacts

_LISTED = 5


class Carrier:
    """Describes stored classes of an old model for a new one.

    A vector that means the same to both is taken as it is. Otherwise what is made of text is made
    anew, from the text that was stored; other attributes go by their names where both models have
    them, and by equal kinds and widths where not.

    Parameters
    ----------
    old : ModelFacts or None
        What is known of the model that the classes were described for.
    new : ModelFacts
        What is known of the one that they are to be described for.

    Examples
    --------
    >>> old = ModelFacts("a", "hgkt", 8, 2, ("black", "red"), (2,), ("att",))
    >>> new = ModelFacts("b", "hgkt", 8, 2, ("red", "black"), (2,), ("att",))
    >>> Carrier(old, new).describe(ClassEntry("crow", np.array([1.0, 0.0]))).vector
    array([0., 1.])
    """

    def __init__(self, old: ModelFacts | None, new: ModelFacts) -> None:
        self.old, self.new = old, new
        self._same = old is not None and old.same_attributes(new)

    def describe(self, entry: ClassEntry) -> ClassDescription:
        """Return a class as the new model's describer takes it; raise DataError with what is wrong.

        Parameters
        ----------
        entry : ClassEntry
            The class as it is stored.
        """
        row = entry.attributes
        if self.old is not None and len(row) != self.old.n_attributes:
            raise DataError(
                f"it was stored with {len(row)} attributes, and the old model has "
                f"{self.old.n_attributes}"
            )
        if self._same:
            return ClassDescription(entry.name, vector=row)
        if TEXT not in self.new.attribute_kinds:
            return ClassDescription(entry.name, vector=self._numbers(row))
        if self.new.encoder is None or self.new.attribute_kinds.count(TEXT) != 1:
            raise DataError("the model's attributes are made of text, of which it has no record")
        numbers = self._numbers(row) if self.new.n_plain else None
        if not uses_description(str(self.new.encoder.get("template", ""))):
            return ClassDescription(entry.name, vector=numbers, text="")  # its name is all
        if entry.text is None:
            raise DataError("the model reads texts, and it was described without one")
        # Several texts of one class are stored one per line.
        return ClassDescription(entry.name, vector=numbers, text=entry.text.split("\n"))

    def _numbers(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the attributes that are not made of text, in the new model's order."""
        old, new = self.old, self.new
        if old is None:
            raise DataError(
                "nothing is stored of how its attributes were made; the folder of the old model "
                "tells (--old-model)"
            )
        known = old.plain_part(row)
        if old.attribute_names and new.attribute_names:
            values = dict(zip(_keys(old.attribute_names), known.tolist(), strict=True))
            missing = [name for name in new.attribute_names if _key(name) not in values]
            if missing:
                raise DataError(f"it lacks {_listing(missing)}, which the model knows it by")
            return np.array([values[key] for key in _keys(new.attribute_names)])
        if len(known) != new.n_plain:
            raise DataError(f"it has {len(known)} attributes; the model expects {new.n_plain}")
        if old.plain_kinds != new.plain_kinds:
            kinds = " + ".join(kind for kind, _ in old.plain_kinds)
            expected = " + ".join(kind for kind, _ in new.plain_kinds)
            raise DataError(f"its attributes are of the kind {kinds}; the model expects {expected}")
        return known

    def note(self) -> str | None:
        """Say in a sentence which attributes are left out; None where none is."""
        if self._same or self.old is None or not self.new.attribute_names:
            return None
        unused = [
            name
            for name in self.old.attribute_names
            if _key(name) not in set(_keys(self.new.attribute_names))
        ]
        return f"the new model does not use {_listing(unused)}" if unused else None


def _key(name: str) -> str:
    return name.strip().lower()


def _keys(names: Sequence[str]) -> list[str]:
    return [_key(name) for name in names]


def _listing(names: Sequence[str]) -> str:
    noun = "the attribute" if len(names) == 1 else f"{len(names)} attributes:"
    more = "…" if len(names) > _LISTED else ""
    return f"{noun} {', '.join(map(repr, names[:_LISTED]))}{more}"
