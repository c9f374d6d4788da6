"""From a folder of images to a folder of tables that `load_dataset` reads."""

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

from hgkt._files import atomic_folder, check_place, escape_cell, escape_frame
from hgkt._plain import json_text
from hgkt._typing import Progress
from hgkt.exceptions import DataError
from hgkt.vision.backbones import load_backbone
from hgkt.vision.extraction import Extraction, extract_features, feature_journal
from hgkt.vision.listing import ImageEntry, find_entries, passed_over

if TYPE_CHECKING:
    import pandas as pd


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
    plan = _Plan(out.resolve().name, None if classes is None else Path(classes), unseen)
    entries = find_entries(images, manifest)
    needed = plan.check(entries)
    network = load_backbone(backbone, device)
    with feature_journal(network, partial_folder(out)) as journal:
        found = extract_features(entries, network, journal, batch_size, workers, progress=progress)
        with atomic_folder(out) as folder:
            plan.write(found, folder, network.record)
        journal.remove()
    others = {} if manifest else passed_over(images)
    return ExtractedFolder(out, found, network.record, needed, others)


def partial_folder(out: str | Path) -> Path:
    """Return where the rows of an unfinished extraction are kept."""
    place = Path(out).absolute()
    return place.with_name(f"{place.name}.partial")


def feature_stem(record: Mapping[str, Any]) -> str:
    """Return how the features of a backbone are called: its name, fit for a file name."""
    source = str(record.get("source") or "")
    name = source if record["name"] == "transformers" else str(record["name"])
    return re.sub(r"[^\w.-]+", "-", Path(name).name).strip("-") or "features"


@dataclass(frozen=True)
class _Plan:
    """How a folder of features is to be written; the fields are those of `extract_folder`."""

    name: str
    classes: Path | None
    unseen: Sequence[str]

    def check(self, entries: Sequence[ImageEntry]) -> str | None:
        """Return before hours of work what is still needed to load the folder, one sentence."""
        from hgkt.data import read_attribute_file

        if self.classes is None:
            if self.unseen:
                raise DataError("--unseen needs the table of classes; give it with --classes FILE")
            return "to load it, put classes.parquet or classes.csv (name, attributes) in it"
        names = read_attribute_file(self.classes).names
        for name in self.unseen:
            if name not in names:
                raise DataError(f"the unseen class {name!r} is not in {self.classes}")
        for entry in entries:
            if entry.label not in names:
                raise DataError(
                    f"{entry.id} has class {entry.label!r}, which is not in {self.classes}; one "
                    "row per class is expected there"
                )
        return self._load_empty(entries)

    def _load_empty(self, entries: Sequence[ImageEntry]) -> str | None:
        """Load the folder as it will be, with a single zero for features; say what is wrong."""
        from hgkt.data import load_dataset

        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            escape_frame(_samples_frame(entries)).to_csv(folder / "samples.csv", index=False)
            np.save(folder / "features.npy", np.zeros((len(entries), 1), dtype=np.float32))
            copy = self._write_classes(folder, {})
            try:
                load_dataset(folder)
            except DataError as error:
                return str(error).replace(str(copy), str(self.classes))
        return None

    def write(self, found: Extraction, folder: Path, record: Mapping[str, Any]) -> None:
        """Write features, classes, the backbone's record and what could not be read."""
        from hgkt.data.tables import write_samples

        samples = _samples_frame(found.entries)
        samples.insert(0, "id", [entry.id for entry in found.entries])
        write_samples(folder / "samples.parquet", samples, found.n_features, found.rows)
        self._write_classes(folder, {"backbone": dict(record)})
        if found.unreadable:
            with open(folder / "unreadable.csv", "w", newline="", encoding="utf-8") as file:
                rows = [
                    (escape_cell(entry.id), escape_cell(why)) for entry, why in found.unreadable
                ]
                csv.writer(file).writerows([("file", "reason"), *rows])

    def _write_classes(self, folder: Path, about: dict[str, Any]) -> Path | None:
        """Write name and origin of the data set, and a copy of the classes; return the copy."""
        text = json_text({"name": self.name, "about": about})
        (folder / "dataset.json").write_text(text, encoding="utf-8")
        if self.classes is None:
            return None
        target = folder / f"classes{self.classes.suffix}"
        shutil.copyfile(self.classes, target)
        if self.unseen:
            _mark_unseen(target, self.unseen)
        return target


def _samples_frame(entries: Sequence[ImageEntry]) -> pd.DataFrame:
    """Return the class of each image and, where one has it, the part of the split."""
    import pandas as pd

    columns = {"class": [entry.label for entry in entries]}
    if any(entry.split for entry in entries):
        columns["split"] = [entry.split for entry in entries]
    return pd.DataFrame(columns, dtype=str)


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
