"""A file of a data set is opened once per load, whatever is wanted of it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pyarrow import parquet

from hgkt.data import (
    AttributeFile,
    check_dataset,
    load_dataset,
    load_digits,
    write_attribute_file,
    write_tables,
    write_xlsa17,
)

COUNTED: Counter[str] = Counter()
WATCHED: list[Path] = []  # one folder while a test runs


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    """Count what Python opens; an audit hook cannot be taken off again."""
    if WATCHED and event == "open" and isinstance(arguments[0], str):
        path = Path(arguments[0])
        if path.parent == WATCHED[0]:
            COUNTED[path.name] += 1


sys.addaudithook(_count)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each file in ``tmp_path/d`` was opened, by Python, HDF5 or Arrow."""
    monkeypatch.setenv("HGKT_CACHE", str(tmp_path / "cache"))

    def counting(function: Any) -> Any:
        def call(source: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(source, str | Path):
                COUNTED[Path(source).name] += 1
            return function(source, *arguments, **options)

        return call

    monkeypatch.setattr(h5py, "File", counting(h5py.File))
    for name in ("read_table", "read_schema", "read_metadata", "ParquetFile"):
        monkeypatch.setattr(parquet, name, counting(getattr(parquet, name)))
    yield COUNTED
    WATCHED.clear()


def watch(folder: Path) -> None:
    COUNTED.clear()
    WATCHED[:] = [folder]


@pytest.mark.parametrize("version", ["5", "7.3"])
@pytest.mark.parametrize("mmap", [False, True])
def test_a_benchmark_folder_is_opened_once(
    version: str, mmap: bool, tmp_path: Path, opened: Counter[str]
) -> None:
    data = load_digits()
    folder = write_xlsa17(data, tmp_path / "d", features="f")
    if version == "7.3":
        with h5py.File(folder / "f.mat", "w", userblock_size=512) as file:
            file["features"], file["labels"] = data.features, data.labels[None] + 1.0
    (folder / "sent_splits.mat").write_bytes((folder / "att_splits.mat").read_bytes())
    for _ in range(2):  # with mmap the second time finds the converted copy
        watch(folder)
        data = load_dataset(folder, features="f", attributes="att+sent+original_att", mmap=mmap)
        check_dataset(data)
        files = ("f.mat", "f.json", "att_splits.mat", "sent_splits.mat")
        assert opened == dict.fromkeys(files, 1)
    assert data.about["attribute_blocks"] == [20, 20, 20]


@pytest.mark.parametrize("form", ["parquet", "csv", "npz"])
def test_own_tables_are_opened_once(form: str, tmp_path: Path, opened: Counter[str]) -> None:
    folder = write_tables(load_digits(), tmp_path / "d", format=form)
    files = {path.name for path in folder.iterdir()}
    watch(folder)
    load_dataset(folder)
    assert opened == dict.fromkeys(files, 1)
    assert len(files) == 3


@pytest.mark.parametrize("name", ["own.parquet", "own.csv"])
def test_an_attribute_file_is_opened_once(name: str, tmp_path: Path, opened: Counter[str]) -> None:
    path = tmp_path / "d" / name
    names = load_digits().class_names
    file = AttributeFile(names, np.eye(10, dtype=np.float32), (10,), ("file",))
    written = write_attribute_file(path.with_suffix(".parquet"), file)
    if name.endswith(".csv"):
        parquet.read_table(written).select(["name"]).to_pandas().assign(x=1.0).to_csv(path)
    watch(path.parent)
    load_dataset("digits", attributes=f"att+{path}")
    assert opened == {name: 1}


def test_a_check_reads_no_feature_for_the_split_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digits = load_digits()
    expected = digits.fingerprint()["split"][:12]
    monkeypatch.setattr(type(digits), "fingerprint", None)
    assert any(expected in finding.sentence for finding in check_dataset(digits))
