"""Write extracted features as a folder that `load_dataset` reads: tables, or the benchmark's."""

from __future__ import annotations

import csv
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hgkt._files import atomic_folder, escape_cell, escape_frame
from hgkt._plain import json_text
from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.vision.extraction import Extraction
from hgkt.vision.listing import ImageEntry

if TYPE_CHECKING:
    import pandas as pd

FORMATS = ("parquet", "xlsa17")
# What a feature file of the benchmark cannot say itself; in a JSON file of its name beside it.
_ABOUT_KEYS = ("backbone", "encoder", "attribute_blocks", "attribute_kinds", "attribute_names")


@dataclass(frozen=True)
class ClassTable:
    """A table of classes with attributes, looked at once.

    Parameters
    ----------
    path : Path
        The table, .parquet or .csv.
    names : tuple of str
        The classes.
    unseen : tuple of str
        Classes that get no training images; where it is empty the table or the images say so.
    """

    path: Path
    names: tuple[str, ...]
    unseen: tuple[str, ...] = ()


def read_classes(path: str | Path, unseen: Sequence[str] = ()) -> ClassTable:
    """Look at a table of classes: a column ``name`` and attributes.

    Parameters
    ----------
    path : path
        The table, as `hgkt describe` writes it or by hand: .parquet or .csv.
    unseen : sequence of str
        Classes that are unseen, where the table has no column ``seen``.

    Returns
    -------
    ClassTable
    """
    from hgkt.data import read_attribute_file

    path = Path(path)
    names = read_attribute_file(path).names
    for name in unseen:
        if name not in names:
            raise DataError(f"the unseen class {name!r} is not in {path}")
    return ClassTable(path, names, tuple(unseen))


def check_plan(
    entries: Sequence[ImageEntry], classes: ClassTable | None, name: str, format: str
) -> str | None:
    """Find out before hours of work whether the folder will be a data set.

    Parameters
    ----------
    entries : sequence of ImageEntry
        The images.
    classes : ClassTable or None
        The classes, where they are known.
    name : str
        Name of the data set.
    format : {"parquet", "xlsa17"}
        The layout; "xlsa17" needs everything now.

    Returns
    -------
    str or None
        What is still needed, one sentence; None where nothing is.
    """
    check_choice("format", format, FORMATS)
    if classes is None:
        if format == "xlsa17":
            raise DataError(
                "the format xlsa17 holds class attributes too; give them with --classes FILE, or "
                "take --format parquet"
            )
        return "to load it, put classes.parquet or classes.csv (name, attributes) in it"
    known = set(classes.names)
    for entry in entries:
        if entry.label not in known:
            raise DataError(
                f"{entry.id} has class {entry.label!r}, which is not in {classes.path}; one row "
                "per class is expected there"
            )
    problem = _dry_run(entries, classes, name)
    if problem and format == "xlsa17":
        raise DataError(problem)
    return problem


def write_extraction(
    extraction: Extraction,
    out: str | Path,
    record: Mapping[str, Any],
    classes: ClassTable | None = None,
    name: str | None = None,
    format: str = "parquet",
) -> Path:
    """Write features, classes and the backbone's record to a new folder, in one step.

    Parameters
    ----------
    extraction : Extraction
        The features.
    out : path
        A folder that does not exist yet, or is empty.
    record : mapping
        The backbone's record; it arrives in ``load_dataset(out).about["backbone"]``.
    classes : ClassTable, optional
        The classes; "xlsa17" needs them.
    name : str, optional
        Name of the data set; by default that of the folder.
    format : {"parquet", "xlsa17"}
        The layout.

    Returns
    -------
    Path
        The folder.
    """
    check_choice("format", format, FORMATS)
    out = Path(out)
    name = name or out.resolve().name
    with atomic_folder(out) as folder:
        if format == "parquet":
            _write_tables(extraction, folder, record, classes, name)
        else:
            _write_benchmark(extraction, folder, record, classes, name)
        if extraction.unreadable:
            with open(folder / "unreadable.csv", "w", newline="", encoding="utf-8") as file:
                rows = [
                    (escape_cell(entry.id), escape_cell(reason))
                    for entry, reason in extraction.unreadable
                ]
                csv.writer(file).writerows([("file", "reason"), *rows])
    return out


def feature_stem(record: Mapping[str, Any]) -> str:
    """Return the name of a feature file: the backbone's, fit for a file name."""
    source = str(record.get("source") or "")
    name = source if record["name"] == "transformers" else str(record["name"])
    return re.sub(r"[^\w.-]+", "-", Path(name).name).strip("-") or "features"


def _write_tables(
    extraction: Extraction,
    folder: Path,
    record: Mapping[str, Any],
    classes: ClassTable | None,
    name: str,
) -> None:
    from hgkt.data.tables import write_samples

    samples = _samples_frame(extraction.entries)
    samples.insert(0, "id", [entry.id for entry in extraction.entries])
    path = folder / "samples.parquet"
    write_samples(path, samples, extraction.n_features, extraction.rows)
    _write_classes(folder, classes, name, {"backbone": dict(record)})


def _samples_frame(entries: Sequence[ImageEntry]) -> pd.DataFrame:
    """Return the class of each image and, where one has it, the part of the split."""
    import pandas as pd

    columns = {"class": [entry.label for entry in entries]}
    if any(entry.split for entry in entries):
        columns["split"] = [entry.split for entry in entries]
    return pd.DataFrame(columns, dtype=str)


def _write_classes(
    folder: Path, classes: ClassTable | None, name: str, about: dict[str, Any]
) -> None:
    if classes is not None:
        target = folder / f"classes{classes.path.suffix}"
        shutil.copyfile(classes.path, target)
        if classes.unseen:
            _mark_unseen(target, classes.unseen)
    text = json_text({"name": name, "about": about})
    (folder / "dataset.json").write_text(text, encoding="utf-8")


def _mark_unseen(path: Path, unseen: Sequence[str]) -> None:
    """Set the column ``seen``; what a Parquet file says about its vectors stays in it."""
    if path.suffix == ".csv":
        from hgkt.data.tables import read_frame

        frame = read_frame(path)
        marked = frame.assign(seen=~frame["name"].isin(unseen))
        escape_frame(marked).to_csv(path, index=False)
        return
    import pyarrow as pa
    from pyarrow import parquet

    table = parquet.read_table(path)
    seen = pa.array([str(name) not in unseen for name in table["name"].to_pylist()])
    if "seen" in table.column_names:
        table = table.drop_columns(["seen"])
    parquet.write_table(table.append_column("seen", seen), path)


def _write_benchmark(
    extraction: Extraction,
    folder: Path,
    record: Mapping[str, Any],
    classes: ClassTable | None,
    name: str,
) -> None:
    from hgkt.data import load_dataset, write_xlsa17

    if classes is None:
        raise DataError("the format xlsa17 holds class attributes too; classes are needed")
    stem = feature_stem(record)
    # Beside the target, where there is room: the temporary folder of a system may be small.
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        _write_tables(extraction, Path(scratch), record, classes, name)
        dataset = load_dataset(Path(scratch))
        write_xlsa17(dataset, folder, features=stem)
    about = {key: dataset.about[key] for key in _ABOUT_KEYS if key in dataset.about}
    (folder / f"{stem}.json").write_text(json_text(about), encoding="utf-8")


def _dry_run(entries: Sequence[ImageEntry], classes: ClassTable, name: str) -> str | None:
    """Load the folder as it will be, with a single zero for features."""
    from hgkt.data import load_dataset

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        escape_frame(_samples_frame(entries)).to_csv(folder / "samples.csv", index=False)
        np.save(folder / "features.npy", np.zeros((len(entries), 1), dtype=np.float32))
        _write_classes(folder, classes, name, {})
        try:
            load_dataset(folder)
        except DataError as error:
            copy = folder / f"classes{classes.path.suffix}"
            return str(error).replace(str(copy), str(classes.path))
    return None
