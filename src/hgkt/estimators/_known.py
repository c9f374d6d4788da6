"""What newcomers are compared with: the names and the attributes of the classes that are there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from hgkt._validation import check_class_name, label_text, refuse_twin, twin_key
from hgkt.estimators._rows import GrowingRows
from hgkt.exceptions import ClassWarning, DataError

_NEAR = 1e-4  # distance of two attribute vectors, in lengths of one, that still counts as equal
_N_DIRECTIONS = 8
_LARGEST = 1e150  # its square is a number
_FEW = 64  # so many newcomers are compared one by one; more, all at once


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
        places = attributes @ self._directions
        self._places, self._firsts = GrowingRows(places), GrowingRows(places[:, 0].copy())

    def copy(self) -> Self:
        """Return one to which classes can be added without changing this one."""
        other = copy(self)
        other._names, other._keys = list(self._names), dict(self._keys)
        return other

    def append(self, names: Sequence[Any], attributes: NDArray[np.float64]) -> None:
        """Take in classes that were added."""
        self._names.extend(names)
        self._keys.update((twin_key(name), name) for name in names)
        places = attributes @ self._directions
        self._places = self._places.append(places)
        self._firsts = self._firsts.append(places[:, 0])

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
        if not table:
            return
        names, rows = list(table), np.stack(list(table.values()))
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(rows, axis=1)
            places = rows @ self._directions
        near = np.where(np.isfinite(lengths), _NEAR * lengths, 0.0)
        for index in np.flatnonzero(self._suspects(places, near) | (lengths == 0.0)).tolist():
            text = label_text(names[index])
            if lengths[index] == 0.0:
                yield f"the attributes of class {text} are all zero: they say nothing"
                continue
            # A class may also be like one that comes with it.
            with np.errstate(over="ignore", invalid="ignore"):
                gaps = np.linalg.norm(places[:index] - places[index], axis=1)
            earlier = [names[twin] for twin in np.flatnonzero(gaps <= near[index])]
            twins = self.twins(rows[index]) or earlier
            if twins:
                yield (
                    f"class {text} is described like class {label_text(twins[0])}: "
                    "the two cannot be told apart"
                )

    def _suspects(
        self, places: NDArray[np.float64], near: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Say which newcomers (U,) may be near another class; all others are not."""
        if len(places) <= _FEW:
            return np.ones(len(places), dtype=bool)
        everywhere = np.concatenate([self._places.array, places])
        ordinary = (np.abs(everywhere) < _LARGEST).all(axis=1)
        new = ordinary[len(everywhere) - len(places) :]
        found = KDTree(everywhere[ordinary]).query_ball_point(
            places[new], near[new], return_length=True
        )
        suspects = np.zeros(len(places), dtype=bool)
        suspects[new] = found > 1  # one is the class itself
        return suspects

    def twins(self, row: NDArray[np.float64]) -> list[Any]:
        """Return the classes whose attributes are those of `row` (d,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            place, length = row @ self._directions, float(np.linalg.norm(row))
            near = _NEAR * length if np.isfinite(length) else 0.0
            # Hardly any class is near along one direction; only those are compared along all.
            few = np.flatnonzero(np.abs(self._firsts.array - place[0]) <= near)
            gaps = np.linalg.norm(self._places.array[few] - place, axis=1)
        return [self._names[index] for index in few[gaps <= near]]


def warn_of_doubts(
    known: KnownClasses, names: Sequence[Any], attributes: NDArray[np.float64]
) -> None:
    """Warn of each new class whose attributes (U, d) are doubtful, where the user called."""
    for sentence in known.doubts(dict(zip(names, attributes, strict=True))):
        warnings.warn(sentence, ClassWarning, stacklevel=3)
