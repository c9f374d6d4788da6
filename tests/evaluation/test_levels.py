"""Accuracy by level, back-off and the distance of mistakes, against counts made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hgkt.cli.main import app
from hgkt.data import load_dataset, write_tables
from hgkt.estimators import HGKTClassifier, Taxonomy
from hgkt.evaluation import RunRecord, evaluate, taxonomy_report
from hgkt.exceptions import DataError

TREE = Taxonomy.of(
    ["gala", "jazz", "lemon", "leek"],
    {"gala": "apple", "jazz": "apple", "apple": "fruit", "lemon": "fruit"},
)
LABELS = ["gala", "gala", "gala", "leek"]
CHANCES = np.array(
    [
        [0.85, 0.05, 0.05, 0.05],  # right
        [0.40, 0.45, 0.05, 0.10],  # jazz: 2 steps; apple 0.85
        [0.10, 0.10, 0.60, 0.20],  # lemon: 3 steps; fruit 0.8
        [0.50, 0.20, 0.25, 0.05],  # gala: 4 steps; fruit 0.95
    ]
)


def test_the_report_counts_what_one_counts_by_hand():
    report = taxonomy_report(LABELS, CHANCES, TREE, [0.79, 0.92, 0.99])
    assert [level.n_nodes for level in report.levels] == [2, 3, 4]
    assert [level.of_rows for level in report.levels] == pytest.approx([75, 50, 25])
    # The one row of leek counts as much as three rows of gala.
    thirds = [100 / 2, 200 / 3 / 2, 100 / 3 / 2]
    assert [level.accuracy for level in report.levels] == pytest.approx(thirds)
    assert report.distance == pytest.approx(3)
    loose, strict, never = report.back_off
    assert (loose.coverage, loose.risk, loose.classes) == (100, 25, 25)
    assert (strict.coverage, strict.risk, strict.classes) == pytest.approx((50, 50, 0))
    assert (never.coverage, never.risk) == (0, None)
    assert report.to_dict()["back_off"][0]["at_least"] == 0.79


def test_without_mistakes_there_is_no_distance():
    assert taxonomy_report(["gala"], CHANCES[:1], TREE).distance is None


def test_a_row_of_another_class_is_refused():
    with pytest.raises(DataError, match="row 1 is of 'oat', which is no class of the taxonomy"):
        taxonomy_report(["gala", "oat"], CHANCES[:2], TREE)


PARENTS = {
    "zero": "round", "six": "round", "eight": "round", "nine": "round", "one": "straight",
    "four": "straight", "seven": "straight", "round": "a digit",
}  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    data = load_dataset("digits")
    return replace(data, about={**data.about, "parents": PARENTS})


def test_evaluate_reports_the_taxonomy_of_the_data_set(digits, tmp_path):
    models = []
    record = evaluate(HGKTClassifier(), digits, on_test=lambda model, _: models.append(model))
    (model,) = models
    rows = [digits.rows(part) for part in ("test_seen", "test_unseen")]
    X, y = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    expected = taxonomy_report(y, model.predict_proba(X), model.taxonomy())
    found = record.taxonomy
    assert [level.n_nodes for level in found.levels] == [5, 7, 10]
    for ours, theirs in zip(found.levels, expected.levels, strict=True):
        assert ours.accuracy == pytest.approx(theirs.accuracy)
    assert [floor.coverage for floor in found.back_off] == pytest.approx(
        [floor.coverage for floor in expected.back_off]
    )
    assert found.distance == pytest.approx(expected.distance)
    assert RunRecord.load(record.save(tmp_path)).taxonomy == found


def test_evaluate_has_no_taxonomy_where_the_data_set_has_none():
    record = evaluate(HGKTClassifier(), load_dataset("digits"))
    assert record.taxonomy is None
    assert RunRecord.from_dict(record.to_dict()).taxonomy is None


def test_a_column_parent_of_the_table_of_classes_is_the_taxonomy(digits, tmp_path):
    folder = write_tables(load_dataset("digits"), tmp_path / "digits", format="csv")
    classes = pd.read_csv(folder / "classes.csv")
    classes["parent"] = [PARENTS.get(name, "") for name in classes["name"]]
    classes.to_csv(folder / "classes.csv", index=False)
    own = {name: parent for name, parent in PARENTS.items() if name in set(classes["name"])}
    assert load_dataset(folder).about["parents"] == own
    outcome = CliRunner().invoke(app, ["evaluate", "--data", str(folder), "--json"])
    taxonomy = json.loads(outcome.stdout)["taxonomy"]
    assert [level["level"] for level in taxonomy["levels"]] == [1, 2]
    shown = CliRunner().invoke(app, ["evaluate", "--data", str(folder)]).stdout
    assert "level 1 of 2, 5 nodes" in shown
    assert "at least 0.8" in shown
    assert "steps from a wrong class to the right one" in shown
