"""From a folder of images to a folder of tables that `load_dataset` reads."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from hgkt._files import atomic_folder, check_place, escape_frame
from hgkt._plain import json_text
from hgkt._typing import Progress
from hgkt.data import load_dataset, read_attribute_file
from hgkt.data.tables import read_frame, write_samples
from hgkt.exceptions import DataError
from hgkt.vision.backbones import load_backbone
from hgkt.vision.extraction import Extraction, extract_features, feature_journal
from hgkt.vision.listing import ImageEntry, find_entries, passed_over


@dataclass(frozen=True)
class ExtractedFolder:
    """A data set that was made of images.

    Parameters
    ----------
    path : Path
        The folder.
    extraction : Extraction
        Its rows, and the images that could not be read.
    record : dict
        The backbone's record; it arrives in ``load_dataset(path).about["backbone"]``.
    needed : str or None
        What is still needed before the folder can be loaded, in one sentence.
    passed_over : dict of str to int
        How many files are no images, by suffix.
    """

    path: Path
    extraction: Extraction
    record: dict[str, Any]
    needed: str | None
    passed_over: dict[str, int]


def extract_folder(
    images: str | Path,
    out: str | Path,
    *,
    backbone: str = "efficientnet-lite0",
    manifest: str | Path | None = None,
    classes: str | Path | None = None,
    unseen: Sequence[str] = (),
    batch_size: int = 32,
    workers: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
) -> ExtractedFolder:
    """Extract the features of images and write them as a data set, in one step.

    Finished rows are kept in `partial_folder`; interrupted, the same call goes on from there.

    Parameters
    ----------
    images : path
        A folder with one sub-folder per class, or a manifest (.csv, .parquet).
    out : path
        A folder that does not exist yet, or is empty; its name is that of the data set.
    backbone, device : str
        See `load_backbone`.
    manifest : path, optional
        A manifest whose files are inside `images`.
    classes : path, optional
        Table of the classes, ``name`` and attributes (.parquet, .csv).
    unseen : sequence of str
        Classes to test on only, where the table has no column ``seen``.
    batch_size, workers, progress
        See `extract_features`.

    Returns
    -------
    ExtractedFolder

    Examples
    --------
    >>> found = extract_folder("photos", "photos-lite0", classes="classes.csv")  # doctest: +SKIP
    >>> found.extraction.n_features  # doctest: +SKIP
    1280
    """
    out = Path(out)
    check_place(out)
    table = None if classes is None else Path(classes)
    entries = find_entries(images, manifest)
    needed = _check_classes(entries, table, unseen)
    network = load_backbone(backbone, device)
    with feature_journal(network, partial_folder(out)) as journal:
        found = extract_features(entries, network, journal, batch_size, workers, progress=progress)
        with atomic_folder(out) as folder:
            _write_samples(folder, found.entries, found.n_features, found.rows)
            _write_classes(folder, table, unseen)
            document = {"name": out.resolve().name, "about": {"backbone": network.record}}
            (folder / "dataset.json").write_text(json_text(document), encoding="utf-8")
            if found.unreadable:
                rows = [(entry.id, reason) for entry, reason in found.unreadable]
                frame = pd.DataFrame(rows, columns=["file", "reason"])
                escape_frame(frame).to_csv(folder / "unreadable.csv", index=False)
        journal.remove()
    others = {} if manifest else passed_over(images)
    return ExtractedFolder(out, found, network.record, needed, others)


def partial_folder(out: str | Path) -> Path:
    """Return where the rows of an unfinished extraction are kept."""
    place = Path(out).absolute()
    return place.with_name(f"{place.name}.partial")


def _check_classes(
    entries: Sequence[ImageEntry], table: Path | None, unseen: Sequence[str]
) -> str | None:
    """Return before hours of work what is still needed to load the folder, one sentence."""
    if table is None:
        if unseen:
            raise DataError("--unseen needs the table of classes; give it with --classes FILE")
        return "to load it, put classes.parquet or classes.csv (name, attributes) in it"
    names = read_attribute_file(table).names
    for name in unseen:
        if name not in names:
            raise DataError(f"the unseen class {name!r} is not in {table}")
    for entry in entries:
        if entry.label not in names:
            raise DataError(
                f"{entry.id} has class {entry.label!r}, which is not in {table}; one row per class "
                "is expected there"
            )
    # The folder as it will be, but for the features, which are not made yet.
    with tempfile.TemporaryDirectory() as scratch:
        _write_samples(Path(scratch), entries, 1, lambda rows: np.zeros((len(entries[rows]), 1)))
        copy = _write_classes(Path(scratch), table, unseen)
        try:
            load_dataset(scratch)
        except DataError as error:
            return str(error).replace(str(copy), str(table))
    return None


def _write_samples(
    folder: Path,
    entries: Sequence[ImageEntry],
    n_features: int,
    rows: Callable[[slice], NDArray[Any]],
) -> None:
    """Write name and class of each image, its features and, where one has it, its split."""
    columns = {"id": [entry.id for entry in entries], "class": [entry.label for entry in entries]}
    if any(entry.split for entry in entries):
        columns["split"] = [entry.split for entry in entries]
    frame = pd.DataFrame(columns, dtype=str)
    write_samples(folder / "samples.parquet", frame, n_features, rows)


def _write_classes(folder: Path, table: Path | None, unseen: Sequence[str]) -> Path | None:
    """Copy the table of classes, and mark in it those to test on only; return the copy."""
    if table is None:
        return None
    target = folder / f"classes{table.suffix}"
    shutil.copyfile(table, target)
    if unseen:
        _mark_unseen(target, unseen)
    return target


def _mark_unseen(path: Path, unseen: Sequence[str]) -> None:
    """Set the column ``seen``; what a Parquet file says about its vectors stays in it."""
    if path.suffix == ".csv":
        frame = read_frame(path)
        marked = frame.assign(seen=~frame["name"].isin(unseen))
        escape_frame(marked).to_csv(path, index=False)
        return
    table = parquet.read_table(path)
    seen = pa.array([str(name) not in unseen for name in table["name"].to_pylist()])
    table = table.drop_columns([name for name in table.column_names if name == "seen"])
    parquet.write_table(table.append_column("seen", seen), path)
