"""CSV cells that spreadsheets would run: harmless in the file, unchanged when read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hgkt._files import escape_cell, plain_cell
from hgkt.data import GZSLDataset, load_dataset, write_tables

NAMES = ['=HYPERLINK("http://a.b")', "+1", "-2", "@x", "'=y", "'tis", "''", "zebra"]


@pytest.mark.parametrize("name", [*NAMES, "\tx", "\rx", "＝x", "''-x"])
def test_cells_come_back_as_they_were(name: str) -> None:
    cell = escape_cell(name)
    assert cell[0] not in "=+-@\t\r＝"
    assert plain_cell(cell) == name
    assert escape_cell(-1.5) == -1.5


@pytest.mark.parametrize("layout", ["csv", "npy"])
def test_written_tables_hold_no_formula_and_read_the_same(tmp_path: Path, layout: str) -> None:
    n = len(NAMES)
    data = GZSLDataset(
        name="own", features=-np.eye(n)[np.repeat(np.arange(n), 2)], labels=np.repeat(range(n), 2),
        class_names=NAMES, class_attributes=-np.eye(n), train=range(0, 2 * n, 2),
        test_seen=range(1, 2 * n, 2), test_unseen=[],
        image_files=[f"@{i}.png" for i in range(2 * n)],
    )  # fmt: skip
    folder = write_tables(data, tmp_path / "own", layout)
    for file in folder.glob("*.csv"):
        raw = pd.read_csv(file, dtype=str, keep_default_na=False)
        words = raw[[name for name in raw if name in ("class", "name", "id")]]
        assert not words.map(lambda cell: cell.startswith(("=", "+", "-", "@"))).any(axis=None)
    again = load_dataset(folder)
    assert again.class_names == data.class_names
    assert again.image_files == data.image_files
    assert again.fingerprint() == data.fingerprint()
    if layout == "csv":
        numbers = pd.read_csv(folder / "samples.csv")
        assert numbers["f0"].iloc[0] == -1.0  # numbers stay numbers
