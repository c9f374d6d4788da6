"""check_dataset: what it warns of and what it lets pass."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat
from typer.testing import CliRunner

from hgkt.cli.datasets import app
from hgkt.data import (
    ClassFold,
    GZSLDataset,
    check_dataset,
    check_splits,
    load_dataset,
    load_digits,
    make_synthetic,
    write_xlsa17,
)
from hgkt.data.catalog import CATALOG, find_facts, mirrors_of


def sentences(data: GZSLDataset, level: str) -> str:
    return " | ".join(f.sentence for f in check_dataset(data) if f.level == level)


def test_check_finds_nothing_wrong_with_embedded_sets() -> None:
    for data in (load_digits(), make_synthetic()):
        assert sentences(data, "error") == sentences(data, "warning") == ""


def test_check_reports_every_violation_as_error() -> None:
    data = load_digits()
    features = data.features.copy()
    features[4] = np.nan
    attributes = data.class_attributes.copy()
    attributes[[1, 3]] = np.inf
    errors = sentences(replace(data, features=features, class_attributes=attributes), "error")
    for expected in ("NaN in row 4", "class 'one'", "class 'three'"):
        assert expected in errors


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"class_attributes": np.zeros((10, 2))}, "all attributes of class 'zero' are zero"),
        ({"class_attributes": np.eye(10)[[0, 1, 2, 3, 4, 5, 6, 7, 8, 2]]},
         "classes 'two' and 'nine' have the same attributes"),
        ({"features": load_digits().features - 1}, "1797 rows have negative features"),
        ({"features": load_digits().features * (np.arange(1797) != 9)[:, None]},
         "1 rows of features are all zero, the first is row 9"),
        ({"folds": (ClassFold([0, 1], [3]),)}, "fold 1 leaves out 5 seen classes, such as 'four'"),
        ({"about": {"unmatched_classes": ["gnu"]}}, "1 classes that are not in .* 'gnu'"),
        ({"about": {"leaks": {"att_splits.mat:train_loc": 7}}},
         "train_loc of att_splits.mat holds 7 test images"),
        ({"about": {"attributes": "att"}, "class_attributes": -np.eye(10)},
         "10 attribute values are negative"),
    ],
)  # fmt: skip
def test_check_warns(changes: dict[str, object], warning: str) -> None:
    data = replace(load_digits(), attribute_names=None, **changes)
    assert re.search(warning, sentences(data, "warning"))
    assert not re.search(warning, sentences(load_digits(), "warning"))


def test_check_compares_with_the_published_counts_and_split(data_root: Path) -> None:
    data = load_dataset("CUB", root=data_root, features="efflite2")
    fine = sentences(data, "ok")
    assert "all counts are those published for CUB" in fine
    assert "is that of the published split" in fine
    moved = replace(
        data, train=data.train[:-1], test_seen=np.append(data.test_seen, data.train[-1])
    )
    warnings = sentences(moved, "warning")
    assert "n_train is 7056; the published CUB has 7057" in warnings
    assert "is not that of the published split" in warnings
    assert sentences(moved, "error") == ""


def test_check_counts_of_other_attributes_are_not_compared(data_root: Path) -> None:
    data = load_dataset("CUB", root=data_root, features="efflite2", attributes="sent")
    assert "all counts are those published for CUB" in sentences(data, "ok")


@pytest.mark.parametrize(
    ("name", "counts", "leaks"),
    [
        ("AWA2", (37322, 50, 85, 23527, 5882, 7913), (4031, 1851)),
        ("SUN", (14340, 717, 102, 10320, 2580, 1440), (2320, 260)),
    ],
)
def test_a_real_split_without_features_is_recognised(
    data_root: Path, name: str, counts: tuple[int, ...], leaks: tuple[int, int]
) -> None:
    folder = data_root / "SPLITS" / name
    if not (folder / "att_splits.mat").is_file():
        pytest.skip(f"no split file in {folder}; set HGKT_DATA to a folder that holds SPLITS")
    result = CliRunner().invoke(app, ["check", str(folder), "--json"])
    assert result.exit_code == 1  # it cannot be used before its features are there
    (report,) = json.loads(result.stdout)["datasets"]
    keys = ("n_instances", "n_classes", "n_attributes", "n_train", "n_test_seen", "n_test_unseen")
    assert tuple(report["summary"][key] for key in keys) == counts
    found = {level: [] for level in ("ok", "warning", "error")}
    for finding in report["findings"]:
        found[finding["level"]].append(finding["sentence"])
    assert f"all counts are those published for {name}" in found["ok"]
    assert any("is that of the published split" in sentence for sentence in found["ok"])
    assert [sentence.split(";")[0] for sentence in found["warning"]] == [
        f"train_loc of att_splits.mat holds {leaks[0]} test images",
        f"val_loc of att_splits.mat holds {leaks[1]} test images",
    ]
    (missing,) = found["error"]
    assert missing.startswith(f"{folder} has a split file and no features: put res101.mat")


def test_a_split_without_features_that_shares_rows_or_is_another_is_said(tmp_path: Path) -> None:
    folder = write_xlsa17(load_digits(), tmp_path / "AWA2")
    (folder / "features.mat").unlink()
    summary, findings = check_splits(folder)
    assert summary["n_train"] == len(load_digits().train)
    warnings = [finding.sentence for finding in findings if finding.level == "warning"]
    assert "n_classes is 10; the published AWA2 has 50" in warnings
    assert any("is not that of the published split" in sentence for sentence in warnings)
    found = loadmat(folder / "att_splits.mat")
    variables = {name: value for name, value in found.items() if not name.startswith("__")}
    variables["test_seen_loc"] = variables["trainval_loc"][:3]
    savemat(folder / "att_splits.mat", variables)
    errors = [finding.sentence for finding in check_splits(folder)[1] if finding.level == "error"]
    assert len(errors) == 2
    assert "is in train and in test_seen (3 such rows)" in errors[0]


@pytest.mark.parametrize(
    ("name", "n_instances"),
    [("SUN", 14340), ("CUB", 11788), ("AWA1", 30475), ("AWA2", 37322), ("APY", 15339),
     ("FLO", 8189)],
)  # fmt: skip
def test_catalog_splits_add_up_to_the_images_there_are(name: str, n_instances: int) -> None:
    facts = CATALOG[name]
    assert facts.n_train + facts.n_test_seen + facts.n_test_unseen == n_instances


def test_catalog_mirrors_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HGKT_MIRRORS", "http://b/x.zip, http://c/x.zip")
    facts = find_facts("awa2")
    assert facts is not None
    assert mirrors_of(facts, ["http://a/x.zip", "http://c/x.zip"]) == [
        "http://a/x.zip",
        "http://c/x.zip",
        "http://b/x.zip",
        *facts.mirrors,
    ]
    assert find_facts("digits") is None


def test_vectors_of_words_are_not_taken_for_missing_values():
    data = load_digits()
    words = np.random.default_rng(0).standard_normal((10, 32)).astype(np.float32)
    about = {"attributes": "att", "encoder": {"name": "words", "identity": "w"}}
    described = replace(data, class_attributes=words, attribute_names=None, about=about)
    assert not [f for f in check_dataset(described) if "values are negative" in f.sentence]
    unknown = replace(described, about={"attributes": "att"})
    assert not [f for f in check_dataset(unknown) if "values are negative" in f.sentence]
