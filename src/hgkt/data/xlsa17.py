"""Reader of the benchmark's folders: features, labels, attributes, splits, class lists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.data.dataset import ClassFold, GZSLDataset
from hgkt.data.matfile import mat_shapes, read_mat
from hgkt.data.memmaps import mat_features, open_npy
from hgkt.data.xlsa17_attributes import load_attributes
from hgkt.exceptions import DataError

SPLIT_FILE = "att_splits.mat"
_LOCS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
_MAX_FOLDS = 9
_ATTRIBUTE_KEYS = ("encoder", "attribute_blocks", "attribute_kinds", "attribute_names")


def read_xlsa17(
    folder: str | Path, features: str = "res101", attributes: str = "att", mmap: bool = False
) -> GZSLDataset:
    """Read a data set in the layout of the benchmark's archive.

    ``<features>.mat`` holds `features` (D×N), `labels` (from 1) and perhaps `image_files`;
    ``att_splits.mat`` holds attributes, class names and the index lists (from 1). Transposed
    matrices, rows for columns, floats for integers and both MAT generations are accepted.
    Training rows are `trainval_loc`, never `train_loc`, which in files that circulate contains
    test-seen images. Validation folds come from the class lists.

    Parameters
    ----------
    folder : path
        The data set's folder.
    features : str
        Feature file, without suffix. ``<features>.npy`` (N×D) is taken too, with labels in
        ``<features>.mat`` or ``labels.npy``.
    attributes : str
        "att" (as stored), "original_att" (missing values, −1, become 0; percentages are divided
        by 100), "sent" (`att` of ``sent_splits.mat``), or kinds joined by "+": each part is then
        scaled to unit length and the parts are concatenated.
    mmap : bool
        Whether features stay on disk; a MAT file is converted once, in the cache folder.

    Returns
    -------
    GZSLDataset
        ``about`` says which files were read, the widths of the attribute parts, how many
        test rows `train_loc` and `val_loc` hold, class names that no class matches, and what
        ``<features>.json`` says the features were made with.
    """
    folder = Path(folder)
    splits = read_mat(
        folder / SPLIT_FILE,
        [*_LOCS.values(), "allclasses_names", "attributes_names", "attribute_names"],
    )
    X, labels, image_files, file_name = _read_features(folder, features, mmap)
    names = splits.get("allclasses_names")
    class_attributes, blocks = load_attributes(folder, attributes, names, int(labels.max()) + 1)
    names = names or tuple(f"class {code + 1}" for code in range(len(class_attributes)))
    rows = {split: _rows(splits, loc, folder, len(labels)) for split, loc in _LOCS.items()}
    folds, unmatched = _read_folds(folder, names, set(labels[rows["train"]].tolist()))
    attribute_names = splits.get("attributes_names") or splits.get("attribute_names")
    if attribute_names is not None and blocks != [len(attribute_names)]:
        attribute_names = None
    return GZSLDataset(
        name=folder.resolve().name,
        features=X,
        labels=labels,
        class_names=names,
        class_attributes=class_attributes,
        **rows,
        folds=folds,
        attribute_names=attribute_names,
        image_files=image_files,
        about={
            "layout": "xlsa17",
            "features": file_name,
            "attributes": attributes,
            "attribute_blocks": blocks,
            "leaks": _leaks(folder, rows),
            "unmatched_classes": unmatched,
            **_made_with(folder / f"{features}.json", attributes),
        },
    )


def feature_files(folder: str | Path) -> list[str]:
    """Return the feature files of a folder, without suffix: those that hold `features`.

    Parameters
    ----------
    folder : path
        A folder in the benchmark's layout.

    Returns
    -------
    list of str
        Sorted; unreadable files are left out.
    """
    found = {path.stem for path in Path(folder).glob("*.npy") if path.stem != "labels"}
    for path in Path(folder).glob("*.mat"):
        try:
            if "features" in mat_shapes(path):
                found.add(path.stem)
        except DataError:
            continue
    return sorted(found)


def _read_features(
    folder: Path, features: str, mmap: bool
) -> tuple[Any, NDArray[np.intp], tuple[str, ...] | None, str]:
    mat, npy = folder / f"{features}.mat", folder / f"{features}.npy"
    if not mat.is_file() and not npy.is_file():
        there = ", ".join(feature_files(folder)) or "none"
        raise DataError(
            f"{folder} has no feature file {mat.name}; feature files there: {there} "
            "(choose one with features=)"
        )
    found = read_mat(mat, ["labels", "image_files"]) if mat.is_file() else {}
    label_file = mat
    if "labels" not in found and (folder / "labels.npy").is_file():
        label_file = folder / "labels.npy"
        try:
            found["labels"] = np.load(label_file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{label_file} cannot be read as a .npy file: {error}") from error
    if "labels" not in found:
        raise DataError(f"{mat} has no variable 'labels'; the class of each image is expected")
    labels = _from_one(found["labels"], "labels", label_file)
    image_files = found.get("image_files")
    if image_files is not None and len(image_files) != len(labels):
        image_files = None
    if npy.is_file():
        X = open_npy(npy, mmap)
        if len(X) != len(labels):
            raise DataError(f"{npy} has {len(X)} rows for {len(labels)} labels")
        return X, labels, image_files, npy.name
    return _mat_matrix(mat, len(labels), mmap), labels, image_files, mat.name


def _made_with(path: Path, attributes: str) -> dict[str, Any]:
    """Read what features, and the attributes stored with them, were made with."""
    if not path.is_file():
        return {}
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(made, dict):
        raise DataError(f"{path} must hold one JSON object")
    keys = ("backbone", *(_ATTRIBUTE_KEYS if attributes == "att" else ()))
    return {key: made[key] for key in keys if key in made}


def _mat_matrix(mat: Path, n_instances: int, mmap: bool) -> Any:
    shape = mat_shapes(mat).get("features")
    if shape is None:
        raise DataError(f"{mat} has no variable 'features'; a matrix D×N is expected")
    if len(shape) != 2 or n_instances not in shape:
        raise DataError(
            f"features of {mat} have shape {shape}, which does not fit {n_instances} labels; "
            "D×N is expected"
        )
    instances_first = shape[1] != n_instances
    if mmap:
        return mat_features(mat, instances_first)
    values = read_mat(mat, ["features"])["features"]
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
        raise DataError(f"features of {mat} are not numbers; a matrix D×N is expected")
    return np.ascontiguousarray(values if instances_first else values.T, dtype=np.float32)


def _from_one(values: Any, what: str, path: Path) -> NDArray[np.intp]:
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


def _rows(splits: dict[str, Any], loc: str, folder: Path, n_instances: int) -> NDArray[np.intp]:
    path = folder / SPLIT_FILE
    if loc not in splits:
        raise DataError(f"{path} has no variable {loc!r}; the rows of that part are expected")
    rows = _from_one(splits[loc], loc, path)
    if rows.max() >= n_instances:
        raise DataError(
            f"{loc} of {path} points to image {rows.max() + 1}, but there are {n_instances}; "
            "the feature file belongs to another data set or version"
        )
    return rows


def _leaks(folder: Path, rows: dict[str, NDArray[np.intp]]) -> dict[str, int]:
    """Count the test rows in `train_loc` and `val_loc` of each split file that has them."""
    test = np.concatenate([rows["test_seen"], rows["test_unseen"]])
    leaks = {}
    for name in (SPLIT_FILE, "sent_splits.mat"):
        if not (folder / name).is_file():
            continue
        for loc, values in read_mat(folder / name, ["train_loc", "val_loc"]).items():
            if np.size(values):
                found = _from_one(values, loc, folder / name)
                leaks[f"{name}:{loc}"] = int(np.isin(found, test).sum())
    return leaks


def _read_folds(
    folder: Path, names: tuple[str, ...], seen: set[int]
) -> tuple[tuple[ClassFold, ...], list[str]]:
    """Read trainclasses1.txt, valclasses1.txt, …; classes that are not seen are left out."""
    exact = {name: code for code, name in enumerate(names)}
    loose: dict[str, list[int]] = {}
    for name, code in exact.items():
        loose.setdefault(_loose(name), []).append(code)
    folds: list[ClassFold] = []
    unmatched: set[str] = set()
    for number in range(1, _MAX_FOLDS + 1):
        parts = []
        for kind in ("train", "val"):
            path = folder / f"{kind}classes{number}.txt"
            codes = []
            for name in _read_list(path):
                alike = loose.get(_loose(name), [])
                match = exact.get(name, alike[0] if len(alike) == 1 else None)
                if match is None:
                    unmatched.add(name)
                elif match in seen:
                    codes.append(match)
            parts.append(np.unique(np.array(codes, dtype=np.intp)))
        if len(parts[0]) and len(parts[1]):
            folds.append(ClassFold(*parts))
    return tuple(folds), sorted(unmatched)


def _read_list(path: Path) -> list[str]:
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _loose(name: str) -> str:
    """Make '001.Black_footed_Albatross' and 'black footed albatross' agree."""
    without_number = re.sub(r"^\d+[.\s_]+", "", name.strip().lower())
    return re.sub(r"[\s_+\-]+", " ", without_number).strip()
