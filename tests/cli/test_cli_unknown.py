"""`hgkt unknown` and `hgkt suggest`: from items that fit no class to a class."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError
from hgkt.serving.edition import model_identity
from hgkt.serving.inbox import Inbox, folder_address


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture
def folder(digits, tmp_path):
    X, y = digits.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, digits.attributes_of(digits.seen_classes))
    return model.save(tmp_path / "model", attribute_names=list(digits.attribute_names))


@pytest.fixture
def rows(digits, tmp_path):
    X, y = digits.rows("test_unseen")
    path = tmp_path / "rows.npy"
    np.save(path, X)
    return path, y


def six(digits):
    return ",".join(map(str, digits.attributes_of(digits.unseen_classes)["six"]))


def test_a_group_of_items_becomes_a_class_of_the_model(hgkt, folder, rows, digits):
    path, y = rows
    source = ["--model", folder, "--items", path, "--reject", "0.6"]
    listed = json.loads(hgkt("unknown", "list", *source, "--json").stdout)
    assert listed["n_items"] == len(listed["items"]) > 50
    found = json.loads(hgkt("unknown", "groups", *source, "--json").stdout)
    labels = [{y[int(item.split()[1])] for item in one["items"]} for one in found["groups"]]
    group = found["groups"][next(i for i, names in enumerate(labels) if names == {"six"})]
    shown = hgkt("unknown", "groups", *source).stdout
    assert group["example"] in shown
    assert f"of {listed['n_items']} items in" in shown
    made = hgkt(
        "unknown", "make", *source, "--group", group["example"], "--name", "six",
        "--attributes", six(digits), "--json",
    )  # fmt: skip
    assert json.loads(made.stdout)["n_examples"] == group["size"]
    model = load_model(folder)
    assert "six" in model.seen_classes_
    X, y = digits.rows("test_unseen")
    assert np.mean(model.predict(X[y == "six"]) == "six") > 0.8


def test_a_group_of_an_inbox_becomes_a_class_of_the_registry(hgkt, folder, digits, tmp_path):
    X, _ = digits.rows("test_unseen")
    model = load_model(folder)
    with Inbox(folder_address(tmp_path / "kept"), model_identity(model)) as inbox:
        inbox.keep(X, reject=0.6)
    source = ["--model", folder, "--inbox", tmp_path / "kept"]
    before = json.loads(hgkt("unknown", "list", *source, "--json").stdout)["n_items"]
    group = json.loads(hgkt("unknown", "groups", *source, "--json").stdout)["groups"][0]
    made = hgkt(
        "unknown", "make", *source, "--group", group["example"][:12], "--name", "new",
        "--attributes", six(digits), "--reason", "they kept coming",
    )  # fmt: skip
    assert f"{group['size']} items; undo: hgkt classes rollback 0" in made.stdout
    after = json.loads(hgkt("unknown", "list", *source, "--json").stdout)["n_items"]
    assert after <= before - group["size"]
    assert "they kept coming" in hgkt("classes", "log", "--model", folder).stdout
    hgkt("classes", "rollback", "0", "--model", folder)
    again = json.loads(hgkt("unknown", "list", *source, "--json").stdout)["n_items"]
    assert again == before
    assert "new" not in load_model(folder).classes_


def test_suggest_names_items_in_doubt(hgkt, folder, rows):
    path, _ = rows
    found = hgkt("suggest", "--model", folder, "--items", path, "-n", "5", "--json")
    items = json.loads(found.stdout)["items"]
    assert len({item["item"] for item in items}) == 5
    shown = hgkt("suggest", "--model", folder, "--items", path, "-n", "5").stdout
    assert all(item["item"] in shown for item in items)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "either --inbox DIR or --items PATH"),
        (["--inbox", "nowhere"], "keeps no unknown items"),
    ],
)
def test_it_says_in_a_sentence_what_is_wrong(hgkt, folder, options, sentence):
    with pytest.raises(DataError, match=sentence):
        hgkt("unknown", "list", "--model", folder, *options)


def test_a_model_without_thresholds_says_what_would_give_it_some(hgkt, model_folder, rows):
    with pytest.raises(DataError, match=r"no thresholds .* train it with `hgkt train --calibrate`"):
        hgkt("unknown", "list", "--model", model_folder, "--items", rows[0])


def test_an_item_that_is_not_there_is_told(hgkt, folder, rows):
    source = ["--model", folder, "--items", rows[0]]
    with pytest.raises(DataError, match="no unknown item is called 'row x'"):
        hgkt("unknown", "make", *source, "--group", "row x", "--name", "six")
