"""What the estimators refuse, they refuse with one whole sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.evidence import attribute_evidence

from hgkt import HGKTClassifier, HGKTNetworkClassifier, load_model
from hgkt.estimators import METHODS
from hgkt.estimators.explain import seen_pulls
from hgkt.estimators.methods import build_method, presets_of
from hgkt.estimators.model_folder import config_digest
from hgkt.exceptions import DataError, HGKTError, ModelFolderError, UnknownNameError

X = np.array([[3.0, 1.0], [3.0, 1.2], [1.0, 3.0], [1.1, 3.0]])
Y = ["cat", "cat", "dog", "dog"]
TABLE = {"cat": [1.0, 0.0, 0.5], "dog": [0.0, 1.0, 0.5]}
NEW = {"fox": [0.6, 0.6, 0.1]}


def fit(**options: Any) -> HGKTClassifier:
    return HGKTClassifier(**options).fit(X, Y, class_attributes=TABLE)


def bare() -> HGKTClassifier:
    return HGKTClassifier().fit(X, Y)


REFUSALS: list[tuple[Callable[[], Any], str]] = [
    # fit
    (
        lambda: HGKTClassifier().fit(X[:2], Y[:2]),
        "y holds one class only ('cat'); two are expected",
    ),
    (
        lambda: HGKTClassifier().fit(X, Y, {"cat": [1.0]}),
        "class 'dog' has no attributes in class_attributes",
    ),
    (
        lambda: HGKTClassifier().fit(X * np.nan, Y, TABLE),
        "features contain NaN in row 0; only finite numbers are accepted",
    ),
    (
        lambda: fit(calibration="high"),
        "calibration must be one of 'auto', 'balanced', 'classes', 'learned', 'described'; "
        "got 'high'",
    ),
    # classes that come and go
    (
        lambda: bare().add_classes(NEW),
        "this model was fitted without class_attributes, so nothing is known by which a new class "
        "could be told; fit it with class_attributes to add classes",
    ),
    (lambda: fit().add_classes({"cat": [1.0, 0.0, 0.0]}), "class 'cat' is there already"),
    (
        lambda: fit().add_classes({3: [1.0, 0.0, 0.0]}),
        "class 3: the classes of this model are strings",
    ),
    (
        lambda: (
            HGKTClassifier()
            .fit(X, [1, 1, 2, 2], {1: [1.0, 0.0], 2: [0.0, 1.0]})
            .add_classes({"fox": [1.0, 1.0]})
        ),
        "class 'fox': the classes of this model are numbers",
    ),
    (
        lambda: fit().add_classes({"fox": [1.0]}),
        "class 'fox' has 1 attributes; 3 are expected",
    ),
    (
        lambda: fit().remove_classes(["yak"]),
        "class 'yak' is unknown, so it cannot be removed",
    ),
    (
        lambda: fit().remove_classes(["cat"]),
        "class 'cat' was learned from instances and cannot be removed; "
        "leave it out of a prediction with among=",
    ),
    (
        lambda: fit().add_classes(NEW).remove_classes("fox"),
        "a list of classes is expected; got the string 'fox'",
    ),
    # predicting
    (
        lambda: fit().predict(X, among="new"),
        "among must be 'all', 'seen', 'unseen' or a list of classes; got 'new'",
    ),
    (
        lambda: fit().predict(X, among="unseen"),
        "among='unseen' but no class has been added; use add_classes first",
    ),
    (
        lambda: fit().predict(X, among=[]),
        "among is an empty list; at least one class is expected",
    ),
    (
        lambda: fit().predict(X, among=["cat", "yak"]),
        "among names class 'yak', which the model has not",
    ),
    (
        lambda: fit().score_classes([[np.inf, 1.0]]),
        "features contain infinity (inf) in row 0; only finite numbers are accepted",
    ),
    (lambda: fit().column_of("yak"), "class 'yak' is unknown to this model"),
    (lambda: fit().one_row(X), "one instance is expected; got an array of shape (4, 2)"),
    (
        lambda: fit().one_row(np.ones((1, 1, 2))),
        "one instance is expected; got an array of shape (1, 1, 2)",
    ),
    (
        lambda: fit().explain(X, n_runner_ups=0),
        "n_runner_ups must be an integer in [1, inf]; got 0",
    ),
    (
        lambda: attribute_evidence(bare(), X[0], "cat"),
        "this model was fitted without class_attributes, so no attribute speaks for a class",
    ),
    # names
    (
        lambda: build_method("ridge", "paper"),
        "method 'ridge' has no presets; leave out the preset 'paper'",
    ),
    (
        lambda: build_method("hgkt", "best"),
        "unknown preset 'best'; choose from: default, paper, exact",
    ),
    (
        lambda: build_method("hgkt-network", "default"),
        "preset 'default' is one of method 'hgkt', not 'hgkt-network'",
    ),
    (
        lambda: build_method("hgkt", parameters={"mu": 0.1}),
        "method 'hgkt' has no parameter 'mu': it is a parameter of HGKTNetworkClassifier "
        "(method hgkt-network)",
    ),
    (
        lambda: HGKTClassifier.from_preset("best"),
        "unknown preset 'best'; choose from: default, paper, exact",
    ),
    (
        lambda: HGKTClassifier.from_preset("paper"),
        "'paper' is a preset of HGKTNetworkClassifier, not of HGKTClassifier",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_refusals_are_whole_sentences(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(HGKTError) as refused:
        call()
    assert str(refused.value) == sentence


def test_unknown_parameters_list_the_known_ones() -> None:
    known = ", ".join(sorted(METHODS.load("ridge")().get_params()))
    with pytest.raises(DataError) as refused:
        build_method("ridge", parameters={"beta": 1})
    assert str(refused.value) == f"method 'ridge' has no parameter 'beta'; choose from: {known}"
    with pytest.raises(UnknownNameError):
        build_method("no such method")


@pytest.mark.parametrize(
    ("method", "name", "reason"),
    [
        ("hgkt", "mu", "it is a parameter of HGKTNetworkClassifier (method hgkt-network)"),
        ("hgkt-network", "inter", "it is a parameter of HGKTClassifier (method hgkt)"),
        ("hgkt-network", "shrinkage", "it is a parameter of HGKTClassifier (method hgkt)"),
    ],
)
def test_a_parameter_of_the_sister_method_says_where(method: str, name: str, reason: str) -> None:
    with pytest.raises(DataError) as refused:
        build_method(method, parameters={name: 1})
    assert str(refused.value) == f"method {method!r} has no parameter {name!r}: {reason}"


def test_presets_and_common_parameters_reach_the_method() -> None:
    model = build_method("hgkt", "paper", {"mu": 0.1}, random_state=5, attribute_blocks=[3])
    assert type(model) is HGKTNetworkClassifier
    assert (model.mu, model.random_state) == (0.1, 5)
    assert type(build_method("HGKT", "default")) is HGKTClassifier
    assert type(build_method("hgkt-network", "paper")) is HGKTNetworkClassifier
    assert presets_of("hgkt-network") == ("paper", "exact")
    # What is given by name wins over what is common to all.
    assert build_method("hgkt-network", None, {"random_state": 1}, random_state=2).random_state == 1


# ------------------------------------------------------------------ the model folder
def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ModelFolderError) as refused:
        call()
    return str(refused.value)


def test_a_method_that_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    class Own(HGKTClassifier):
        pass

    model = Own().fit(X, Y, TABLE)
    assert refusal(lambda: model.save(tmp_path / "model")) == (
        "Own is not a registered method, so a saved model could not be loaded again; "
        "register it by an entry point of the group 'hgkt.methods' (docs page *add a method*)"
    )


def test_folders_that_hold_no_model_say_why(tmp_path: Path) -> None:
    path = fit().save(tmp_path / "model")
    missing = tmp_path / "nothing"
    assert refusal(lambda: load_model(missing)) == (f"there is no model folder {missing}")
    config = path / "config.json"
    text = config.read_text()
    config.write_text("{")
    assert refusal(lambda: load_model(path)).startswith(f"{config} is not valid JSON: ")
    config.write_text("[]")
    assert refusal(lambda: load_model(path)) == f"{config} must hold one JSON object"
    for content in ("{}", '{"sha256": 1}'):
        config.write_text(content)
        assert refusal(lambda: load_model(path)) == f"{config} is not the config of an hgkt model"
    for found in (0, 5, 7, "6", True, None):
        config.write_text(json.dumps({**json.loads(text), "format_version": found}))
        assert refusal(lambda: load_model(path)) == (
            f"{path} has format version {found}; this release reads version 6"
        )
    document = json.loads(text)
    del document["n_features"]
    config.write_text(json.dumps(document))
    differs = f"{config} is not the file that was saved (its checksum differs)"
    assert refusal(lambda: load_model(path)) == differs
    document["sha256"]["config.json"] = config_digest(document)
    config.write_text(json.dumps(document))
    assert refusal(lambda: load_model(path)) == (
        f"{path} does not hold a complete model: 'n_features' of its config is None; int expected"
    )
    config.write_text(text)
    for name in ("model.safetensors", "classes.parquet"):
        data = (path / name).read_bytes()
        (path / name).write_bytes(data + b" ")
        assert refusal(lambda: load_model(path)) == (
            f"{path / name} is not the file that was saved (its checksum differs)"
        )
        (path / name).unlink()
        assert refusal(lambda: load_model(path)) == (f"{path} is incomplete: {name} is missing")
        (path / name).write_bytes(data)
    assert load_model(path).predict(X).tolist() == Y


def test_the_folder_says_what_it_holds(tmp_path: Path) -> None:
    model = fit(calibration=0.25).add_classes(NEW)
    path = model.save(tmp_path / "model", data="toy", encoder=None)
    config = json.loads((path / "config.json").read_text())
    assert config["format_version"] == 6
    assert config["method"] == "hgkt"
    assert config["parameters"]["calibration"] == 0.25
    assert (config["n_features"], config["n_attributes"]) == (2, 3)
    assert (config["has_attributes"], config["labels"]) == (True, "string")
    assert config["about"] == {"data": "toy", "encoder": None}
    table = pd.read_parquet(path / "classes.parquet")
    assert table["name"].tolist() == ["cat", "dog", "fox"]
    assert table["seen"].tolist() == [True, True, False]
    assert [row.tolist() for row in table["attributes"]] == [*TABLE.values(), *NEW.values()]
    card = (path / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: hgkt\ntags: [zero-shot-learning]\n---\n# hgkt\n")
    assert "Recognises 3 classes: 2 learned from instances, 1 added by" in card
    assert "feature vectors of length 2 and class attributes of\nlength 3." in card
    assert "- data: toy\n- encoder: None\n" in card
    assert "- calibration: 0.25\n" in card
    again = load_model(path).save(tmp_path / "again", encoder="words")
    kept = json.loads((again / "config.json").read_text())["about"]
    assert kept == {"data": "toy", "encoder": "words"}
    plain = fit().save(tmp_path / "plain")
    assert "\n- unknown\n" in (plain / "README.md").read_text()


@pytest.mark.parametrize(("labels", "kind"), [(["a", "b"], "string"), ([3, 7], "integer")])
def test_labels_keep_their_kind(labels: list[Any], kind: str, tmp_path: Path) -> None:
    table = dict(zip(labels, TABLE.values(), strict=True))
    model = HGKTClassifier().fit(X, np.repeat(labels, 2), table)
    path = model.save(tmp_path / "model")
    assert json.loads((path / "config.json").read_text())["labels"] == kind
    loaded = load_model(path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == labels


# ------------------------------------------------------------------ evidence
def test_evidence_names_each_attribute_and_pulls_as_many_as_asked() -> None:
    model = fit().add_classes(NEW)
    everything = attribute_evidence(model, X[0], "fox")
    assert sorted(item.position for item in everything) == [0, 1, 2]
    assert [item.value for item in sorted(everything, key=lambda item: item.position)] == NEW["fox"]
    sizes = [abs(item.weight) for item in everything]
    assert sizes == sorted(sizes, reverse=True)
    pulls = seen_pulls(model, X[0], "fox")
    assert {pull.label for pull in pulls} == {"cat", "dog"}
    assert seen_pulls(model, X[0], "fox", n=1) == pulls[:1]
    other = METHODS.load("ridge")().fit(X, Y, TABLE)
    assert seen_pulls(other, X[0], "cat") == ()
