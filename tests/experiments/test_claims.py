"""Claims held against results, and how the report shows them."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.experiments.blocks import Column, Outcome, TableBlock, Value
from hgkt.experiments.claims import CLAIMS
from hgkt.experiments.comparison import class_table
from hgkt.experiments.plan import EXPERIMENTS, Cell, CellResult, Context, DataSpec
from hgkt.experiments.report import write_report
from hgkt.experiments.report.pages import column_parts
from hgkt.experiments.rows import PAPER

SETS = [DataSpec("CUB", "CUB"), DataSpec("AWA1", "AWA1")]
BEATS_DEM = CLAIMS["table-gzsl"][1]


def record(level: float, spread: float = 1.0) -> dict:
    """A run record in which every class is recognised `level` percent of the time, or about."""
    rng = np.random.default_rng(int(level))
    classes = (level + spread * rng.standard_normal(20)).tolist()
    names = ("ts", "tr", "zsl", "ts_uncalibrated", "tr_uncalibrated")
    metrics = dict.fromkeys(("ts", "tr", "H", "zsl", "ausuc"), float(np.mean(classes)))
    return {
        "metrics": metrics,
        "uncalibrated": metrics,
        "calibrated": metrics,
        "per_class": dict.fromkeys(names, classes),
        "by_zsl": {"zsl": metrics["zsl"], "per_class": classes},
    }


def outcome_of(levels: dict[tuple[str, str], float], spread: float = 1.0) -> Outcome:
    plan, results = {}, {}
    for (data, name), level in levels.items():
        cell = Cell("evaluate", DataSpec(data, data), name)
        plan[data, name] = [cell]
        results[cell.key] = CellResult(cell, record(level, spread))
    return Outcome(
        Context(data=SETS, methods=("hgkt", "hgkt-network", "dem"), n_seeds=1), plan, results
    )


def judge(cub: tuple[float, float], awa: tuple[float, float], spread: float = 1.0):
    levels = {
        (data, name): level
        for data, pair in (("CUB", cub), ("AWA1", awa))
        for name, level in zip((PAPER.name, "dem"), pair, strict=True)
    }
    return BEATS_DEM.judge(outcome_of(levels, spread))


@pytest.mark.parametrize(
    ("cub", "awa", "holds"),
    [
        ((40, 30), (50, 45), "yes"),
        ((30, 40), (40, 50), "no"),
        ((40, 30), (40, 50), "yes on CUB; no on AWA1"),
    ],
)
def test_a_claim_holds_where_the_interval_says_so(cub, awa, holds):
    found = judge(cub, awa)
    assert found.holds == holds
    assert [line.split(":")[0] for line in found.here] == ["CUB", "AWA1"]


def test_a_difference_within_the_interval_decides_nothing():
    assert judge((40, 41), (50, 51), spread=20.0).holds == "undecided"


def test_a_claim_of_which_nothing_ran_is_not_judged():
    assert BEATS_DEM.judge(outcome_of({})).holds == "not run"


def test_the_best_rival_is_the_one_to_beat():
    claim = CLAIMS["table-gzsl"][2]
    levels = {("CUB", "hgkt"): 40, ("CUB", "dem"): 45, ("CUB", "eszsl"): 30}
    outcome = outcome_of(levels)
    context = Context(data=SETS[:1], methods=("hgkt", "dem", "eszsl"), n_seeds=1)
    found = claim.judge(Outcome(context, outcome.plan, outcome.results))
    assert found.holds == "no"
    assert "of DEM" in found.here[0]


@pytest.mark.parametrize("name", list(CLAIMS))
def test_claims_compare_what_their_experiment_plans(name):
    context = Context(data=SETS[:1], methods=("hgkt", "hgkt-network", "dem"), n_seeds=1)
    plan = EXPERIMENTS.load(name).plan(context)
    outcome = Outcome(context, plan, {})
    for claim in CLAIMS[name]:
        own, rivals = claim.slots(outcome, SETS[0])
        slots = [own, *rivals.values()]
        assert [slot for slot in slots if slot not in plan] == []


@pytest.mark.parametrize("quick", [False, True])
def test_report_shows_claims_first_and_in_their_section(tmp_path, quick):
    context = Context(data=SETS, methods=("hgkt", "hgkt-network", "dem"), n_seeds=1, quick=quick)
    experiments = {"table-gzsl": EXPERIMENTS.load("table-gzsl")}
    plans = {"table-gzsl": experiments["table-gzsl"].plan(context)}
    cells = [cell for group in plans["table-gzsl"].values() for cell in group]
    results = {c.key: CellResult(c, record(30 if c.method == "dem" else 40)) for c in cells}
    files = write_report(tmp_path, context, experiments, plans, results)
    page = files.html.read_text()
    assert page.index('id="claims"') < page.index('id="table-gzsl"')
    assert page.count(BEATS_DEM.sentence.replace("'", "&#39;")) == 2
    assert ('<td class="verdict yes">yes</td>' in page) != quick
    assert ("not judged: a quick run" in page) == quick
    assert "| Claim | Paper | Here | Holds? |" in files.markdown.read_text()


def test_wide_tables_are_split_between_groups():
    heads = ["Method", *(Column(f"m{j}", f"set {i}") for i in range(5) for j in range(5))]
    rows = [["DEM", *(Value(40.0, 1.0) for _ in range(25))]]
    parts = column_parts(TableBlock("t", "T", heads, rows))
    assert [len(part) for part in parts] == [16, 11]
    assert all(part[0] == 0 for part in parts)


def test_columns_behind_the_groups_are_shown():
    heads = ["Data set", Column("seen", "Classes"), Column("unseen", "Classes"), "Checked"]
    assert column_parts(TableBlock("t", "T", heads, [])) == [[0, 1, 2, 3]]
    assert column_parts(TableBlock("t", "T", heads, []), most=2) == [[0, 1, 2], [0, 3]]


def test_class_table_leaves_out_classes_without_rows():
    found = class_table(np.array([[0, 0], [1, 1]]), ["a", "b"], 1)
    assert found == [("b", False, 2, 50.0, "a", 50.0)]
