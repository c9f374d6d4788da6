"""Own tables: every layout, round trips in both directions, one sentence on mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hgkt.data import (
    ClassFold,
    GZSLDataset,
    load_dataset,
    load_digits,
    make_synthetic,
    read_tables,
    write_tables,
    write_xlsa17,
)
from hgkt.exceptions import DataError

FORMATS = ("parquet", "csv", "npz", "npy")


def full_dataset() -> GZSLDataset:
    data = make_synthetic(n_instances=90, n_features=6, n_attributes=4, n_seen=6, n_unseen=3)
    return replace(
        data,
        class_names=("007", "nan", "ümlaut, x", *data.class_names[3:]),
        folds=(ClassFold([0, 1, 2], [3, 4]), ClassFold([3, 4, 5], [0])),
        attribute_names=("big", "old", "red", "wet"),
        image_files=tuple(f"{row:03d}.jpg" for row in range(90)),
    )  # fmt: skip


def assert_same(one: GZSLDataset, two: GZSLDataset) -> None:
    assert one.fingerprint() == two.fingerprint()
    assert one.class_names == two.class_names
    assert one.class_folds() == two.class_folds()
    assert one.attribute_names == two.attribute_names
    assert one.image_files == two.image_files


@pytest.mark.parametrize("form", FORMATS)
def test_tables_round_trip_keeps_everything(form: str, tmp_path: Path) -> None:
    data = full_dataset().validate()
    again = load_dataset(write_tables(data, tmp_path / "t", format=form))
    assert_same(again, data)
    assert again.name == data.name
    assert again.about["attribute_blocks"] == [4]


def test_xlsa17_round_trip_keeps_everything(tmp_path: Path) -> None:
    data = full_dataset()
    folder = write_xlsa17(data, tmp_path / "m", features="res101")
    assert_same(load_dataset(folder), data)
    # A class list must not have changed the meaning of a fold on the way through tables.
    there = write_tables(load_dataset(folder), tmp_path / "t")
    back = write_xlsa17(read_tables(there), tmp_path / "m2", features="res101")
    assert_same(load_dataset(back), data)


def test_xlsa17_write_is_read_by_scipy_as_matlab_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scipy.io import loadmat

    data = full_dataset()
    folder = write_xlsa17(data, tmp_path / "m", features="f")
    assert np.array_equal(loadmat(folder / "f.mat")["features"].T, data.features)
    splits = loadmat(folder / "att_splits.mat")
    assert np.array_equal(splits["trainval_loc"].ravel() - 1, data.train)
    assert splits["att"].shape == (4, 9)
    assert (folder / "valclasses2.txt").read_text() == "007\n"
    monkeypatch.setattr("hgkt.data.xlsa17._V5_LIMIT", 10)
    with pytest.raises(DataError, match="exceed the 2 GB of a MATLAB file of version 5"):
        write_xlsa17(data, tmp_path / "n")


@settings(max_examples=20, deadline=None)
@given(
    arrays(
        np.float32,
        (4, 3),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    st.sampled_from(FORMATS),
)
def test_tables_round_trip_is_exact_for_any_float(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, form: str
) -> None:
    data = GZSLDataset("x", values, [0, 0, 1, 1], ("a", "b"), values[:2], [0], [1], [2, 3])
    folder = write_tables(data, tmp_path_factory.mktemp("round") / "t", format=form)
    assert read_tables(folder).fingerprint() == data.fingerprint()


def test_tables_npy_features_can_stay_on_disk(tmp_path: Path) -> None:
    data = load_digits()
    folder = write_tables(data, tmp_path / "t", format="npy")
    mapped = load_dataset(folder, mmap=True)
    assert isinstance(mapped.features, np.memmap)
    assert mapped.fingerprint() == data.fingerprint()


def test_tables_memory_map_can_be_written_on(tmp_path: Path) -> None:
    folder = write_tables(load_digits(), tmp_path / "t", format="npy")
    mapped = load_dataset(folder, mmap=True)
    for number, form in enumerate(FORMATS):
        again = read_tables(write_tables(mapped, tmp_path / str(number), format=form))
        assert again.fingerprint() == mapped.fingerprint()


def hand_made(folder: Path, samples: str, classes: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "samples.csv").write_text(samples)
    (folder / "classes.csv").write_text(classes)
    return folder


CLASSES = "name,seen,stripes,hooves\nhorse,true,0,1\ncat,TRUE,0.5,0\nzebra,false,1,1\n"
SAMPLES = "class,f1,f0\n" + "".join(
    f"{name},{row},{row + 0.5}\n" for row, name in enumerate(["horse", "cat", "zebra"] * 5)
)


def test_tables_by_hand_make_a_seeded_split_from_seen(tmp_path: Path) -> None:
    folder = hand_made(tmp_path / "mine", SAMPLES, CLASSES)
    data = load_dataset(folder)
    assert data.name == "mine"
    assert data.features[2].tolist() == [2.5, 2.0]  # f0 comes before f1
    assert data.attribute_names == ("stripes", "hooves")
    assert data.names(data.unseen_classes) == ["zebra"]
    assert sorted(data.rows("test_seen")[1]) == ["cat", "horse"]
    assert data.about["split"] == "test_seen is 0.2 of each seen class, seed 0"
    assert load_dataset(folder).fingerprint() == data.fingerprint()
    assert len(load_dataset(folder, test_fraction=0.6, seed=2).test_seen) == 6


@pytest.mark.parametrize(
    "classes",
    [
        CLASSES.replace("seen,", "wild,").replace("true", "1").replace("TRUE", "1"),
        CLASSES.replace("zebra,false", "zebra,true"),
        CLASSES.replace("false", "true") + "okapi,false,1,0.5\n",
    ],
)
def test_tables_without_unseen_rows_are_all_train(classes: str, tmp_path: Path) -> None:
    classes = classes.replace(",false,1,1", ",0,1,1") if "wild" in classes else classes
    data = load_dataset(hand_made(tmp_path / "mine", SAMPLES, classes))
    assert len(data.train) == 15
    assert not len(data.test_seen)
    assert not len(data.test_unseen)
    assert data.about["split"] == "all rows are train"
    assert data.names(data.described_classes) == ["okapi"] * ("okapi" in classes)
    again = read_tables(write_tables(data, tmp_path / "again"))
    assert again.fingerprint() == data.fingerprint()


def test_tables_train_on_a_class_of_one_row(tmp_path: Path) -> None:
    samples = "class,f0\nhorse,1\nhorse,2\ncat,3\nzebra,4\n"
    data = load_dataset(hand_made(tmp_path / "mine", samples, CLASSES))
    assert sorted(data.rows("train")[1]) == ["cat", "horse"]
    assert data.rows("test_seen")[1].tolist() == ["horse"]


def test_tables_by_hand_take_list_columns_and_unused_rows(tmp_path: Path) -> None:
    splits = ["train", "train", "test_unseen", "test_seen", "test_seen", None]
    names = ["horse", "cat", "zebra", "horse", "cat", "cat"]
    features = [np.array([row, 1.0]) for row in range(6)]
    pd.DataFrame({"class": names, "split": splits, "features": features}).to_parquet(
        tmp_path / "samples.parquet"
    )
    pd.DataFrame(
        {"name": ["cat", "horse", "zebra"], "attributes": [[0.0, 1], [1.0, 0], [1.0, 1]]}
    ).to_parquet(tmp_path / "classes.parquet")
    data = load_dataset(tmp_path)
    assert data.train.tolist() == [0, 1]
    assert data.test_seen.tolist() == [3, 4]
    assert data.test_unseen.tolist() == [2]
    assert data.rows("test_unseen")[1].tolist() == ["zebra"]
    assert data.class_attributes[1].tolist() == [1, 0]


def test_tables_by_hand_take_numeric_class_names(tmp_path: Path) -> None:
    data = load_dataset(
        hand_made(
            tmp_path / "t",
            "class,split,x\n1,train,1\n1,test_seen,2\n02,train,1\n2,test_unseen,3\n",
            "name,a0\n1,0.5\n2,1\n02,3\n",
        )
    )
    assert data.class_names == ("1", "2", "02")
    assert data.names(data.labels) == ["1", "1", "02", "2"]


@pytest.mark.parametrize(
    ("samples", "classes", "sentence"),
    [
        (SAMPLES, CLASSES.replace("TRUE", "maybe"), "line 3 of .*classes.csv has seen = 'maybe'"),
        (SAMPLES, CLASSES.replace("zebra", "okapi"), "line 4 of .* class 'zebra', .* classes.csv"),
        (SAMPLES, CLASSES.replace("cat", "horse"), "class 'horse' occurs twice in classes.csv"),
        (SAMPLES, CLASSES.replace("name", "label"), "classes.csv has no column 'name'"),
        (SAMPLES, "name,seen\nhorse,true\n", "classes.csv has no attributes"),
        (SAMPLES, CLASSES.replace("0.5", "nan"), "attributes of class 'cat' contain NaN"),
        (SAMPLES, CLASSES.replace("0.5", ""), "attributes of class 'cat' contain NaN"),
        (SAMPLES, CLASSES.replace("0.5", "some"), "column 'stripes' of .* not a number"),
        (SAMPLES.replace("class", "label"), CLASSES, "samples.csv has no column 'class'"),
        (
            SAMPLES.replace(",", ";"),
            CLASSES,
            "each row is expected; it has .*; columns are separated by commas",
        ),
        (
            SAMPLES.replace("class", "Class"),
            CLASSES,
            "write 'class' in small letters, without spaces",
        ),
        (SAMPLES.replace("7.5", "much"), CLASSES, "column 'f0' of .*samples.csv holds something"),
        ("class,split,f0\nhorse,dev,1\n", CLASSES, "line 2 of .*samples.csv has split 'dev'"),
        ("class\nhorse\n", CLASSES, "samples.csv has no features"),
        ('class,features\nhorse,"[1, 2]"\ncat,"[1]"\n', CLASSES, "line 3 has shape .1,.; 2 numb"),
        ('class,features\nhorse,"[1, x]"\n', CLASSES, "line 2 holds something that is not a list"),
        ("", CLASSES, "samples.csv cannot be read as a table"),
    ],
)
def test_tables_mistakes_are_one_sentence(
    samples: str, classes: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=sentence):
        load_dataset(hand_made(tmp_path / "t", samples, classes))


def test_load_dataset_takes_a_path_for_a_folder_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_made(tmp_path / "digits", SAMPLES, CLASSES)
    monkeypatch.chdir(tmp_path)
    assert load_dataset(Path("digits")).summary()["n_classes"] == 3
    assert load_dataset("digits").summary()["n_classes"] == 10


def test_tables_npz_of_other_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text(CLASSES)
    np.savez(tmp_path / "samples.npz", features=np.ones((3, 2)), **{"class": ["cat"] * 4})
    with pytest.raises(DataError, match=r"features in .*samples.npz has 3 rows"):
        load_dataset(tmp_path)


def test_tables_never_unpickle(tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text(CLASSES)
    (tmp_path / "samples.csv").write_text("class\ncat\n")
    np.save(tmp_path / "features.npy", np.array([[{"a": 1}]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"features\.npy holds Python objects"):
        load_dataset(tmp_path)


def test_tables_empty_folder_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"att_splits.mat.* none of classes.parquet, classes.csv"):
        load_dataset(tmp_path)


def test_tables_broken_json_is_named(tmp_path: Path) -> None:
    folder = hand_made(tmp_path / "t", SAMPLES, CLASSES)
    (folder / "dataset.json").write_text("{")
    with pytest.raises(DataError, match=r"dataset.json is not valid JSON"):
        load_dataset(folder)
    (folder / "dataset.json").write_text(json.dumps({"folds": [[["horse"], ["dog"]]]}))
    with pytest.raises(DataError, match=r"folds in .* 'dog'"):
        load_dataset(folder)


def test_writers_leave_a_folder_that_is_in_use_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    for write in (write_tables, write_xlsa17):
        with pytest.raises(DataError, match="is left alone"):
            write(load_digits(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_writers_leave_nothing_behind_when_they_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise MemoryError

    monkeypatch.setattr("hgkt.data.tables.json_text", fail)
    with pytest.raises(MemoryError):
        write_tables(load_digits(), tmp_path / "t")
    assert list(tmp_path.iterdir()) == []


def test_real_cub_survives_parquet(data_root: Path, tmp_path: Path) -> None:
    data = load_dataset("CUB", root=data_root, features="efflite2")
    data = replace(data, features=data.features[:, :200])
    again = read_tables(write_tables(data, tmp_path / "cub"))
    assert_same(again, data)
