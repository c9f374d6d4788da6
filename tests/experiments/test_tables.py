"""Tables and figures of results against values computed directly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import METHODS, HGKTClassifier
from hgkt.estimators.methods import attribute_methods
from hgkt.evaluation import evaluate
from hgkt.experiments.blocks import Column, Outcome, TextBlock, Value, lookup, mark_best
from hgkt.experiments.comparison import curves_of, rank_matrix
from hgkt.experiments.plan import EXPERIMENTS, Cell, CellResult, Context, DataSpec
from hgkt.experiments.report.pages import value_text
from hgkt.experiments.rows import PUBLISHED, data_note, plan_evaluations, rows_of
from hgkt.experiments.tables import describe_data, evaluate_cell

ZSL = EXPERIMENTS.load("table-zsl")
GZSL = EXPERIMENTS.load("table-gzsl")
RANKS = EXPERIMENTS.load("figure-ranks")
CURVES = EXPERIMENTS.load("figure-curves")
STATISTICS = EXPERIMENTS.load("table-data")

DIGITS = DataSpec("digits", "digits")


@pytest.fixture(scope="module")
def dataset():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def context():
    return Context(
        data=[DIGITS],
        missing=["SUN"],
        methods=("hgkt", "hgkt-network", "eszsl", "ridge"),
        n_seeds=2,
    )


@pytest.fixture(scope="module")
def results(context, dataset):
    """Everything but the paper's network, which is left out as a row that was not run."""
    found = {}
    for cell in cells_of(context):
        if cell.method != "hgkt-network":
            values, arrays = evaluate_cell(cell, dataset)
            found[cell.key] = CellResult(cell, values, arrays, seconds=1.0)
    return found


def cells_of(context, plan=plan_evaluations):
    return [cell for cells in plan(context).values() for cell in cells]


def outcome(experiment, context, results):
    return Outcome(context, experiment.plan(context), results)


def rendered(experiment, context, results):
    return experiment.render(outcome(experiment, context, results))


def _row(block, label):
    return next(row for row in block.rows if row[0] == label)


# ------------------------------------------------------------------ rows and cells
def test_rows_of_names_every_method_for_any_class_vectors_and_only_what_is_asked_for():
    rows = rows_of(Context(data=()))
    assert [row.method for row in rows if not row.fixed] == attribute_methods()
    assert len({row.name for row in rows}) == len({row.label for row in rows}) == len(rows)
    fixed = [row.method for row in rows if row.fixed]
    assert fixed == ["sync", "sae", "gfzsl", "cn-zsl", "cada-vae"]
    assert [row.name for row in rows if row.ours] == ["hgkt", "hgkt-paper"]
    for methods, names in (
        (["hgkt"], ["hgkt"]),
        (["hgkt-network", "hgkt"], ["hgkt-paper", "hgkt"]),
        (["hgkt-network"], ["hgkt-paper"]),
    ):
        assert [row.name for row in rows_of(Context(data=(), methods=methods))] == names


def test_every_row_has_all_seeds():
    for cells in plan_evaluations(Context(data=[DIGITS], n_seeds=5)).values():
        assert [cell.seed for cell in cells] == [0, 1, 2, 3, 4]


def test_a_method_with_the_settings_of_its_authors_has_a_second_row(monkeypatch):
    monkeypatch.setattr(METHODS.load("sae"), "named_presets", {"released": None}, raising=False)
    context = Context(data=[DIGITS], methods=("sae", "ridge"), n_seeds=2)
    assert [row.label for row in rows_of(context)] == ["SAE", "SAE, as released", "Ridge"]
    cells = plan_evaluations(context)["digits", "sae-released"]
    assert {(cell.preset, cell.options["select"]) for cell in cells} == {("released", False)}
    assert rows_of(context)[1].published(DataSpec("CUB", ""), "H") is None


def test_tables_plan_the_same_cells(context):
    plans = [
        {cell.key for cell in cells_of(context, experiment.plan)}
        for experiment in (ZSL, GZSL, RANKS, CURVES)
    ]
    assert all(plan == plans[0] for plan in plans)
    assert {dict(cell.options)["select"] for cell in cells_of(context)} == {True}


def test_evaluate_cells_quick_differs_and_runs(dataset):
    quick = Context(data=[DIGITS], methods=("hgkt", "eszsl", "cn-zsl"), n_seeds=1, quick=True)
    slow = Context(data=[DIGITS], methods=quick.methods, n_seeds=1)
    keys = {cell.key for cell in cells_of(slow)}
    for cell in cells_of(quick):
        assert cell.key not in keys
        values, arrays = evaluate_cell(cell, dataset)
        assert values["validation"]["n_settings"] == 1
        assert len(arrays["seen"]) > 1


# ------------------------------------------------------------------ values
def _fake(seed, **values):
    cell = Cell("evaluate", DIGITS, "dem", seed=seed)
    return cell, CellResult(cell, {"metrics": values})


def _value(found, cells, metric, **options):
    return Outcome(Context(data=()), {"slot": cells}, found).value("slot", metric, **options)


def test_value_is_mean_and_sample_deviation():
    pairs = [_fake(seed, H=number) for seed, number in enumerate([10.0, 12.0, 17.0])]
    found = {cell.key: result for cell, result in pairs}
    got = _value(found, [cell for cell, _ in pairs], "H", published=11.0)
    assert got.mean == pytest.approx(np.mean([10, 12, 17]))
    assert got.deviation == pytest.approx(np.sqrt((3**2 + 1**2 + 4**2) / 2))
    assert got.n == 3
    assert value_text(got) == "13.0 ± 3.6"
    assert got.keys == tuple(cell.key for cell, _ in pairs)
    assert got.published == 11.0


def test_value_one_seed_has_no_deviation():
    cell, result = _fake(0, H=10.04)
    got = _value({cell.key: result}, [cell], "H")
    assert (value_text(got), got.deviation, got.n) == ("10.0", None, 1)


def test_value_tells_failed_absent_and_partly_failed_apart():
    cells = [_fake(seed, H=20.0)[0] for seed in range(3)]
    failed = {cell.key: CellResult(cell, error="out of memory") for cell in cells}
    assert _value({}, cells, "H") == Value()
    assert value_text(Value()) == "–"
    all_failed = _value(failed, cells, "H")
    assert (value_text(all_failed), all_failed.mean, all_failed.n) == ("failed", None, 0)
    assert all_failed.failed == "out of memory"
    mixed = {**failed, cells[0].key: CellResult(cells[0], {"metrics": {"H": 20.0}})}
    some = _value(mixed, cells, "H")
    assert (value_text(some), some.mean, some.n) == ("20.0", 20.0, 1)
    assert some.failed == "2 of 3 seeds failed: out of memory"


def test_value_missing_metric_is_no_number():
    cell, result = _fake(0, H=None)
    assert _value({cell.key: result}, [cell], "H").mean is None
    assert value_text(_value({cell.key: result}, [cell], ("calibrated", "H"))) == "–"


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        (Value(31.0), Value(30.0), True),
        (Value(30.04), Value(29.96), False),  # reads the same
        (Value(31.0, 0.9), Value(30.0, 0.9), True),
        (Value(31.0, 1.1), Value(30.0, 0.1), False),
        (Value(31.0, 0.1), Value(30.0, 1.1), False),
    ],
)
def test_mark_best_wants_a_lead_of_more_than_the_deviations(first, second, marked):
    column = [second, Value(), first, Value(20.0, 0.1), "words"]
    best = [getattr(v, "best", None) for v in mark_best(column)]
    assert best == [False, False, marked, False, None]


def test_mark_best_of_a_single_number_is_none():
    assert not mark_best([Value(1.0), Value()])[0].best


# ------------------------------------------------------------------ tables of results
_HEADS = ("H, γ = 0", "ts", "tr", "H", "AUSUC")
_PATHS = (("uncalibrated", "H"), "ts", "tr", "H", "ausuc")


def _first(context, results, label):
    """The run record of a row's first seed."""
    (row,) = [row for row in rows_of(context) if row.label == label]
    return results[plan_evaluations(context)["digits", row.name][0].key].values


@pytest.mark.endure
def test_gzsl_table_equals_direct_evaluation(context, results, dataset):
    table = rendered(GZSL, context, results)[0]
    assert table.heads == [Column("Method"), *(Column(name, "digits") for name in _HEADS)]
    for label, model in (
        ("ESZSL", METHODS.load("eszsl")()),
        ("Ridge", METHODS.load("ridge")()),
        ("HGKT", HGKTClassifier()),
    ):
        record = evaluate(model, dataset, select=True)
        metrics = record.metrics
        expected = [record.uncalibrated.H, metrics.ts, metrics.tr, metrics.H, metrics.ausuc]
        first = [lookup(_first(context, results, label), metric) for metric in _PATHS]
        assert first == pytest.approx(expected)
        others = [v.n for v in _row(table, label)[1:]]
        assert others == [2] * len(_HEADS)
    assert [table.rows[place][0] for place in table.ours] == ["HGKT", "HGKT, paper"]


def test_paired_table_is_hgkt_minus_the_others(context, results):
    table = rendered(GZSL, context, results)[1]
    assert table.name == "table-gzsl-paired"
    assert [row[0] for row in table.rows] == ["ESZSL", "Ridge"]  # the network did not run
    main = rendered(GZSL, context, results)[0]
    gap = _row(main, "HGKT")[4].mean - _row(main, "ESZSL")[4].mean
    assert _row(table, "ESZSL")[1].words.startswith(f"{gap:+.1f} (")
    zsl = rendered(ZSL, context, results)[0]
    gap = _row(zsl, "HGKT")[1].mean - _row(zsl, "Ridge")[1].mean
    assert _row(table, "Ridge")[3].words.startswith(f"{gap:+.1f} (")


def test_gzsl_table_shows_what_was_not_run(context, results):
    table = rendered(GZSL, context, results)[0]
    assert [value_text(v) for v in _row(table, "HGKT, paper")[1:]] == ["–"] * 5
    assert "SUN" not in table.note  # the head of the report says what was not found, once


def test_gzsl_best_is_a_clear_maximum_of_its_column(context, results):
    table = rendered(GZSL, context, results)[0]
    marked = []
    for column in range(1, 6):
        values = [row[column] for row in table.rows if row[column].mean is not None]
        first, second = sorted(values, key=lambda v: -v.mean)[:2]
        lead = first.mean - second.mean
        assert not any(v.best for v in values if v is not first)
        assert first.best == (lead > max(first.deviation, second.deviation) and lead >= 0.1)
        marked.append(first.best)
    assert any(marked)


def test_zsl_table_equals_direct_evaluation(context, results, dataset):
    (table,) = rendered(ZSL, context, results)
    found = [
        evaluate(METHODS.load("ridge")(), dataset, select=True, metric="zsl", random_state=seed)
        for seed in (0, 1)
    ]
    expected = np.mean([record.metrics.zsl for record in found])
    assert _row(table, "Ridge")[1].mean == pytest.approx(expected)


@pytest.mark.parametrize(("experiment", "column", "index"), [(ZSL, 1, 0), (GZSL, 1, 3)])
def test_published_numbers_stand_beside_ours(experiment, column, index):
    context = Context(data=[DataSpec("CUB", "CUB")], methods=(*PUBLISHED, "hgkt-network"))
    table = rendered(experiment, context, {})[0]
    shown = {row[0]: row[column].published for row in table.rows}
    assert shown["DEM"] == PUBLISHED["dem"]["CUB"][index]
    assert shown["HGKT"] == shown["HGKT, paper"] == PUBLISHED["hgkt"]["CUB"][index]


@pytest.mark.parametrize("experiment", [ZSL, GZSL, RANKS, CURVES, STATISTICS])
def test_render_copes_with_nothing_and_with_failures(experiment, context):
    assert rendered(experiment, context, {})
    planned = cells_of(context, experiment.plan)
    failed = {cell.key: CellResult(cell, error="no <b>memory</b>") for cell in planned}
    blocks = rendered(experiment, context, failed)
    texts = [value_text(v) for b in blocks for r in getattr(b, "rows", []) for v in r]
    assert "failed" in texts or any(isinstance(block, TextBlock) for block in blocks)


def test_data_note_names_other_features():
    assert data_note(Context(data=[DataSpec("CUB", "", "res101")], missing=["APY"])) == ""
    assert "efflite2 on CUB" in data_note(Context(data=[DataSpec("CUB", "", "efflite2")]))


# ------------------------------------------------------------------ ranks and curves
def test_rank_matrix_equals_counting():
    rng = np.random.default_rng(0)
    columns = [(data, name) for data in ("A", "B", "C") for name in ("ts", "tr", "H")]
    scores = {f"m{i}": {c: float(rng.integers(0, 6)) for c in columns} for i in range(5)}
    del scores["m3"]["A", "ts"]
    labels, counts, means = rank_matrix(pd.DataFrame(scores))
    for label, line, mean in zip(labels, counts, means, strict=True):
        own = [
            1 + sum(other.get(c, -1.0) > scores[label][c] for other in scores.values())
            for c in scores[label]
        ]
        assert line.tolist() == [own.count(rank) for rank in range(1, 6)]
        assert mean == pytest.approx(np.mean(own))
    assert means == sorted(means)


def test_ranks_of_printed_numbers_put_hgkt_first():
    block = rendered(RANKS, Context(data=[DIGITS, DataSpec("CUB", "CUB")]), {})[-1]
    assert block.data.iloc[0]["method"] == "HGKT"
    counts = block.data.groupby("method")["count"].sum()
    assert counts["DEM"] == 15
    assert counts["PSRZSL"] == 12  # the paper has no result of it on AWA1


def test_ranks_of_our_runs_link_all_cells(context, results):
    context = replace(context, data=[*context.data, DataSpec("CUB", "CUB")])
    block = rendered(RANKS, context, results)[0]
    assert set(block.keys) == set(results)
    assert block.data.groupby("method")["count"].sum().to_dict() == {
        "HGKT": 3, "ESZSL": 3, "Ridge": 3
    }  # fmt: skip


def test_curves_draw_the_area_of_the_legend(context, results):
    (block,) = rendered(CURVES, context, results)
    axes = block.figure.axes[0]
    shown = dict(text.get_text().split("  ") for text in axes.get_legend().get_texts())
    assert next(iter(shown)) == "HGKT"
    for label, method in (("HGKT", "hgkt"), ("ESZSL", "eszsl"), ("Ridge", "ridge")):
        drawn = block.data[block.data["method"] == method]
        area = np.trapezoid(drawn["seen"], drawn["unseen"]) / 100
        seeds = [r.values["metrics"]["ausuc"] for r in results.values() if r.cell.method == method]
        assert area == pytest.approx(seeds[0], abs=0.5)
        assert float(shown[label]) == pytest.approx(np.mean(seeds), abs=0.051)


def test_curves_take_the_best_three_others():
    methods = ("eszsl", "ridge", "dap", "sae", "hgkt", "hgkt-network")
    context = Context(data=[DIGITS], methods=methods, n_seeds=1)
    areas = {"eszsl": 10.0, "ridge": 40.0, "dap": 30.0, "sae": 20.0, "hgkt": 5.0,
             "hgkt-network": 1.0}  # fmt: skip
    arrays = {"seen": np.array([1.0, 0.0]), "unseen": np.array([0.0, 1.0])}
    found = {
        cell.key: CellResult(cell, {"metrics": {"ausuc": areas[cell.method]}}, arrays)
        for cell in cells_of(context)
    }
    drawn = [curve.row.name for curve in curves_of(outcome(CURVES, context, found), DIGITS)]
    assert drawn == ["hgkt", "hgkt-paper", "ridge", "dap", "sae"]


def test_curves_of_one_panel_never_look_alike():
    data = [DataSpec(f"set {number}", "x", fingerprint=str(number)) for number in range(6)]
    context = Context(data=data, n_seeds=1)
    arrays = {"seen": np.array([1.0, 0.0]), "unseen": np.array([0.0, 1.0])}
    names = attribute_methods()
    found = {}
    for cell in cells_of(context):
        # On every set three others are best, so that there are more methods than colours.
        place = (names.index(cell.method) - 3 * data.index(cell.data)) % len(names)
        values = {"metrics": {"ausuc": 50.0 - place}}
        found[cell.key] = CellResult(cell, values, arrays)
    (block,) = rendered(CURVES, context, found)
    looks: dict[str, set] = {}
    for axes in block.figure.axes[: len(data)]:
        lines = {text.get_text().split("  ")[0]: line for text, line in
                 zip(axes.get_legend().get_texts(), axes.get_lines(), strict=False)}  # fmt: skip
        assert len({line.get_color() for line in lines.values()}) == len(lines) == 5
        for name, line in lines.items():
            pattern = (line.get_color(), str(line._dash_pattern))
            looks.setdefault(name, set()).add(pattern)
    assert len(looks) > 8
    assert all(len(patterns) == 1 for patterns in looks.values())
    assert len(set.union(*looks.values())) == len(looks)


# ------------------------------------------------------------------ data sets
def test_data_table_counts_and_checks(data_root):
    context = Context(
        data=[DIGITS, DataSpec("CUB", str(data_root / "CUB"), "efflite2", "att")], missing=["SUN"]
    )
    found = {}
    for cell in cells_of(context, STATISTICS.plan):
        values, arrays = describe_data(cell, cell.data.load())
        found[cell.key] = CellResult(cell, values, arrays)
    (table,) = rendered(STATISTICS, context, found)
    cub, sun = _row(table, "CUB"), _row(table, "SUN")
    printed = [312, 150, 50, 7057, 1764, 2967]
    assert [v.mean for v in cub[1:7]] == printed
    assert [v.published for v in cub[1:7]] == printed
    assert cub[8].words.startswith("✓")
    assert "remark" in _row(table, "digits")[8].words + cub[8].words
    assert [v.published for v in sun[1:7]] == [102, 645, 72, 10320, 2580, 1440]
    assert sun[8] == "not found"
    assert _row(table, "digits")[1].published is None


def test_data_table_says_what_differs(dataset):
    spec = DataSpec("CUB", "digits")
    context = Context(data=[spec])
    (cell,) = cells_of(context, STATISTICS.plan)
    values, _ = describe_data(cell, dataset)
    table = rendered(STATISTICS, context, {cell.key: CellResult(cell, values)})[0]
    verdict = table.rows[0][8].words
    assert "n_seen_classes is 8, the paper has 150" in verdict
    assert "the split is not the published one" in verdict
