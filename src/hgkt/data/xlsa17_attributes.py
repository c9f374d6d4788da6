"""Class attributes of the benchmark's folders: as stored, original, sentences, or joined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hgkt.data.matfile import read_mat
from hgkt.exceptions import DataError

_SOURCES = {
    "att": ("att_splits.mat", "att"),
    "original_att": ("att_splits.mat", "original_att"),
    "sent": ("sent_splits.mat", "att"),
}


def load_attributes(
    folder: Path, kinds: str, class_names: tuple[str, ...] | None, n_labelled: int
) -> tuple[NDArray[np.float32], list[int]]:
    """Read the attributes of all classes.

    Parameters
    ----------
    folder : Path
        The data set's folder.
    kinds : str
        "att", "original_att", "sent", or kinds joined by "+".
    class_names : tuple of str or None
        Names in the order of the labels, where the files have them.
    n_labelled : int
        The highest label, counted from 1: there are at least so many classes.

    Returns
    -------
    attributes : ndarray of shape (n_classes, n_attributes)
    widths : list of int
        How many columns each kind has.
    """
    wanted = [kind.strip() for kind in kinds.split("+")]
    parts = [_read_kind(folder, kind, class_names, n_labelled) for kind in wanted]
    if len(parts) > 1:
        if len({len(part) for part in parts}) > 1:
            counts = " and ".join(str(len(part)) for part in parts)
            raise DataError(f"attributes {kinds!r} of {folder} are for {counts} classes")
        parts = [unit_rows(part) for part in parts]
    return np.hstack(parts).astype(np.float32), [part.shape[1] for part in parts]


def original_scale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Set missing values (stored as −1) to 0 and bring percentages to [0, 1].

    Parameters
    ----------
    values : ndarray
        `original_att` as stored: 0..1 or 0..100.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> original_scale(np.array([-1.0, 25.0, 100.0]))
    array([0.  , 0.25, 1.  ])
    """
    known = np.maximum(values, 0.0)
    return known / 100.0 if known.max(initial=0.0) > 1.0 else known


def _read_kind(
    folder: Path, kind: str, class_names: tuple[str, ...] | None, n_labelled: int
) -> NDArray[np.float64]:
    if kind not in _SOURCES:
        raise DataError(
            f"unknown attributes {kind!r}; choose from: {', '.join(_SOURCES)}, or join them by '+'"
        )
    file_name, variable = _SOURCES[kind]
    path = folder / file_name
    if not path.is_file():
        raise DataError(f"{folder} has no {file_name}, so there are no attributes {kind!r}")
    found = read_mat(path, [variable, "allclasses_names"])
    if variable not in found:
        other = "att" if variable != "att" else "original_att"
        raise DataError(f"{path} has no variable {variable!r}; try attributes={other!r}")
    values = np.asarray(found[variable])
    if values.dtype.kind not in "fiu" or values.ndim != 2:
        raise DataError(f"{variable} of {path} must be a matrix of numbers; got {values.shape}")
    matrix = _classes_first(values, class_names, n_labelled, f"{variable} of {path}")
    if kind == "original_att":
        matrix = original_scale(matrix)
    own_names = found.get("allclasses_names")
    if class_names is None or own_names is None or own_names == class_names:
        return matrix
    return _reordered(matrix, own_names, class_names, path)


def _classes_first(
    values: NDArray[np.generic], class_names: tuple[str, ...] | None, n_labelled: int, what: str
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


def _reordered(
    matrix: NDArray[np.float64],
    own_names: tuple[str, ...],
    class_names: tuple[str, ...],
    path: Path,
) -> NDArray[np.float64]:
    position = {name: row for row, name in enumerate(own_names)}
    for name in class_names:
        if name not in position:
            raise DataError(f"class {name!r} has no attributes in {path}")
    return matrix[[position[name] for name in class_names]]


def unit_rows(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale the vector of each class to length one; a vector of zeros stays."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(norms > 0, norms, 1.0)
