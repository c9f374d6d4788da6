"""`hgkt evaluate` says how right its confidence is."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hgkt import UNKNOWN, HGKTClassifier, load_dataset
from hgkt.exceptions import DataError


def test_confidence_and_unknown_classes_are_reported(hgkt):
    asked = ("--unknown-classes", 1, "--json")
    document = json.loads(hgkt("evaluate", "--data", "digits", *asked).stdout)
    assert document["confidence_unseen"]["set_coverage"] > 50
    assert document["unknown"]["n_unknown"] == 1


def test_the_table_is_printed_below_the_result(hgkt):
    shown = hgkt("evaluate", "--data", "digits", "--seeds", 2).stdout
    assert "seen rows" in shown
    assert "unseen rows" in shown
    assert "never added" not in shown
    for meaning in ("ts, tr: accuracy", "ZSL: accuracy on unseen", "AUSUC: area", "H*: the best H"):
        assert meaning in shown


@pytest.fixture
def sure_folder(tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))
    return model.save(tmp_path / "model", data="digits")


def test_predict_rejects_and_names_sets(hgkt, sure_folder, tmp_path):
    asked = ("--model", sure_folder, "--data", "digits", "--reject", 0.4, "--coverage", 0.7)
    document = json.loads(hgkt("predict", *asked, "--json").stdout)
    rows = document["predictions"]
    assert {type(row["label"]) for row in rows} == {str, type(None)}
    assert all(0 < row["probability"] <= 1 and 0 <= row["novelty"] <= 1 for row in rows)
    assert all(row["set"] for row in rows)
    n_rejected = sum(row["label"] is None for row in rows)
    assert document["n_rejected"] == n_rejected > 1
    shown = hgkt("predict", *asked).stdout
    assert (
        f"{n_rejected} of {len(rows)} rows were rejected as unknown; the accuracy is that of the "
        f"other {len(rows) - n_rejected}" in " ".join(shown.split())
    )
    out = tmp_path / "rows.csv"
    hgkt("predict", *asked, "--out", out)
    frame = pd.read_csv(out)
    assert (frame["label"] == UNKNOWN).sum() == sum(row["label"] is None for row in rows)


def test_a_model_without_thresholds_predicts_but_does_not_reject(hgkt, model_folder):
    rows = json.loads(
        hgkt("predict", "--model", model_folder, "--data", "digits", "--json").stdout
    )["predictions"]  # fmt: skip
    assert "probability" not in rows[0]
    with pytest.raises(DataError, match="cannot say how sure it is"):
        hgkt("predict", "--model", model_folder, "--data", "digits", "--reject", 0.1)


def test_rejected_rows_are_no_mistakes(hgkt, sure_folder):
    asked = ("predict", "--model", sure_folder, "--data", "digits", "--reject", 0.4, "--json")
    document = json.loads(hgkt(*asked).stdout)
    answered = [row for row in document["predictions"] if row["label"] is not None]
    assert 0 < len(answered) == document["n_rows"] - document["n_rejected"]
    names = {row["truth"] for row in answered}
    per_class = {
        name: 100 * np.mean([row["label"] == name for row in answered if row["truth"] == name])
        for name in names
    }
    assert document["per_class"] == pytest.approx(per_class)
    assert document["accuracy"] == pytest.approx(np.mean([*per_class.values()]))
