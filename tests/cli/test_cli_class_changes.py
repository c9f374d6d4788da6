"""`hgkt classes grow`, `edit`, `rename`, `export` and `import`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hgkt.baselines.eszsl import ESZSLClassifier
from hgkt.data import load_dataset
from hgkt.estimators import load_model
from hgkt.exceptions import DataError


@pytest.fixture
def digits():
    return load_dataset("digits")


@pytest.fixture
def folder(hgkt, model_folder):
    hgkt("classes", "add", "--model", model_folder, "--from-data", "digits")
    return model_folder


def rows_of(data, name, n):
    X, y = data.rows("test_unseen")
    return X[y == name][:n]


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_grow_gives_what_partial_fit_gives(hgkt, folder, digits, tmp_path, suffix):
    rows = rows_of(digits, "six", 5)
    path = tmp_path / f"rows{suffix}"
    frame = pd.DataFrame(rows, columns=[f"f{i}" for i in range(rows.shape[1])])
    if suffix == ".npy":
        np.save(path, rows)
    else:
        getattr(frame, f"to_{suffix[1:]}")(path, index=False)
    expected = load_model(folder).partial_fit(rows, ["six"] * 5)
    result = hgkt("classes", "grow", "--model", folder, "--name", "six", "--features", path)
    assert "grown 1 class (six) by 5 examples" in result.stdout
    X = digits.rows("test_unseen")[0]
    found = load_model(folder)
    np.testing.assert_allclose(found.score_classes(X), expected.score_classes(X), atol=1e-10)
    assert found.unseen_classes_.tolist() == ["two"]
    again = hgkt(
        "classes", "grow", "--model", folder, "--name", "six", "--features", path, "--json"
    )
    assert json.loads(again.stdout)["n_examples"] == {"six": 5}


def test_what_a_class_learned_is_carried_to_a_new_training(hgkt, folder, digits, tmp_path):
    np.save(tmp_path / "rows.npy", rows_of(digits, "six", 5))
    rows = ("--features", tmp_path / "rows.npy")
    hgkt("classes", "grow", "--model", folder, "--name", "six", *rows)
    listed = json.loads(hgkt("classes", "list", "--model", folder, "--json").stdout)["classes"]
    assert [entry["name"] for entry in listed if entry["grown"]] == ["six"]
    train = ("train", "--no-calibrate", "--out", folder, "--carry-classes", "--json")
    assert set(json.loads(hgkt(*train).stdout)["carried"]) == {"two", "six"}
    carried = load_model(folder)
    assert carried.unseen_classes_.tolist() == ["two"]
    assert carried.grown_examples()["six"].n_examples == 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "one of --images DIR, --texts FILE and --features FILE"),
        (["--name", "six", "--images", "a", "--features", "b"], "one of --images DIR"),
        (["--features", "rows.npy"], "rows of one class; give its --name"),
        (["--name", "ten", "--features", "ROWS"], "class 'ten' is unknown to this model; add it"),
        (["--name", "six", "--features", "NARROW"], "has 7 features a row; the model expects 64"),
        (["--name", "six", "--images", "ROWS"], "does not know the backbone"),
        (["--images", "none"], "none does not exist; a folder of images or a manifest"),
    ],
)
def test_grow_refuses_with_one_sentence(hgkt, folder, digits, tmp_path, arguments, sentence):
    for name, rows in (("ROWS", rows_of(digits, "six", 2)), ("NARROW", np.ones((2, 7)))):
        np.save(tmp_path / f"{name}.npy", rows)
        arguments = [str(tmp_path / f"{name}.npy") if a == name else a for a in arguments]
    with pytest.raises(DataError, match=sentence):
        hgkt("classes", "grow", "--model", folder, *arguments)
    assert load_model(folder).unseen_classes_.tolist() == ["two", "six"]


def test_grow_says_which_method_can(hgkt, digits, tmp_path):
    model = ESZSLClassifier().fit(*digits.rows("train"), digits.attributes_of(digits.seen_classes))
    path = model.save(tmp_path / "eszsl")
    np.save(tmp_path / "rows.npy", rows_of(digits, "six", 2))
    with pytest.raises(DataError, match="ESZSLClassifier cannot learn from more examples"):
        hgkt("classes", "grow", "--model", path, "--name", "one", "--features",
             tmp_path / "rows.npy")  # fmt: skip


def test_a_class_is_edited_and_renamed(hgkt, folder, digits):
    six = digits.attributes_of([6])["six"] * 0.5
    values = ",".join(map(str, six))
    result = hgkt("classes", "edit", "--model", folder, "--name", "two", "--attributes", values)
    assert "edited 1 class (two)" in result.stdout
    loaded = load_model(folder)
    np.testing.assert_allclose(loaded.class_attributes_[loaded.column_of("two")], six)
    with pytest.raises(DataError, match="class 'one' was learned from instances and cannot be"):
        hgkt("classes", "edit", "--model", folder, "--name", "one", "--attributes", values)
    result = hgkt("classes", "rename", "two", "a couple", "--model", folder, "--json")
    assert json.loads(result.stdout)["renamed"] == ["two to a couple"]
    assert load_model(folder).unseen_classes_.tolist() == ["a couple", "six"]
    with pytest.raises(DataError, match="class 'one' is there already"):
        hgkt("classes", "rename", "six", "one", "--model", folder)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_exported_classes_are_imported(hgkt, folder, digits, tmp_path, suffix):
    table = tmp_path / f"classes{suffix}"
    assert "wrote 2 classes" in hgkt("classes", "export", "--model", folder, "--out", table).stdout
    expected = load_model(folder)
    hgkt("classes", "remove", "six", "--model", folder)
    result = hgkt("classes", "import", table, "--model", folder, "--json")
    document = json.loads(result.stdout)
    assert (document["added"], document["edited"], document["n_same"]) == (["six"], [], 1)
    X = digits.rows("test_unseen")[0]
    found = load_model(folder).score_classes(X)
    np.testing.assert_allclose(found, expected.score_classes(X), atol=1e-5)
    hgkt("classes", "export", "--model", folder, "--out", table, "--all")
    document = json.loads(hgkt("classes", "import", table, "--model", folder, "--json").stdout)
    assert document["n_same"] == 10


def test_an_edited_table_changes_the_classes_it_names(hgkt, folder, tmp_path):
    table = tmp_path / "classes.csv"
    hgkt("classes", "export", "--model", folder, "--out", table)
    frame = pd.read_csv(table)
    assert frame.columns[:3].tolist() == ["name", "seen", "segment a"]
    frame.loc[frame["name"] == "two", "segment a"] = 0.25
    frame.to_csv(table, index=False)
    shown = hgkt("classes", "import", table, "--model", folder).stdout
    assert "0 added, 1 edited, 1 as they were" in shown
    loaded = load_model(folder)
    assert loaded.class_attributes_[loaded.column_of("two"), 0] == 0.25
    pd.concat([frame, frame.iloc[:1].assign(name="one")]).to_csv(table, index=False)
    before = (folder / "config.json").read_bytes()
    with pytest.raises(DataError, match="class 'one' was learned from instances"):
        hgkt("classes", "import", table, "--model", folder)
    assert (folder / "config.json").read_bytes() == before


def test_export_says_what_it_cannot_write(hgkt, model_folder, tmp_path):
    with pytest.raises(DataError, match="has no added class; --all writes"):
        hgkt("classes", "export", "--model", model_folder, "--out", tmp_path / "a.csv")
    with pytest.raises(DataError, match=r"--out must end in \.csv or \.parquet"):
        hgkt("classes", "export", "--model", model_folder, "--out", tmp_path / "a.txt")
