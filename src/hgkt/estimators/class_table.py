"""The classes of a fitted model as one value; every change of them returns another value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import (
    check_class_name,
    label_array,
    label_list,
    label_text,
    refuse_twin,
    twin_key,
)
from hgkt.exceptions import DataError

ClassRows = dict[str, NDArray[Any]]
"""What scoring needs of some classes: named arrays whose rows are classes."""

_NEAR = 1e-4  # distance of two attribute vectors, in lengths of one, that still counts as equal


class GrowingRows:
    """An array whose first axis grows by amortised doubling.

    An instance never changes: `append` returns another one, which shares the memory as long as
    nobody else has written there. A reader that holds an older instance keeps what it saw.

    Examples
    --------
    >>> first = GrowingRows(np.array([1.0, 2.0]))
    >>> second = first.append(np.array([3.0]))
    >>> first.array, second.array
    (array([1., 2.]), array([1., 2., 3.]))
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._buffer = rows
        self._used = [len(rows)]  # shared by all instances on this buffer
        self.array = rows

    def append(self, rows: NDArray[Any]) -> GrowingRows:
        """Return the rows followed by `rows`."""
        start, stop = len(self.array), len(self.array) + len(rows)
        grown = GrowingRows.__new__(GrowingRows)
        fits = self._used[0] == start and stop <= len(self._buffer)
        if fits and self._buffer.dtype == rows.dtype:
            grown._buffer, grown._used = self._buffer, self._used
        else:
            dtype = np.promote_types(self.array.dtype, rows.dtype)
            grown._buffer = np.empty((max(2 * stop, 8), *rows.shape[1:]), dtype=dtype)
            grown._buffer[:start] = self.array
            grown._used = [start]
        grown._buffer[start:stop] = rows
        grown._used[0] = stop
        grown.array = grown._buffer[:stop]
        return grown


@dataclass(frozen=True, eq=False)
class ClassTable:
    """The classes of a fitted model at one moment.

    Rows are classes: those learned from instances first, sorted when they were learned, then
    added ones in the order they came, so that adding moves nothing. What a user meets is ordered
    as ``classes``, which is sorted, as scikit-learn takes for granted.

    Parameters
    ----------
    labels : ndarray of shape (C,)
        The label of each row.
    attributes : GrowingRows of shape (C, d)
    seen : dict of ndarray with L rows
        What scoring needs of the classes learned from instances.
    added : dict of GrowingRows with U rows
        The same of added ones.
    grown : ndarray of shape (L,)
        Which of the first L classes came by their attributes and got their instances later.
    learned_shares : ndarray of shape (L,)
        How far each of those is known by its instances, from 0 to 1; 0 for the others.
    has_attributes : bool
        Whether `fit` was given attributes; without them no class can be added.
    classes : ndarray of shape (C,)
        The labels, sorted.
    order : ndarray of shape (C,)
        The row of each of them.

    Examples
    --------
    >>> rows = {"embedding": np.eye(2)}
    >>> table = ClassTable.of(np.array(["dog", "fox"]), np.eye(2), rows)
    >>> more = table.add(["cat"], np.ones((1, 2)), {"embedding": np.ones((1, 2))})
    >>> more.classes.tolist(), more.order.tolist(), table.classes.tolist()
    (['cat', 'dog', 'fox'], [2, 0, 1], ['dog', 'fox'])
    """

    labels: NDArray[Any]
    attributes: GrowingRows
    seen: ClassRows
    added: dict[str, GrowingRows]
    grown: NDArray[np.bool_]
    learned_shares: NDArray[np.float64]
    has_attributes: bool
    classes: NDArray[Any]
    order: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        labels: NDArray[Any],
        attributes: NDArray[np.float64],
        seen: ClassRows,
        added: ClassRows | None = None,
        grown: NDArray[np.bool_] | None = None,
        learned_shares: NDArray[np.float64] | None = None,
        has_attributes: bool = True,
    ) -> Self:
        """Return a table of classes (C,), of which the first ones were learned from instances."""
        n_seen = len(next(iter(seen.values())))
        order = np.argsort(labels, kind="stable")
        rows = {key: array[:0] for key, array in seen.items()} if added is None else added
        return cls(
            labels,
            GrowingRows(attributes),
            seen,
            {key: GrowingRows(array) for key, array in rows.items()},
            np.zeros(n_seen, dtype=bool) if grown is None else grown,
            np.zeros(n_seen) if learned_shares is None else learned_shares,
            has_attributes,
            labels[order],
            order,
        )

    # ------------------------------------------------------------------ who is there
    @property
    def n_seen(self) -> int:
        """L."""
        return len(self.grown)

    @property
    def seen_classes(self) -> NDArray[Any]:
        """Labels (L,) of the classes learned from instances."""
        return self.labels[: self.n_seen]

    @property
    def added_classes(self) -> NDArray[Any]:
        """Labels (U,) of the classes known by their attributes alone."""
        return self.labels[self.n_seen :]

    @property
    def seen_attributes(self) -> NDArray[np.float64]:
        """Attributes (L, d)."""
        return self.attributes.array[: self.n_seen]

    @property
    def added_attributes(self) -> NDArray[np.float64]:
        """Attributes (U, d)."""
        return self.attributes.array[self.n_seen :]

    @property
    def added_rows(self) -> ClassRows:
        """What scoring needs of added classes."""
        return {key: rows.array for key, rows in self.added.items()}

    @property
    def described(self) -> set[Any]:
        """The classes that came by their attributes, grown ones among them."""
        return {*self.added_classes.tolist(), *self.seen_classes[self.grown].tolist()}

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The position in ``classes`` (C,) of each row."""
        columns = np.empty_like(self.order)
        columns[self.order] = np.arange(len(columns))
        return columns

    @cached_property
    def _rows(self) -> dict[Any, int]:
        """The row of each class by what its name shares with names that look the same."""
        return {twin_key(name): row for row, name in enumerate(self.labels.tolist())}

    def row_of(self, name: Any) -> int | None:
        """Return the row of a class; None where the table has none of that name."""
        try:
            row = self._rows.get(twin_key(name))
        except TypeError:  # no label: it has no hash
            return None
        return row if row is not None and self._label(row) == name else None

    def _label(self, row: int) -> Any:
        return self.labels[row : row + 1].tolist()[0]

    def candidates(self, among: str | Sequence[Any]) -> NDArray[np.intp]:
        """Return the columns of ``classes`` that a group or a list of classes stands for."""
        n_seen, n_classes = self.n_seen, len(self.labels)
        groups = {"all": (0, n_classes), "seen": (0, n_seen), "unseen": (n_seen, n_classes)}
        if isinstance(among, str):
            if among not in groups:
                raise DataError(
                    f"among must be 'all', 'seen', 'unseen' or a list of classes; got {among!r}"
                )
            columns = self.columns[slice(*groups[among])]
            if not len(columns):
                raise DataError("among='unseen' but no class has been added; use add_classes first")
            return columns
        names = label_list(among)
        if not names:
            raise DataError("among is an empty list; at least one class is expected")
        rows = []
        for name in names:
            row = self.row_of(name)
            if row is None:
                raise DataError(f"among names class {label_text(name)}, which the model has not")
            rows.append(row)
        return self.columns[rows]

    # ------------------------------------------------------------------ what cannot be
    def refuse_new(self, names: Sequence[Any], without: Collection[Any] = ()) -> None:
        """Refuse new names that are taken, nearly taken, against the rule or of another kind.

        Parameters
        ----------
        names : sequence
            The new names.
        without : collection
            Classes whose names are free, because they are about to get others.
        """
        strings = self.labels.dtype.kind in "UO"
        new: dict[Any, Any] = {}
        for name in names:
            if isinstance(name, str) != strings:
                kind = "strings" if strings else "numbers"
                raise DataError(f"class {label_text(name)}: the classes of this model are {kind}")
            check_class_name(name)
            key = twin_key(name)
            row = self._rows.get(key)
            old = None if row is None else self._label(row)
            if old is not None and old not in without:
                if old == name:
                    raise DataError(f"class {label_text(name)} is there already")
                refuse_twin(name, old)
            refuse_twin(name, new.setdefault(key, name))

    def refuse_fitted(self, names: Collection[Any], done: str, instead: str) -> None:
        """Refuse classes that are unknown, or that the model was fitted on."""
        for name in names:
            row = self.row_of(name)
            if row is None:
                raise DataError(f"class {label_text(name)} is unknown, so it cannot be {done}")
            if row < self.n_seen and not self.grown[row]:
                raise DataError(
                    f"class {label_text(name)} was learned from instances and cannot be {done}; "
                    f"{instead}"
                )

    # ------------------------------------------------------------------ classes described alike
    @cached_property
    def _places(self) -> GrowingRows:
        """Attributes along one fixed direction (C,): vectors that are alike are near there."""
        return GrowingRows(_along(self.attributes.array))

    def twins(self, row: NDArray[np.float64]) -> list[Any]:
        """Return the classes whose attributes are those of `row` (d,)."""
        found = _near_rows(self.attributes.array, self._places.array, row)
        labels: list[Any] = self.labels[found].tolist()
        return labels

    # ------------------------------------------------------------------ changes
    def add(
        self, names: Sequence[Any], attributes: NDArray[np.float64], rows: ClassRows
    ) -> ClassTable:
        """Return the table with new classes, known by attributes (U, d), at its end."""
        if not len(names):
            return self
        new = label_array(list(names), self.labels)
        kind = np.result_type(self.labels, new)  # longer strings would be cut
        # Of one kind both: else the search would convert all labels there are.
        old, new = self.classes.astype(kind, copy=False), new.astype(kind, copy=False)
        first = np.argsort(new, kind="stable")
        places = np.searchsorted(old, new[first])
        table = replace(
            self,
            labels=np.concatenate([self.labels, new]),
            attributes=self.attributes.append(attributes),
            added={key: grown.append(rows[key]) for key, grown in self.added.items()},
            classes=np.insert(old, places, new[first]),
            order=np.insert(self.order, places, len(self.order) + first),
        )
        # What was looked up before is not looked up again.
        if "_rows" in vars(self):
            n_old = len(self.labels)
            keys = {twin_key(name): n_old + row for row, name in enumerate(names)}
            vars(table)["_rows"] = {**self._rows, **keys}
        if "_places" in vars(self):
            vars(table)["_places"] = self._places.append(_along(attributes))
        return table

    def remove(self, names: Collection[Any]) -> ClassTable:
        """Return the table without some of the added classes."""
        gone = set(names)
        stays = np.array([name not in gone for name in self.added_classes.tolist()], dtype=bool)
        every = np.concatenate([np.ones(self.n_seen, dtype=bool), stays])
        return self._with_added(
            self.labels[every],
            self.attributes.array[every],
            {key: rows[stays] for key, rows in self.added_rows.items()},
        )

    def edit(self, vectors: Mapping[Any, NDArray[np.float64]], rows: ClassRows) -> ClassTable:
        """Return the table with other attributes (d,), and rows, of some of the added classes."""
        places = [self._rows[twin_key(name)] for name in vectors]
        attributes = self.attributes.array.copy()
        attributes[places] = list(vectors.values())
        added = {key: old.copy() for key, old in self.added_rows.items()}
        for key, new in rows.items():
            added[key][[place - self.n_seen for place in places]] = new
        return self._with_added(self.labels, attributes, added)

    def rename(self, names: Mapping[Any, Any]) -> ClassTable:
        """Return the table with other labels for some classes; their rows stay."""
        labels = [names.get(name, name) for name in self.labels.tolist()]
        new = label_array(labels, self.labels)
        return self._with_added(new, self.attributes.array, self.added_rows)

    def with_rows(self, rows: ClassRows) -> ClassTable:
        """Return the table with other rows (C, …) of all its classes."""
        n_seen = self.n_seen
        return replace(
            self,
            seen={key: array[:n_seen] for key, array in rows.items()},
            added={key: GrowingRows(array[n_seen:]) for key, array in rows.items()},
        )

    def _with_added(
        self, labels: NDArray[Any], attributes: NDArray[np.float64], added: ClassRows
    ) -> ClassTable:
        return type(self).of(
            labels,
            attributes,
            self.seen,
            added,
            self.grown,
            self.learned_shares,
            self.has_attributes,
        )


def attribute_doubts(
    names: Sequence[Any],
    attributes: NDArray[np.float64],
    table: ClassTable | None = None,
    without: Collection[Any] = (),
) -> Iterator[str]:
    """Yield what is doubtful about the attributes of new classes, in sentences.

    Parameters
    ----------
    names : sequence of length U
    attributes : ndarray of shape (U, d)
    table : ClassTable, optional
        The classes to which they come.
    without : collection
        Those of its classes that they take the place of.
    """
    if not len(names):
        return
    places = _along(attributes)
    for index, name in enumerate(names):
        row = attributes[index]
        if not row.any():
            yield f"the attributes of class {label_text(name)} are all zero: they say nothing"
            continue
        twins = [] if table is None else [t for t in table.twins(row) if t not in without]
        if not twins:  # a class may also be like one that comes with it
            near = _near_rows(attributes[:index], places[:index], row)
            twins = [names[int(twin)] for twin in near[:1]]
        if twins:
            yield (
                f"class {label_text(name)} is described like class {label_text(twins[0])}: "
                "the two cannot be told apart"
            )


def _near_rows(
    rows: NDArray[np.float64], places: NDArray[np.float64], row: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Return which rows (C, d) equal `row` (d,); only those near it in `places` are compared."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = float(np.linalg.norm(row))
        near = _NEAR * length if np.isfinite(length) else 0.0
        few = np.flatnonzero(np.abs(places - _along(row)) <= near)
        equal: NDArray[np.intp] = few[np.linalg.norm(rows[few] - row, axis=1) <= near]
        return equal


def _along(rows: NDArray[np.float64]) -> Any:
    """Return rows (…, d) along one fixed direction of unit length."""
    with np.errstate(over="ignore", invalid="ignore"):
        return rows @ _direction(rows.shape[-1])


@cache
def _direction(width: int) -> NDArray[np.float64]:
    direction = np.random.default_rng(0).standard_normal(width)
    unit: NDArray[np.float64] = direction / np.linalg.norm(direction)
    return unit
