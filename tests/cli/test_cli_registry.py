"""`hgkt classes` on a registry's database: carry to a new model, into a folder and back, undo."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.registries import Registry

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import DataError, ModelFolderError
from hgkt.language import ClassDescription
from hgkt.serving.edition import model_identity
from hgkt.serving.live_model import ServedModel
from hgkt.serving.transfer import ModelFacts

DIGITS = load_dataset("digits")


def vector(name):
    return DIGITS.attributes_of([DIGITS.class_names.index(name)])[name]


@pytest.fixture
def new_folder(tmp_path):
    """A model of the same classes from half of the rows, with its attributes turned round."""
    X, y = DIGITS.rows("train")
    table = {k: v[::-1] for k, v in DIGITS.attributes_of(DIGITS.seen_classes).items()}
    model = HGKTClassifier(calibration=0.3, device="cpu").fit(X[::2], y[::2], table)
    names = list(DIGITS.attribute_names)[::-1]
    return model.save(tmp_path / "new", data="digits", attribute_names=names)


@pytest.fixture
def registry(model_folder, tmp_path):
    """The registry beside the model folder: "two" is described, "six" has grown too."""
    model = load_model(model_folder)
    url = f"sqlite:///{tmp_path / 'model.registry.sqlite'}"
    with Registry(url, model_identity(model)) as registry:
        served = ServedModel(model, registry)
        registry.remember(ModelFacts.of(model, "model").to_json())  # as the service does
        served.add([ClassDescription(name, vector=vector(name)) for name in ("two", "six")])
        X, y = DIGITS.rows("test_unseen")
        served.grow("six", X[y == "six"][:4])
        yield registry


def read(hgkt, *arguments):
    return json.loads(hgkt("classes", *arguments, "--json").stdout)


def test_migrate_reports_first_and_then_carries_once(
    hgkt, model_folder, new_folder, registry, tmp_path
):
    database = f"sqlite:///{tmp_path / 'model.registry.sqlite'}"
    common = ["--from", registry.model_id[:12], "--model", new_folder, "--database", database]

    plan = read(hgkt, "migrate", *common, "--dry-run")
    assert (plan["moving"], plan["growing"], plan["revision"]) == (["two", "six"], {"six": 4}, None)
    found = read(hgkt, "models", "--database", database)["models"]
    assert [(one["n_classes"], one["n_grown"]) for one in found] == [(2, 1)]

    shown = hgkt("classes", "migrate", *common).stdout
    assert "2 classes (two, six) moved from model" in shown
    assert "4 examples go along, of 1 class (six)" in shown
    again = read(hgkt, "migrate", *common)
    assert (again["moving"], again["revision"]) == ([], None)
    assert {one["name"]: one["reason"] for one in again["present"]} == dict.fromkeys(
        ("two", "six"), "it is there already"
    )
    found = read(hgkt, "models", "--database", database)["models"]
    assert {(one["name"], one["n_classes"], one["n_grown"]) for one in found} == {
        ("new", 2, 1), ("model", 2, 1)
    }  # fmt: skip
    assert registry.model_id[:12] in hgkt("classes", "models", "--database", database).stdout

    with pytest.raises(DataError, match="there is no class registry"):
        hgkt("classes", "models", "--database", f"sqlite:///{tmp_path / 'no.sqlite'}")
    assert not (tmp_path / "no.sqlite").exists()


def test_classes_go_from_a_registry_to_a_folder_and_back(hgkt, model_folder, registry, tmp_path):
    described = registry.rollback(1)  # the examples of "six" are gone
    before = {entry.name: entry.attributes.tobytes() for entry in registry.table().entries}
    pulled = read(hgkt, "pull", "--model", model_folder, "--out", tmp_path / "pulled")
    assert (pulled["revision"], pulled["n_added_classes"]) == (described, 2)
    assert pulled["same_identity"]
    folder = load_model(tmp_path / "pulled")
    assert folder.unseen_classes_.tolist() == ["two", "six"]
    assert folder.about_["attribute_names"] == list(DIGITS.attribute_names)

    registry.remove(["two", "six"])
    database = f"sqlite:///{tmp_path / 'model.registry.sqlite'}"
    common = ["--from", tmp_path / "pulled", "--model", model_folder, "--database", database]
    back = read(hgkt, "migrate", *common)
    assert back["moving"] == ["two", "six"]
    assert {entry.name: entry.attributes.tobytes() for entry in registry.table().entries} == before
    assert registry.events(back["revision"] - 1)[0].origin.reason.startswith("adopted from pulled")
    again = read(hgkt, "migrate", *common)
    assert (again["moving"], again["revision"]) == ([], None)

    hgkt("classes", "remove", "six", "--model", tmp_path / "pulled")
    hgkt("classes", "add", "--model", tmp_path / "pulled", "--name", "six", "--attributes",
         ",".join(map(str, vector("six") * 0.5)))  # fmt: skip
    # The registry has the class too, and what it says of it counts.
    assert read(hgkt, "migrate", *common)["moving"] == []


def test_pull_takes_growth_along(hgkt, model_folder, registry):
    X, y = DIGITS.rows("test_unseen")
    expected = load_model(model_folder)
    expected.add_classes({name: vector(name) for name in ("two", "six")})
    expected.partial_fit(X[y == "six"][:4], ["six"] * 4)
    pulled = read(hgkt, "pull", "--model", model_folder, "--in-place")
    assert (pulled["n_examples"], pulled["same_identity"]) == (4, False)
    found = load_model(model_folder)
    np.testing.assert_allclose(
        found.decision_function(X[:20]), expected.decision_function(X[:20]), atol=1e-9
    )
    with pytest.raises(DataError, match="--out FOLDER or --in-place"):
        hgkt("classes", "pull", "--model", model_folder)
    with pytest.raises(ModelFolderError, match="is there already"):
        hgkt("classes", "pull", "--model", model_folder, "--out", model_folder)


def test_log_and_rollback_on_a_database(hgkt, model_folder, registry):
    shown = hgkt("classes", "log", "--model", model_folder).stdout
    assert "add two" in shown
    assert "grow six by 4 examples" in shown
    done = read(hgkt, "rollback", 1, "--model", model_folder, "--reason", "too few")
    assert (done["revision"], registry.table().growth) == (3, {})
    lines = read(hgkt, "log", "--model", model_folder, "--after", 2, "--name", "six")["events"]
    assert [(line["kind"], line["reason"]) for line in lines] == [("rollback", "too few")]
    assert [entry.name for entry in registry.table().entries] == ["two", "six"]
