"""Write a data set in the benchmark's layout, so that other people's code can read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import atomic_folder
from hgkt._validation import check_choice, import_extra
from hgkt.data.dataset import GZSLDataset

_V5_LIMIT = 2**31 - 2**20  # bytes of one variable
_CHUNK_ROWS = 4096


def write_xlsa17(
    dataset: GZSLDataset, path: str | Path, features: str = "features", version: str = "auto"
) -> Path:
    """Write ``<features>.mat``, ``att_splits.mat`` and the class lists to a new folder.

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
    version : {"auto", "5", "7.3"}
        Generation of the feature file; "auto" takes 5 unless the features exceed its 2 GB.

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

    check_choice("version", version, ("auto", "5", "7.3"))
    if version == "auto":
        version = "5" if dataset.features.size * 4 < _V5_LIMIT else "7.3"
    with atomic_folder(path) as folder:
        target = folder / f"{features}.mat"
        if version == "5":
            savemat(target, _feature_variables(dataset), do_compression=True)
        else:
            _write_hdf5(dataset, target)
        savemat(folder / "att_splits.mat", _split_variables(dataset), do_compression=True)
        _write_lists(dataset, folder)
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


def _write_hdf5(dataset: GZSLDataset, target: Path) -> None:
    """Write MAT v7.3: HDF5 with reversed axes behind a 512-byte block that MATLAB looks for."""
    h5py = import_extra("h5py", "matlab")

    with h5py.File(target, "w", userblock_size=512) as file:
        shape = dataset.features.shape
        features = file.create_dataset("features", shape, np.float32)
        features.attrs["MATLAB_class"] = np.bytes_("single")
        for start in range(0, shape[0], _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            features[rows] = np.asarray(dataset.features[rows], dtype=np.float32)
        labels = file.create_dataset("labels", data=_column(dataset.labels).T)
        labels.attrs["MATLAB_class"] = np.bytes_("double")
        if dataset.image_files is not None:
            _hdf5_cell(file, "image_files", dataset.image_files)
    header = b"MATLAB 7.3 MAT-file, written by hgkt".ljust(116) + bytes(8) + b"\x00\x02IM"
    with open(target, "r+b") as raw:
        raw.write(header)


def _hdf5_cell(file: Any, name: str, texts: Sequence[str]) -> None:
    h5py = import_extra("h5py", "matlab")

    pool = file.require_group("#refs#")
    cell = file.create_dataset(name, (1, len(texts)), h5py.ref_dtype)
    cell.attrs["MATLAB_class"] = np.bytes_("cell")
    for position, text in enumerate(texts):
        codes = np.frombuffer(text.encode("utf-16-le"), dtype="<u2")[:, None]
        item = pool.create_dataset(f"{name}{position}", data=codes)
        item.attrs["MATLAB_class"] = np.bytes_("char")
        cell[0, position] = item.ref
