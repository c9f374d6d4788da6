"""Accuracy by level, back-off and the distance of mistakes, against counts made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.estimators import Taxonomy
from hgkt.evaluation import taxonomy_report
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
