"""The benchmark's folders, read and written: features, labels, splits, attributes, class lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._files import atomic_folder, read_json
from hgkt._plain import json_text
from hgkt.data.arrays import cached_npy, open_npy, read_npy
from hgkt.data.dataset import (
    ClassFold,
    Finding,
    GZSLDataset,
    compare_counts,
    compare_split,
    leak_findings,
    shared_rows,
    split_digest,
)
from hgkt.data.matlab import MatFile, read_mat
from hgkt.exceptions import DataError

SPLIT_FILE = "att_splits.mat"
_LOCS = {"train": "trainval_loc", "test_seen": "test_seen_loc", "test_unseen": "test_unseen_loc"}
_SUFFIX = "_splits.mat"
_LEAKY = ("train_loc", "val_loc")
_NAMES = ("allclasses_names", "attributes_names", "attribute_names")
_MAX_FOLDS = 9
_FEATURES = "res101"
_V5_LIMIT = 2**31 - 2**20  # bytes of one variable
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
    names = splits.names_of(len(class_attributes))
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


def check_splits(
    folder: str | Path, attributes: str = "att"
) -> tuple[dict[str, Any], list[Finding]]:
    """Look over a folder that has a split file and no features.

    Parameters
    ----------
    folder : path
        The data set's folder.
    attributes : str
        As for `read_xlsa17`.

    Returns
    -------
    summary : dict
        Counts under the keys of ``GZSLDataset.summary``, as far as a split says them.
    findings : list of Finding
        Whether counts and split are the published ones, which lists hold test images, and that
        features are missing: an error.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.data import load_digits
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = write_xlsa17(load_digits(), f"{root}/digits")
    ...     (folder / "features.mat").unlink()
    ...     summary, findings = check_splits(folder)
    >>> summary["n_classes"], findings[0].sentence
    (10, '1,797 images in the split: 1,151 in train, 288 in test_seen, 358 in test_unseen')
    """
    folder = Path(folder)
    name, splits = folder.resolve().name, SplitFiles(folder, attributes)
    rows, (vectors, _) = splits.rows(), splits.attributes()
    counts = {f"n_{split}": len(index) for split, index in rows.items()}
    summary = {
        "name": name,
        "n_instances": len(np.unique(np.concatenate([*rows.values()]))),
        "n_attributes": vectors.shape[1],
        "n_classes": len(vectors),
        **counts,
    }
    sizes = ", ".join(f"{len(index):,} in {split}" for split, index in rows.items())
    digest = split_digest(splits.names_of(len(vectors)), rows)
    return summary, [
        Finding("ok", f"{summary['n_instances']:,} images in the split: {sizes}"),
        Finding("ok", f"{len(vectors)} classes with {vectors.shape[1]} attributes each"),
        *compare_counts(name, summary, attributes),
        *(Finding("error", sentence) for sentence in shared_rows(rows)),
        *leak_findings(splits.leaks(rows)),
        compare_split(name, digest),
        Finding(
            "error",
            f"{folder} has a split file and no features: put {_FEATURES}.mat, or another file with "
            "features and labels of these images, beside it",
        ),
    ]


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
    files = feature_files(folder)
    return files[0] if len(files) == 1 else _FEATURES


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
        files = ", ".join(feature_files(folder)) or "none"
        raise DataError(
            f"{folder} has no feature file {mat.name}; feature files there: {files} "
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
    origin = read_json(path) if path.is_file() else {}
    keys = ("backbone", *(_ATTRIBUTE_KEYS if attributes == "att" else ()))
    return {key: origin[key] for key in keys if key in origin}


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


# ---------------------------------------------------------------------- split files
class _Kind(NamedTuple):
    """A kind of attributes: its file, and the variable that holds it there."""

    name: str
    file: str
    variable: str

    @classmethod
    def named(cls, name: str) -> _Kind:
        if name == "original_att":
            return cls(name, SPLIT_FILE, name)
        return cls(name, f"{name}{_SUFFIX}", "att")


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
        self._kinds = [_Kind.named(kind.strip()) for kind in kinds.split("+")]
        for kind, name, _ in self._kinds:
            if name != SPLIT_FILE and not (folder / name).is_file():
                found = sorted(path.name[: -len(_SUFFIX)] for path in folder.glob(f"*{_SUFFIX}"))
                choices = dict.fromkeys(["att", "original_att", *found])
                raise DataError(
                    f"unknown attributes {kind!r}: {folder} has no {name}; choose from: "
                    f"{', '.join(choices)}, or join them by '+'"
                )
        self._files = {}
        # sent_splits.mat is looked at in any case: its lists may hold test images too.
        files = [SPLIT_FILE, "sent_splits.mat", *(kind.file for kind in self._kinds)]
        for name in dict.fromkeys(files):
            if name == SPLIT_FILE or (folder / name).is_file():
                own = [kind.variable for kind in self._kinds if kind.file == name]
                wanted = [*_LOCS.values(), *_LEAKY, *_NAMES, *own]
                self._files[name] = read_mat(folder / name, wanted)
        names, *others = (self._files[SPLIT_FILE].get(name) for name in _NAMES)
        self.class_names: tuple[str, ...] | None = names
        self.attribute_names: tuple[str, ...] | None = others[0] or others[1]

    def names_of(self, n_classes: int) -> tuple[str, ...]:
        """Return the names of the classes; numbers where the file has none."""
        return self.class_names or tuple(f"class {code + 1}" for code in range(n_classes))

    def rows(self, n_instances: int | None = None) -> dict[str, NDArray[np.intp]]:
        """Return the rows of train, test_seen and test_unseen, counted from 0.

        Where it is known how many instances there are, a row beyond them is refused.
        """
        path, main = self.folder / SPLIT_FILE, self._files[SPLIT_FILE]
        rows = {}
        for split, loc in _LOCS.items():
            if loc not in main:
                raise DataError(
                    f"{path} has no variable {loc!r}; the rows of that part are expected"
                )
            rows[split] = from_one(main[loc], loc, path)
            if n_instances is not None and rows[split].max() >= n_instances:
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

    def attributes(self, n_labelled: int = 0) -> tuple[NDArray[np.float32], list[int]]:
        """Return the attributes of all classes.

        Parameters
        ----------
        n_labelled : int
            The highest label, counted from 1: there are at least so many classes. 0 where labels
            are not known.

        Returns
        -------
        attributes : ndarray of shape (n_classes, n_attributes)
        widths : list of int
            How many columns each kind has.
        """
        parts = [self._attributes_of(kind, n_labelled) for kind in self._kinds]
        if len(parts) > 1:
            if len({len(part) for part in parts}) > 1:
                kinds = "+".join(kind.name for kind in self._kinds)
                counts = " and ".join(str(len(part)) for part in parts)
                raise DataError(f"attributes {kinds!r} of {self.folder} are for {counts} classes")
            parts = [unit_rows(part) for part in parts]
        return np.hstack(parts).astype(np.float32), [part.shape[1] for part in parts]

    def _attributes_of(self, kind: _Kind, n_labelled: int) -> NDArray[np.float64]:
        path, found, variable = self.folder / kind.file, self._files[kind.file], kind.variable
        if variable not in found:
            other = "att" if variable != "att" else "original_att"
            raise DataError(f"{path} has no variable {variable!r}; try attributes={other!r}")
        values = np.asarray(found[variable])
        if values.dtype.kind not in "fiu" or values.ndim != 2:
            raise DataError(f"{variable} of {path} must be a matrix of numbers; got {values.shape}")
        matrix = _classes_first(values, self.class_names, n_labelled, f"{variable} of {path}")
        if kind.name == "original_att":
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
    values = np.maximum(values, 0.0)
    return values / 100.0 if values.max(initial=0.0) > 1.0 else values


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


# ---------------------------------------------------------------------- writing
def write_xlsa17(dataset: GZSLDataset, path: str | Path, features: str = "features") -> Path:
    """Write ``<features>.mat``, ``att_splits.mat`` and the class lists to a new folder.

    What features and attributes were made with goes to ``<features>.json``.

    `att` and `original_att` both hold the attributes exactly as the data set has them, so that
    reading the folder gives the same data set; the benchmark's own `att` has unit columns.

    Parameters
    ----------
    dataset : GZSLDataset
        The data set.
    path : path
        A folder that does not exist yet, or is empty.
    features : str
        Name of the feature file, without suffix.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.data import load_digits, read_xlsa17
    >>> data = load_digits()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = read_xlsa17(write_xlsa17(data, f"{folder}/digits"), features="features")
    >>> again.fingerprint() == data.fingerprint()
    True
    """
    from scipy.io import savemat

    if dataset.features.size * 4 > _V5_LIMIT:
        raise DataError(
            f"the features of {dataset.name!r} exceed the 2 GB of a MATLAB file of version 5; "
            "tables have no such limit"
        )
    with atomic_folder(path) as folder:
        variables = _feature_variables(dataset)
        savemat(folder / f"{features}.mat", variables, do_compression=True)
        savemat(folder / "att_splits.mat", _split_variables(dataset), do_compression=True)
        _write_lists(dataset, folder)
        keys = ("backbone", *_ATTRIBUTE_KEYS)
        if about := {key: dataset.about[key] for key in keys if key in dataset.about}:
            (folder / f"{features}.json").write_text(json_text(about), encoding="utf-8")
    return Path(path)


def _feature_variables(dataset: GZSLDataset) -> dict[str, Any]:
    variables: dict[str, Any] = {
        "features": np.asarray(dataset.features, dtype=np.float32).T,
        "labels": _column(dataset.labels),
    }
    if dataset.image_files is not None:
        variables["image_files"] = _cell(dataset.image_files)
    return variables


def _split_variables(dataset: GZSLDataset) -> dict[str, Any]:
    attributes = dataset.class_attributes.T.astype(np.float64)
    variables = {
        "att": attributes,
        "original_att": attributes,
        "allclasses_names": _cell(dataset.class_names),
        "trainval_loc": _column(dataset.train),
        "test_seen_loc": _column(dataset.test_seen),
        "test_unseen_loc": _column(dataset.test_unseen),
    }
    if dataset.attribute_names is not None:
        variables["attributes_names"] = _cell(dataset.attribute_names)
    return variables


def _column(codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Count from 1 and stand upright, in MATLAB's default type."""
    return (codes[:, None] + 1).astype(np.float64)


def _cell(texts: Sequence[str]) -> NDArray[np.object_]:
    cell = np.empty((len(texts), 1), dtype=object)
    cell[:, 0] = texts
    return cell


def _write_lists(dataset: GZSLDataset, folder: Path) -> None:
    lists = {
        "allclasses": list(dataset.class_names),
        "trainvalclasses": dataset.names(dataset.seen_classes),
        "testclasses": dataset.names(dataset.unseen_classes),
    }
    for number, (train, val) in enumerate(dataset.class_folds(), start=1):
        lists[f"trainclasses{number}"] = train
        lists[f"valclasses{number}"] = val
    for name, classes in lists.items():
        text = "".join(f"{item}\n" for item in classes)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
