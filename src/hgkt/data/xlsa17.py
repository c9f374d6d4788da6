"""Reader of the benchmark's folders: features, labels, splits, class lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import read_json
from hgkt.data.array_files import read_npy
from hgkt.data.dataset import ClassFold, GZSLDataset
from hgkt.data.matfile import MatFile
from hgkt.data.memmaps import cached_npy, open_npy
from hgkt.data.xlsa17_splits import SplitFiles, from_one
from hgkt.exceptions import DataError

_MAX_FOLDS = 9
_FEATURES = "res101"
_ATTRIBUTE_KEYS = ("encoder", "attribute_blocks", "attribute_kinds", "attribute_names")


def read_xlsa17(
    folder: str | Path,
    features: str | None = None,
    attributes: str = "att",
    mmap: bool = False,
) -> GZSLDataset:
    """Read a data set in the layout of the benchmark's archive.

    ``<features>.mat`` holds `features` (D×N), `labels` (from 1) and perhaps `image_files`;
    ``att_splits.mat`` holds attributes, class names and the index lists (from 1). Transposed
    matrices, rows for columns, floats for integers and both MAT generations are accepted.
    Training rows are `trainval_loc`, never `train_loc`, which in files that circulate contains
    test-seen images. Validation folds come from the class lists. Every file is opened once.

    Parameters
    ----------
    folder : path
        The data set's folder.
    features : str, optional
        Feature file, without suffix; by default "res101", or the only one that is there.
        ``<features>.npy`` (N×D) is taken too, with labels in ``<features>.mat`` or ``labels.npy``.
    attributes : str
        "att" (as stored), "original_att" (missing values, −1, become 0; percentages are divided
        by 100), "sent" or any other NAME (`att` of ``NAME_splits.mat``), or kinds joined by "+":
        each part is then scaled to unit length and the parts are concatenated.
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
    features = _default_features(folder) if features is None else features
    splits = SplitFiles(folder, attributes)
    X, labels, image_files, file_name = _read_features(folder, features, mmap)
    class_attributes, blocks = splits.attributes(int(labels.max()) + 1)
    names = splits.class_names or tuple(f"class {c + 1}" for c in range(len(class_attributes)))
    rows = splits.rows(len(labels))
    folds, unmatched = _read_folds(folder, names, set(labels[rows["train"]].tolist()))
    attribute_names = splits.attribute_names
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
            "leaks": splits.leaks(rows),
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
            with MatFile(path) as file:
                if "features" in file.shapes():
                    found.add(path.stem)
        except DataError:
            continue
    return sorted(found)


def _default_features(folder: Path) -> str:
    """Return the benchmark's own features, or the only ones that are there."""
    if any((folder / f"{_FEATURES}{suffix}").is_file() for suffix in (".mat", ".npy")):
        return _FEATURES
    there = feature_files(folder)
    return there[0] if len(there) == 1 else _FEATURES


def _read_features(
    folder: Path, features: str, mmap: bool
) -> tuple[NDArray[Any], NDArray[np.intp], tuple[str, ...] | None, str]:
    """Return features, labels, image files where there are some, and the feature file's name."""
    mat, npy = folder / f"{features}.mat", folder / f"{features}.npy"
    if mat.is_file():
        with MatFile(mat) as file:
            found = file.read(["labels", "image_files"])
            labels = _labels(found, folder, mat)
            X = open_npy(npy, mmap) if npy.is_file() else _mat_features(file, len(labels), mmap)
    elif npy.is_file():
        found = {}
        labels = _labels(found, folder, mat)
        X = open_npy(npy, mmap)
    else:
        there = ", ".join(feature_files(folder)) or "none"
        raise DataError(
            f"{folder} has no feature file {mat.name}; feature files there: {there} "
            "(choose one with --features, in Python features=)"
        )
    if len(X) != len(labels):
        raise DataError(f"{npy} has {len(X)} rows for {len(labels)} labels")
    image_files = found.get("image_files")
    if image_files is not None and len(image_files) != len(labels):
        image_files = None
    return X, labels, image_files, npy.name if npy.is_file() else mat.name


def _labels(found: dict[str, Any], folder: Path, mat: Path) -> NDArray[np.intp]:
    """Return the class codes, from the MAT file's variables or from ``labels.npy``."""
    path = folder / "labels.npy"
    if "labels" in found:
        return from_one(found["labels"], "labels", mat)
    if not path.is_file():
        raise DataError(f"{mat} has no variable 'labels'; the class of each image is expected")
    return from_one(read_npy(path), "labels", path)


def _mat_features(file: MatFile, n_instances: int, mmap: bool) -> NDArray[np.float32]:
    shape = file.shapes().get("features")
    if shape is None:
        raise DataError(f"{file.path} has no variable 'features'; a matrix D×N is expected")
    if len(shape) != 2 or n_instances not in shape:
        raise DataError(
            f"features of {file.path} have shape {shape}, which does not fit {n_instances} labels; "
            "D×N is expected"
        )
    instances_first = shape[1] != n_instances
    if not mmap:
        return file.matrix("features", instances_first)
    pieces = file.pieces("features", instances_first)
    return cached_npy(file.path, "features", shape if instances_first else shape[::-1], pieces)


def _made_with(path: Path, attributes: str) -> dict[str, Any]:
    """Read what features, and the attributes stored with them, were made with."""
    made = read_json(path) if path.is_file() else {}
    keys = ("backbone", *(_ATTRIBUTE_KEYS if attributes == "att" else ()))
    return {key: made[key] for key in keys if key in made}


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
            codes = []
            for name in _read_list(folder / f"{kind}classes{number}.txt"):
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
