"""Files of class vectors, beside any data set."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hgkt.data import (
    AttributeFile,
    load_dataset,
    read_attribute_file,
    write_attribute_file,
    write_tables,
    write_xlsa17,
)
from hgkt.data.attributes import split_kinds
from hgkt.exceptions import DataError

ENCODER = {"name": "minilm", "identity": "ab", "n_dimensions": 5, "template": "{name}"}


def unit(rows):
    rows = np.asarray(rows, dtype=np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def digits():
    return load_dataset("digits")


@pytest.fixture
def text_file(digits, tmp_path):
    """Five numbers a digit from a pretended encoder, classes in reverse order."""
    rows = np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32)
    file = AttributeFile(digits.class_names[::-1], rows, (5,), ("text",), ENCODER)
    return str(write_attribute_file(tmp_path / "text.parquet", file)), rows[::-1]


def test_attribute_file_alone_replaces_the_attributes(digits, text_file):
    path, rows = text_file
    data = load_dataset("digits", attributes=path)
    np.testing.assert_array_equal(data.class_attributes, rows)
    assert data.about["attributes"] == path
    assert data.about["attribute_blocks"] == [5]
    assert data.about["attribute_kinds"] == ["text"]
    assert data.about["encoder"] == ENCODER
    assert data.attribute_names is None
    assert data.about["pixels"] == digits.about["pixels"]
    assert data.fingerprint()["split"] == digits.fingerprint()["split"]


def test_attribute_file_beside_own_attributes_is_scaled_part_by_part(digits, text_file):
    path, rows = text_file
    data = load_dataset("digits", attributes=f"att+{path}")
    expected = np.hstack([unit(digits.class_attributes), unit(rows)])
    np.testing.assert_allclose(data.class_attributes, expected, rtol=1e-6)
    assert data.about["attribute_blocks"] == [20, 5]
    assert data.about["attribute_kinds"] == ["att", "text"]
    assert data.about["attribute_names"] == list(digits.attribute_names)
    swapped = load_dataset("digits", attributes=f"{path} + att")
    assert swapped.about["attribute_blocks"] == [5, 20]
    np.testing.assert_array_equal(swapped.class_attributes[:, 5:], data.class_attributes[:, :20])


def test_attribute_file_in_csv_keeps_attribute_names(digits, tmp_path):
    frame = pd.DataFrame({"name": digits.class_names, "round": range(10), "tall": 1.0})
    frame.to_csv(tmp_path / "own.csv", index=False)
    data = load_dataset("digits", attributes=str(tmp_path / "own.csv"))
    assert data.attribute_names == ("round", "tall")
    assert data.about["attribute_kinds"] == ["file"]
    assert "encoder" not in data.about
    joined = load_dataset("digits", attributes=f"att+{tmp_path / 'own.csv'}")
    assert joined.attribute_names == (*digits.attribute_names, "round", "tall")


def test_attribute_file_works_for_every_layout(digits, text_file, tmp_path):
    path, rows = text_file
    write_tables(digits, tmp_path / "tables")
    write_xlsa17(digits, tmp_path / "mat", features="res101")
    os.rename(path, tmp_path / "mat" / "text.parquet")  # found in the data set's folder too
    (tmp_path / "tables" / "text.parquet").symlink_to(tmp_path / "mat" / "text.parquet")
    expected = np.hstack([unit(digits.class_attributes), unit(rows)])
    for name in ("tables", "mat"):
        alone = load_dataset(tmp_path / name, attributes="text.parquet")
        np.testing.assert_array_equal(alone.class_attributes, rows)
        joined = load_dataset(tmp_path / name, attributes="att+text.parquet")
        np.testing.assert_allclose(joined.class_attributes, expected, rtol=1e-6)
        assert joined.about["attribute_kinds"] == ["att", "text"]
        assert joined.about["encoder"] == ENCODER
    file = AttributeFile(tuple(f"class {c:02d}" for c in range(25)), np.eye(25), (25,), ("file",))
    path = write_attribute_file(tmp_path / "s.parquet", file)
    assert load_dataset("synthetic", attributes=str(path)).class_attributes[3, 3] == 1


def test_attribute_file_joins_two_kinds_of_a_benchmark_folder(digits, text_file, tmp_path):
    path, rows = text_file
    write_xlsa17(digits, tmp_path / "mat", features="res101")
    data = load_dataset(tmp_path / "mat", attributes=f"original_att+{path}+att")
    assert data.about["attribute_kinds"] == ["original_att", "text", "att"]
    np.testing.assert_allclose(data.class_attributes[:, 20:25], unit(rows), rtol=1e-6)


def test_own_classes_table_tells_its_encoder(digits, text_file, tmp_path):
    path, _ = text_file
    folder = write_tables(digits, tmp_path / "tables")
    (folder / "dataset.json").unlink()
    os.replace(path, folder / "classes.parquet")
    data = load_dataset(folder)
    assert data.about["encoder"] == ENCODER
    assert data.about["attribute_kinds"] == ["text"]
    again = load_dataset(write_tables(data, tmp_path / "again"))
    assert again.about["encoder"] == ENCODER
    np.testing.assert_array_equal(again.class_attributes, data.class_attributes)


def test_attribute_files_of_two_encoders_are_refused(digits, text_file, tmp_path):
    path, rows = text_file
    other = AttributeFile(
        digits.class_names, rows, (5,), ("text",), {**ENCODER, "name": "labse", "identity": "cd"}
    )
    second = write_attribute_file(tmp_path / "other.parquet", other)
    with pytest.raises(DataError, match="by two encoders, 'minilm' and 'labse'"):
        load_dataset("digits", attributes=f"{path}+{second}")
    same = AttributeFile(digits.class_names, rows, (5,), ("text",), ENCODER)
    third = write_attribute_file(tmp_path / "same.parquet", same)
    assert load_dataset("digits", attributes=f"{path}+{third}").about["encoder"] == ENCODER


def test_attribute_files_are_refused_with_one_sentence(digits, text_file, tmp_path):
    path, rows = text_file
    few = AttributeFile(digits.class_names[:6], rows[:6], (5,), ("file",))
    write_attribute_file(tmp_path / "few.parquet", few)
    (tmp_path / "twice.csv").write_text("name,a0\nsix,1\nsix,2\n")
    (tmp_path / "broken.parquet").write_text("no Parquet")
    (tmp_path / "none.csv").write_text("name,description\nsix,x\n")
    for name, sentence in [
        ("few.parquet", "class 'six' has no row in .*few.parquet"),
        ("gone.parquet", "the attribute file .*gone.parquet is not here"),
        ("twice.csv", "has class 'six' twice"),
        ("broken.parquet", "cannot be read as a table"),
        ("none.csv", "has no attributes"),
    ]:
        with pytest.raises(DataError, match=sentence) as error:
            load_dataset("digits", attributes=str(tmp_path / name))
        assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="one kind of attributes of its own, 'att'; got 'sent'"):
        load_dataset("digits", attributes=f"sent+{path}")
    with pytest.raises(DataError, match="must end in"):
        write_attribute_file(tmp_path / "x.csv", few)
    wrong = AttributeFile(digits.class_names, rows, (4,), ("text",), ENCODER)
    with pytest.raises(DataError, match="contradicts itself"):
        read_attribute_file(write_attribute_file(tmp_path / "w.parquet", wrong))


def test_write_attribute_file_leaves_the_old_one_when_it_fails(text_file, tmp_path, monkeypatch):
    from pyarrow import parquet

    path, _ = text_file
    before = Path(path).read_bytes()
    file = AttributeFile(("a",), np.ones((1, 2)), (2,), ("file",))

    def fail(table, target):
        Path(target).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(DataError, match="No space left"):
        write_attribute_file(path, file)
    assert Path(path).read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["text.parquet"]


def test_write_attribute_file_is_plain_parquet(text_file):
    from pyarrow import parquet

    path, rows = text_file
    frame = pd.read_parquet(path)
    assert list(frame) == ["name", "description", "attributes"]
    np.testing.assert_array_equal(np.stack(frame["attributes"][::-1]), rows)
    made = json.loads(parquet.read_schema(path).metadata[b"hgkt"])
    assert made["encoder"] == ENCODER


def test_split_kinds_keeps_a_file_whose_name_has_a_plus(tmp_path):
    path = tmp_path / "a+b.csv"
    assert split_kinds(str(path)) == [str(tmp_path / "a"), "b.csv"]
    path.write_text("name,a0\n")
    assert split_kinds(str(path)) == [str(path)]
    assert split_kinds("att+sent") == ["att", "sent"]
