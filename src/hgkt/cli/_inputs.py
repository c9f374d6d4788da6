"""What a user hands in: rows of features, images, attribute vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._files import reading
from hgkt._validation import check_features
from hgkt.cli._common import note, progress_bar
from hgkt.cli._model import about_model
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

_SHOWN_UNREADABLE = 5
_SUFFIXES = (".npy", ".npz", ".csv", ".parquet", ".mat")

InputOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="PATH",
        help=f"Features ({', '.join(_SUFFIXES)}), an image, or a folder of images.",
    ),
]


@dataclass(frozen=True)
class Input:
    """Features to predict, and where they came from.

    Parameters
    ----------
    features : ndarray of shape (n, n_features)
        One row per instance.
    files : tuple of str or None
        The image of each row; None where the features came from a file of features.
    unreadable : tuple of (str, str)
        Images that were left out, each with the sentence that says why.
    """

    features: NDArray[Any]
    files: tuple[str, ...] | None = None
    unreadable: tuple[tuple[str, str], ...] = ()


# ---------------------------------------------------------------------- features and images
def read_input(
    path: Path, model: GZSLClassifier, weights: Path | None = None, device: str = "auto"
) -> Input:
    """Read features from a file, or extract those of images with the model's own backbone.

    Parameters
    ----------
    path : Path
        A file of features, an image, or a folder of images (of any depth).
    model : GZSLClassifier
        The model; its folder says which backbone made the features it was trained on.
    weights : Path, optional
        File or folder with the weights of that backbone, if they are not where they were.
    device : str
        Where to extract.

    Returns
    -------
    Input
    """
    from hgkt.vision.images import IMAGE_SUFFIXES

    if not path.is_dir() and path.suffix.lower() not in IMAGE_SUFFIXES:
        return Input(read_features(path, model.n_features_in_))
    base = path if path.is_dir() else path.parent
    entries = {file.relative_to(base).as_posix(): file for file in _images_at(path)}
    return _extract(entries, model, weights, device)


def read_images(
    paths: Sequence[Path], model: GZSLClassifier, weights: Path | None = None, device: str = "auto"
) -> Input:
    """Extract the features of images and of folders of images, with the model's own backbone.

    Parameters
    ----------
    paths : sequence of Path
        Images, and folders of images (of any depth); rows keep these names.
    model, weights, device
        See `read_input`.

    Returns
    -------
    Input
    """
    entries = {str(file): file for path in paths for file in _images_at(path)}
    return _extract(entries, model, weights, device)


def show_unreadable(given: Input) -> None:
    """Say on stderr which images were left out, and why."""
    for _, reason in given.unreadable[:_SHOWN_UNREADABLE]:
        note(f"left out: {reason}")
    if len(given.unreadable) > _SHOWN_UNREADABLE:
        more = len(given.unreadable) - _SHOWN_UNREADABLE
        note(f"… {more} more were left out; --json has them all")


def _images_at(path: Path) -> list[Path]:
    from hgkt.vision import find_images

    files = find_images(path) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} has no images")
    return files


def _extract(
    files: Mapping[str, Path], model: GZSLClassifier, weights: Path | None, device: str
) -> Input:
    from hgkt.vision import ImageEntry, extract_features, load_backbone

    record = about_model(model).get("backbone")
    if not record:
        raise DataError(
            f"this model reads features ({', '.join(_SUFFIXES)}), as it was trained on features of "
            f"which it does not know the backbone; {next(iter(files.values()))} is an image"
        )
    backbone = load_backbone(record, device, None if weights is None else str(weights))
    if backbone.n_features != model.n_features_in_:
        raise DataError(
            f"backbone {backbone.record['name']!r} makes {backbone.n_features} features; the model "
            f"expects {model.n_features_in_}"
        )
    entries = [ImageEntry(name, file) for name, file in files.items()]
    with progress_bar() as bar:
        found = extract_features(entries, backbone, progress=bar)
    return Input(
        found.features,
        tuple(entry.id for entry in found.entries),
        tuple((entry.id, reason) for entry, reason in found.unreadable),
    )


def read_features(path: Path, n_features: int) -> NDArray[Any]:
    """Read a matrix with `n_features` columns; one row per instance.

    A table has the features as numeric columns (``f0, f1, …``) or as one list column
    ``features``; an archive has them under ``features`` or holds a single matrix. A MATLAB file
    may hold them as the benchmark does, one column per instance. One vector counts as one row.

    Parameters
    ----------
    path : Path
        The file.
    n_features : int
        What the model expects.

    Returns
    -------
    ndarray of shape (n, n_features)
    """
    if path.suffix not in _SUFFIXES:
        raise DataError(
            f"{path} has the suffix {path.suffix!r}; one of {', '.join(_SUFFIXES)} is expected"
        )
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    readers = {".npy": _read_numpy, ".npz": _read_numpy, ".mat": _read_mat}
    matrix = np.asarray(readers.get(path.suffix, _read_table)(path))
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{path} holds {matrix.dtype}; numbers are expected")
    if matrix.ndim == 1:
        matrix = matrix[None, :]
    if path.suffix == ".mat" and matrix.shape[0] == n_features != matrix.shape[1]:
        matrix = matrix.T
    if matrix.ndim != 2 or not len(matrix):
        raise DataError(f"{path} has shape {matrix.shape}; rows of features are expected")
    if matrix.shape[1] != n_features:
        raise DataError(
            f"{path} has {matrix.shape[1]} features a row; the model expects {n_features}"
        )
    if matrix.dtype != np.float32:  # small numbers fit float32 without loss
        matrix = matrix.astype(np.float32 if matrix.dtype.itemsize <= 2 else np.float64)
    check_features(matrix, f"features in {path}")
    return matrix


def _read_numpy(path: Path) -> NDArray[Any]:
    from hgkt.data.arrays import read_npy, read_npz

    if path.suffix == ".npy":
        return read_npy(path)
    matrices = read_npz(path)
    if "features" in matrices:
        return matrices["features"]
    wide = [array for array in matrices.values() if array.ndim == 2]
    if len(wide) != 1:
        raise DataError(
            f"{path} has no array 'features' and not a single matrix; it holds: "
            f"{', '.join(matrices) or 'nothing'}"
        )
    return wide[0]


def _read_mat(path: Path) -> NDArray[Any]:
    from hgkt.data.matlab import read_mat

    found = read_mat(path, ["features"])
    if "features" not in found:
        raise DataError(f"{path} has no variable 'features'")
    return np.asarray(found["features"])


def _read_table(path: Path) -> NDArray[Any]:
    from hgkt.data.tables import parse_features, read_frame

    return parse_features(read_frame(path), path)


# ---------------------------------------------------------------------- attribute vectors
def read_vector(text: str) -> NDArray[np.float64]:
    """Read ``"0.1, 0.2"``, or ``@FILE`` with the numbers as text, JSON list or .npy.

    Examples
    --------
    >>> read_vector("0.5, 1")
    array([0.5, 1. ])
    """
    source, values = "--attributes", None
    if text.startswith("@"):
        path = Path(text[1:])
        source = str(path)
        if path.suffix == ".npy":
            from hgkt.data.arrays import read_npy

            values = read_npy(path)
        else:
            with reading(path, "attributes"):
                text = path.read_text(encoding="utf-8")
    if values is None:
        words = [word for word in re.split(r"[\s,;\[\]]+", text) if word]
        try:
            values = np.array([float(word) for word in words])
        except ValueError as error:
            sentence = f"{source}: {error}; numbers with commas between are expected"
            raise DataError(sentence) from None
    if values.ndim != 1 or values.dtype.kind not in "fiub" or not len(values):
        raise DataError(f"{source} must hold one vector of numbers; got shape {values.shape}")
    return values.astype(np.float64)


def read_pairs(pairs: list[str]) -> dict[str, float]:
    """Read ``NAME=VALUE`` pairs; a name may hold an equals sign itself.

    Examples
    --------
    >>> read_pairs(["striped=1", "Hooves = 0.5"])
    {'striped': 1.0, 'Hooves': 0.5}
    """
    values = {}
    for pair in pairs:
        name, equals, value = pair.rpartition("=")
        if not equals:
            raise DataError(f"--attribute expects NAME=VALUE; got {pair!r}")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise DataError(
                f"attribute {name!r} has the value {value!r}; a number is expected"
            ) from None
    return values
