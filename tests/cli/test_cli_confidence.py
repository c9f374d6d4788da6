"""`hgkt evaluate` says how right its confidence is, and draws it."""

from __future__ import annotations

import json

import pytest

from hgkt.exceptions import DataError


def test_confidence_and_unknown_classes_are_reported_and_drawn(hgkt, tmp_path):
    path = tmp_path / "risk.svg"
    asked = ("--unknown-classes", 1, "--risk", path, "--json")
    document = json.loads(hgkt("evaluate", "--data", "digits", *asked).stdout)
    assert document["confidence_unseen"]["set_coverage"] > 50
    assert document["unknown"]["n_unknown"] == 1
    assert "<svg" in path.read_text()[:1000]


def test_the_table_is_printed_below_the_result(hgkt):
    shown = hgkt("evaluate", "--data", "digits", "--seeds", 2).stdout
    assert "seen rows" in shown
    assert "unseen rows" in shown
    assert "never added" not in shown


def test_a_drawing_of_another_kind_is_refused_before_the_run(hgkt, tmp_path):
    with pytest.raises(DataError, match=r"\.png or \.svg"):
        hgkt("evaluate", "--data", "digits", "--risk", tmp_path / "risk.docx")


def test_there_is_nothing_to_draw_without_validation(hgkt, tmp_path):
    with pytest.raises(DataError, match="nothing to draw"):
        hgkt(
            "evaluate", "--data", "digits", "--no-calibrate", "--risk", tmp_path / "risk.png"
        )  # fmt: skip
