"""The split files of the benchmark: class names, attributes, and which rows are which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt.data.matfile import read_mat
from hgkt.exceptions import DataError

SPLIT_FILE = "att_splits.mat"
_LOCS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
_SUFFIX = "_splits.mat"
_LEAKY = ("train_loc", "val_loc")
_NAMES = ("allclasses_names", "attributes_names", "attribute_names")


def _source(kind: str) -> tuple[str, str]:
    """Return the file of a kind of attributes and the variable that holds them."""
    if kind == "original_att":
        return SPLIT_FILE, kind
    return f"{kind}{_SUFFIX}", "att"


def _file_of(kind: str) -> str:
    return _source(kind)[0]


class SplitFiles:
    """``att_splits.mat`` and every other ``NAME_splits.mat`` that is wanted, each read once.

    Parameters
    ----------
    folder : Path
        The data set's folder.
    kinds : str
        The attributes wanted: "att", "original_att", the NAME of a ``NAME_splits.mat`` such as
        "sent", or kinds joined by "+".
    """

    def __init__(self, folder: Path, kinds: str) -> None:
        self.folder = folder
        self._kinds = [kind.strip() for kind in kinds.split("+")]
        for kind in self._kinds:
            name = _source(kind)[0]
            if name != SPLIT_FILE and not (folder / name).is_file():
                there = sorted(path.name[: -len(_SUFFIX)] for path in folder.glob(f"*{_SUFFIX}"))
                choices = dict.fromkeys(["att", "original_att", *there])
                raise DataError(
                    f"unknown attributes {kind!r}: {folder} has no {name}; choose from: "
                    f"{', '.join(choices)}, or join them by '+'"
                )
        self._files = {}
        # sent_splits.mat is looked at in any case: its lists may hold test images too.
        for name in dict.fromkeys([SPLIT_FILE, "sent_splits.mat", *map(_file_of, self._kinds)]):
            if name == SPLIT_FILE or (folder / name).is_file():
                own = [_source(kind)[1] for kind in self._kinds if _source(kind)[0] == name]
                wanted = [*_LOCS.values(), *_LEAKY, *_NAMES, *own]
                self._files[name] = read_mat(folder / name, wanted)
        main = self._files[SPLIT_FILE]
        self.class_names: tuple[str, ...] | None = main.get("allclasses_names")
        self.attribute_names: tuple[str, ...] | None = main.get("attributes_names") or main.get(
            "attribute_names"
        )

    def rows(self, n_instances: int) -> dict[str, NDArray[np.intp]]:
        """Return the rows of train, test_seen and test_unseen, counted from 0."""
        path, main = self.folder / SPLIT_FILE, self._files[SPLIT_FILE]
        rows = {}
        for split, loc in _LOCS.items():
            if loc not in main:
                raise DataError(
                    f"{path} has no variable {loc!r}; the rows of that part are expected"
                )
            rows[split] = from_one(main[loc], loc, path)
            if rows[split].max() >= n_instances:
                raise DataError(
                    f"{loc} of {path} points to image {rows[split].max() + 1}, but there are "
                    f"{n_instances}; the feature file belongs to another data set or version"
                )
        return rows

    def leaks(self, rows: dict[str, NDArray[np.intp]]) -> dict[str, int]:
        """Count the test rows in `train_loc` and `val_loc` of each file that has them."""
        test = np.concatenate([rows["test_seen"], rows["test_unseen"]])
        return {
            f"{name}:{loc}": int(np.isin(from_one(found[loc], loc, self.folder / name), test).sum())
            for name, found in self._files.items()
            for loc in _LEAKY
            if np.size(found.get(loc, ()))
        }

    def attributes(self, n_labelled: int) -> tuple[NDArray[np.float32], list[int]]:
        """Return the attributes of all classes.

        Parameters
        ----------
        n_labelled : int
            The highest label, counted from 1: there are at least so many classes.

        Returns
        -------
        attributes : ndarray of shape (n_classes, n_attributes)
        widths : list of int
            How many columns each kind has.
        """
        parts = [self._attributes_of(kind, n_labelled) for kind in self._kinds]
        if len(parts) > 1:
            if len({len(part) for part in parts}) > 1:
                kinds, counts = "+".join(self._kinds), " and ".join(str(len(p)) for p in parts)
                raise DataError(f"attributes {kinds!r} of {self.folder} are for {counts} classes")
            parts = [unit_rows(part) for part in parts]
        return np.hstack(parts).astype(np.float32), [part.shape[1] for part in parts]

    def _attributes_of(self, kind: str, n_labelled: int) -> NDArray[np.float64]:
        name, variable = _source(kind)
        path = self.folder / name
        found = self._files[name]
        if variable not in found:
            other = "att" if variable != "att" else "original_att"
            raise DataError(f"{path} has no variable {variable!r}; try attributes={other!r}")
        values = np.asarray(found[variable])
        if values.dtype.kind not in "fiu" or values.ndim != 2:
            raise DataError(f"{variable} of {path} must be a matrix of numbers; got {values.shape}")
        matrix = _classes_first(values, self.class_names, n_labelled, f"{variable} of {path}")
        if kind == "original_att":
            matrix = original_scale(matrix)
        own_names = found.get("allclasses_names")
        if self.class_names is None or own_names is None or own_names == self.class_names:
            return matrix
        position = {name: row for row, name in enumerate(own_names)}
        for name in self.class_names:
            if name not in position:
                raise DataError(f"class {name!r} has no attributes in {path}")
        return matrix[[position[name] for name in self.class_names]]


def from_one(values: Any, what: str, path: Path) -> NDArray[np.intp]:
    """Turn whole numbers counted from 1, of any shape and type, into a vector counted from 0."""
    array = np.asarray(values)
    vector = array.ravel()
    if array.dtype.kind not in "fiu" or max(array.shape, default=0) != vector.size:
        raise DataError(f"{what} of {path} must be a vector of numbers; got shape {array.shape}")
    whole = vector.astype(np.intp) if np.isfinite(vector).all() else np.zeros(0, dtype=np.intp)
    if vector.size == 0 or len(whole) != len(vector) or (whole != vector).any():
        raise DataError(f"{what} of {path} must be a non-empty vector of whole numbers")
    if whole.min() < 1:
        position = int(whole.argmin())
        raise DataError(
            f"{what} of {path} holds {whole[position]} at position {position + 1}; "
            "this layout counts from 1"
        )
    return whole - 1


def original_scale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Set missing values (stored as −1) to 0 and bring percentages to [0, 1].

    Examples
    --------
    >>> original_scale(np.array([-1.0, 25.0, 100.0]))
    array([0.  , 0.25, 1.  ])
    """
    known = np.maximum(values, 0.0)
    return known / 100.0 if known.max(initial=0.0) > 1.0 else known


def _classes_first(
    values: NDArray[Any], class_names: tuple[str, ...] | None, n_labelled: int, what: str
) -> NDArray[np.float64]:
    """Turn d×C (as the benchmark stores it) or C×d into C×d."""
    n_classes = len(class_names) if class_names else n_labelled
    if values.shape[1] == n_classes:
        values = values.T
    elif values.shape[0] != n_classes:
        # Without names there may be more classes than labels: trust the benchmark's orientation.
        if class_names or values.shape[1] < n_classes:
            raise DataError(
                f"{what} has shape {values.shape}, which does not fit {n_classes} classes; "
                "attributes × classes is expected"
            )
        values = values.T
    return values.astype(np.float64)
