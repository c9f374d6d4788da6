"""What newcomers are compared with: the names and the attributes of the classes that are there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._class_names import check_class_name, refuse_twin, twin_key
from hgkt._validation import label_text
from hgkt.estimators._rows import GrowingRows
from hgkt.exceptions import ClassWarning, DataError

_NEAR = 1e-4  # distance of two attribute vectors, in lengths of one, that still counts as equal
_N_DIRECTIONS = 8


class KnownClasses:
    """Names and attributes of a model's classes, ready to be asked about new ones.

    Attribute vectors are compared by their projections on a few fixed directions: vectors that
    are near each other stay so there, and others do not come near in all of them by chance. A
    newcomer so costs a few numbers per class, and no second copy of the attributes is kept.

    Parameters
    ----------
    names : sequence
        The classes, in the order of the tables.
    attributes : ndarray of shape (n_classes, d)
        Their attribute vectors.
    """

    def __init__(self, names: Sequence[Any], attributes: NDArray[np.float64]) -> None:
        width = attributes.shape[1]
        random = np.random.default_rng(0).standard_normal((width, min(width, _N_DIRECTIONS)))
        self._directions = np.linalg.qr(random)[0]
        self._names = list(names)
        self._keys = {twin_key(name): name for name in names}
        self._places = GrowingRows(attributes @ self._directions)

    def copy(self) -> Self:
        """Return one to which classes can be added without changing this one."""
        other = copy(self)
        other._names, other._keys = list(self._names), dict(self._keys)
        return other

    def append(self, names: Sequence[Any], attributes: NDArray[np.float64]) -> None:
        """Take in classes that were added."""
        self._names.extend(names)
        self._keys.update((twin_key(name), name) for name in names)
        self._places = self._places.append(attributes @ self._directions)

    def refuse(self, names: Sequence[Any], strings: bool) -> None:
        """Refuse names that are taken, nearly taken, against the rule or of another kind."""
        new: dict[Any, Any] = {}
        for name in names:
            if isinstance(name, str) != strings:
                kind = "strings" if strings else "numbers"
                raise DataError(f"class {label_text(name)}: the classes of this model are {kind}")
            check_class_name(name)
            key = twin_key(name)
            known = self._keys.get(key, new.setdefault(key, name))
            if key in self._keys and known == name:
                raise DataError(f"class {label_text(name)} is there already")
            refuse_twin(name, known)

    def doubts(self, table: Mapping[Any, NDArray[np.float64]]) -> Iterator[str]:
        """Say of each new class what is doubtful about its attributes, in sentences."""
        earlier = self.copy()  # a class may also be like one that comes with it
        for name, row in table.items():
            with np.errstate(over="ignore", invalid="ignore"):
                sentence = earlier._doubt(name, row)
                earlier.append([name], row[None])
            if sentence:
                yield sentence

    def _doubt(self, name: Any, row: NDArray[np.float64]) -> str:
        length = float(np.linalg.norm(row))
        if length == 0.0:
            return f"the attributes of class {label_text(name)} are all zero: they say nothing"
        twins = self.twins(row)
        if not twins:
            return ""
        return (
            f"class {label_text(name)} is described like class {label_text(twins[0])}: "
            "the two cannot be told apart"
        )

    def twins(self, row: NDArray[np.float64]) -> list[Any]:
        """Return the classes whose attributes are those of `row` (d,)."""
        gaps = np.linalg.norm(self._places.array - row @ self._directions, axis=1)
        length = float(np.linalg.norm(row))
        return [self._names[index] for index in np.flatnonzero(gaps <= _NEAR * length)]


def warn_of_doubts(
    known: KnownClasses, names: Sequence[Any], attributes: NDArray[np.float64]
) -> None:
    """Warn of each new class whose attributes (U, d) are doubtful, where the user called."""
    for sentence in known.doubts(dict(zip(names, attributes, strict=True))):
        warnings.warn(sentence, ClassWarning, stacklevel=3)
