"""`hgkt classes`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError, ModelFolderError


@pytest.fixture
def six():
    data = load_dataset("digits")
    return data.attributes_of([6])["six"]


def added(folder):
    return load_model(folder).unseen_classes_.tolist()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_classes_list_shows_kinds_and_relatives(hgkt, model_folder):
    hgkt("classes", "add", "--model", model_folder, "--from-data", "digits")
    result = hgkt("classes", "list", "--model", model_folder, "--relatives", 2, "--json")
    document = json.loads(result.stdout)
    entries = {entry["name"]: entry for entry in document["classes"]}
    assert document["n_classes"] == 10
    assert document["n_seen_classes"] == 8
    assert entries["one"]["seen"]
    assert not entries["six"]["seen"]
    data = load_dataset("digits")
    unit = data.class_attributes / np.linalg.norm(data.class_attributes, axis=1, keepdims=True)
    cosine = unit @ unit[6]
    order = [data.class_names[c] for c in np.argsort(-cosine) if c != 6]
    assert [near["name"] for near in entries["six"]["relatives"]] == order[:2]
    assert "added" in hgkt("classes", "list", "--model", model_folder).stdout


def test_classes_add_gives_what_add_classes_gives_by_every_way(hgkt, model_folder, tmp_path, six):
    data = load_dataset("digits")
    names = data.attribute_names
    reference = load_model(model_folder).add_classes({"six": six})
    X = data.rows("test_unseen")[0]
    text = ",".join(map(str, six))
    for name, content in (("v.txt", text.replace(",", "\n")), ("v.json", json.dumps(list(six)))):
        (tmp_path / name).write_text(content)
    np.save(tmp_path / "v.npy", six)
    columns = dict(zip(names, six, strict=True))
    shuffled = {"name": "six", **{name: columns[name] for name in names[::-1]}}
    pd.DataFrame([shuffled]).to_csv(tmp_path / "named.csv", index=False)
    pd.DataFrame({"name": ["six"], "attributes": [list(six)]}).to_parquet(tmp_path / "list.parquet")
    pairs = [f"{name.upper()}={value}" for name, value in columns.items() if value]
    ways = [
        ["--name", "six", "--attributes", text],
        ["--name", "six", "--attributes", f"@{tmp_path / 'v.txt'}"],
        ["--name", "six", "--attributes", f"@{tmp_path / 'v.json'}"],
        ["--name", "six", "--attributes", f"@{tmp_path / 'v.npy'}"],
        ["--name", "six", *(item for pair in pairs for item in ("--attribute", pair))],
        ["--file", tmp_path / "named.csv"],
        ["--file", tmp_path / "list.parquet"],
    ]
    for way in ways:
        document = json.loads(
            hgkt("classes", "add", "--model", model_folder, *way, "--json").stdout
        )
        assert document["added"] == ["six"]
        model = load_model(model_folder)
        np.testing.assert_allclose(model.score_classes(X), reference.score_classes(X), rtol=1e-6)
        assert model.about_["data"] == "digits"
        hgkt("classes", "remove", "six", "--model", model_folder)
        assert added(model_folder) == []


def test_classes_add_is_all_or_nothing(hgkt, model_folder, tmp_path, six):
    before = contents(model_folder)
    table = pd.DataFrame({"name": ["six", "one"], "attributes": [list(six), list(six)]})
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="class 'one' is there already"):
        hgkt("classes", "add", "--model", model_folder, "--file", tmp_path / "t.parquet")
    twice = pd.DataFrame({"name": ["six", "six"], "attributes": [list(six), list(six)]})
    twice.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="has class 'six' twice"):
        hgkt("classes", "add", "--model", model_folder, "--file", tmp_path / "t.parquet")
    with pytest.raises(DataError, match="class 'ten' is unknown"):
        hgkt("classes", "remove", "ten", "--model", model_folder)
    with pytest.raises(DataError, match="'one' was learned from instances"):
        hgkt("classes", "remove", "one", "--model", model_folder)
    assert contents(model_folder) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "one of --name, --file or --from-data"),
        (["--name", "x", "--from-data", "digits"], "one of --name, --file or --from-data"),
        (["--name", "x"], "either --attributes, or --attribute"),
        (["--name", "x", "--attributes", "1,2"], "class 'x' has 2 attributes; 20 are expected"),
        (["--name", "x", "--attributes", "1,two"], "numbers with commas between"),
        (["--name", "x", "--attributes", "@none.txt"], "none.txt cannot be read"),
        (["--name", "x", "--attribute", "stripes=1"], "no attribute 'stripes'"),
        (["--name", "x", "--attribute", "segment a=lots"], "a number is expected"),
        (["--name", "x", "--attribute", "segment a"], "expects NAME=VALUE"),
        (["--file", "classes.txt"], ".csv or .parquet is expected"),
        (["--from-data", "synthetic"], "has 16 attributes; 20 are expected"),
    ],
)
def test_classes_add_refuses_with_one_sentence(hgkt, model_folder, arguments, sentence):
    with pytest.raises(DataError, match=sentence) as error:
        hgkt("classes", "add", "--model", model_folder, *arguments)
    assert "\n" not in str(error.value)
    assert added(model_folder) == []


def test_classes_of_a_model_with_number_labels(hgkt, tmp_path):
    X = np.abs(np.random.default_rng(0).normal(size=(12, 4)))
    model = HGKTClassifier().fit(X, np.arange(12) % 3, {c: np.eye(3)[c] + 0.1 for c in range(3)})
    folder = model.save(tmp_path / "numbers")
    hgkt("classes", "add", "--model", folder, "--name", "7", "--attributes", "1 1 0")
    assert added(folder) == [7]
    with pytest.raises(DataError, match="classes of this model are numbers; got 'seven'"):
        hgkt("classes", "add", "--model", folder, "--name", "seven", "--attributes", "1 1 0")
    with pytest.raises(DataError, match="knows no attribute names"):
        hgkt("classes", "add", "--model", folder, "--name", "8", "--attribute", "a=1")
    hgkt("classes", "remove", "7", "--model", folder)
    assert added(folder) == []


def test_classes_refuse_a_tampered_or_missing_model(hgkt, model_folder, tmp_path):
    with pytest.raises(ModelFolderError, match="is not a folder"):
        hgkt("classes", "list", "--model", tmp_path / "none")
    weights = model_folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(ModelFolderError, match="checksum differs"):
        hgkt("classes", "list", "--model", model_folder)
