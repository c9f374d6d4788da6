"""Tables and figures of results against values computed directly."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import METHODS, HGKTClassifier
from hgkt.evaluation import evaluate
from hgkt.experiments.base import Cell, CellResult, Context, DataSpec, TextBlock, Value
from hgkt.experiments.tables import curves, gzsl, ranks, statistics, zsl
from hgkt.experiments.tables._results import (
    data_note,
    evaluate_cells,
    mark_best,
    plan_evaluations,
    rows_of,
    seeds_of,
    value,
)
from hgkt.experiments.tables.published import PUBLISHED
from hgkt.experiments.task_evaluate import evaluate_cell

DIGITS = DataSpec("digits", "digits")


@pytest.fixture(scope="module")
def dataset():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def context():
    return Context(data=[DIGITS], missing=["SUN"], methods=("hgkt", "eszsl", "ridge"), n_seeds=2)


@pytest.fixture(scope="module")
def results(context, dataset):
    """Everything but the paper's network, which is left out as a row that was not run."""
    found = {}
    for cell in plan_evaluations(context):
        if cell.preset != "paper":
            values, arrays = evaluate_cell(cell, dataset)
            found[cell.key] = CellResult(cell, values, arrays, seconds=1.0)
    return found


def _row(block, label):
    return next(row for row in block.rows if row[0] == label)


# ------------------------------------------------------------------ rows and cells
def test_rows_of_names_every_registered_method_and_hgkt_twice():
    rows = rows_of(Context(data=()))
    assert [row.method for row in rows].count("hgkt") == 2
    assert {row.method for row in rows} == set(METHODS)
    assert len({row.name for row in rows}) == len({row.label for row in rows}) == len(METHODS) + 1
    assert [row.preset for row in rows if row.method == "hgkt"] == ["default", "paper"]


def test_seeds_of_deterministic_method_is_one():
    context = Context(data=(), n_seeds=5)
    for method in METHODS:
        random = "random_state" in METHODS.load(method)().get_params()
        assert len(seeds_of(context, method)) == (5 if random else 1)


def test_tables_plan_the_same_cells(context):
    plans = [
        {cell.key for cell in module.EXPERIMENT.plan(context)}
        for module in (zsl, gzsl, ranks, curves)
    ]
    assert all(plan == plans[0] for plan in plans)
    assert {dict(c.options)["select"] for c in zsl.EXPERIMENT.plan(context)} == {True}


def test_evaluate_cells_quick_differs_and_runs(dataset):
    quick = Context(data=[DIGITS], methods=("hgkt", "eszsl", "cn-zsl"), n_seeds=1, quick=True)
    slow = Context(data=[DIGITS], methods=quick.methods, n_seeds=1)
    keys = {cell.key for cell in plan_evaluations(slow)}
    for cell in plan_evaluations(quick):
        assert cell.key not in keys
        values, arrays = evaluate_cell(cell, dataset)
        assert values["validation"]["n_settings"] == 1
        assert len(arrays["seen"]) > 1


# ------------------------------------------------------------------ values
def _fake(seed, **values):
    cell = Cell("evaluate", DIGITS, "dem", seed=seed)
    return cell, CellResult(cell, {"metrics": values})


def test_value_is_mean_and_sample_deviation():
    pairs = [_fake(seed, H=number) for seed, number in enumerate([10.0, 12.0, 17.0])]
    found = {cell.key: result for cell, result in pairs}
    got = value(found, [cell for cell, _ in pairs], "H", published=11.0)
    assert got.number == pytest.approx(np.mean([10, 12, 17]))
    assert got.std == pytest.approx(np.sqrt((3**2 + 1**2 + 4**2) / 2))
    assert got.text == "13.0 ± 3.6"
    assert got.keys == tuple(cell.key for cell, _ in pairs)
    assert got.published == 11.0


def test_value_one_seed_has_no_deviation():
    cell, result = _fake(0, H=10.04)
    got = value({cell.key: result}, [cell], "H")
    assert (got.text, got.std) == ("10.0", None)


def test_value_tells_failed_absent_and_partly_failed_apart():
    cells = [_fake(seed, H=20.0)[0] for seed in range(3)]
    failed = {cell.key: CellResult(cell, error="out of memory") for cell in cells}
    assert value({}, cells, "H") == Value("–")
    all_failed = value(failed, cells, "H")
    assert (all_failed.text, all_failed.number) == ("failed", None)
    assert all_failed.failed == "out of memory"
    mixed = {**failed, cells[0].key: CellResult(cells[0], {"metrics": {"H": 20.0}})}
    some = value(mixed, cells, "H")
    assert (some.text, some.number) == ("20.0", 20.0)
    assert some.failed == "2 of 3 seeds failed: out of memory"


def test_value_missing_metric_is_no_number():
    cell, result = _fake(0, H=None)
    assert value({cell.key: result}, [cell], "H").number is None
    assert value({cell.key: result}, [cell], "calibrated.H").text == "–"


def test_mark_best_takes_what_reads_the_same():
    column = [Value("a", 30.04), Value("b", 29.96), Value("c", 29.9), Value("–"), "words"]
    best = [getattr(v, "best", None) for v in mark_best(column)]
    assert best == [True, True, False, False, None]


def test_mark_best_of_a_single_number_is_none():
    assert not mark_best([Value("a", 1.0), Value("–")])[0].best


# ------------------------------------------------------------------ tables of results
def test_gzsl_table_equals_direct_evaluation(context, results, dataset):
    table = gzsl.EXPERIMENT.render(context, results)[0]
    for label, method in (("ESZSL", "eszsl"), ("Ridge", "ridge")):
        record = evaluate(METHODS.load(method)(), dataset, select=True)
        expected = [record.metrics.ts, record.metrics.tr, record.metrics.H, record.metrics.ausuc]
        assert [v.number for v in _row(table, label)[1:]] == pytest.approx(expected)
    records = [
        evaluate(HGKTClassifier(random_state=seed), dataset, select=True, random_state=seed)
        for seed in range(2)
    ]
    H = [record.metrics.H for record in records]
    got = _row(table, "HGKT γ")[3]
    assert got.number == pytest.approx(np.mean(H))
    assert got.std == pytest.approx(np.std(H, ddof=1), abs=1e-12)
    assert list(table.columns) == [
        "Method", *(f"digits · {name}" for name in ("ts", "tr", "H", "AUSUC"))
    ]  # fmt: skip


def test_gzsl_table_shows_what_was_not_run(context, results):
    table = gzsl.EXPERIMENT.render(context, results)[0]
    assert [v.text for v in _row(table, "HGKT, paper")[1:]] == ["–"] * 4
    assert "Not found, so not run: SUN." in table.note


def test_gzsl_best_is_the_maximum_of_its_column(context, results):
    table = gzsl.EXPERIMENT.render(context, results)[0]
    for column in range(1, 5):
        values = [row[column] for row in table.rows if row[column].number is not None]
        top = max(round(v.number, 1) for v in values)
        assert [v.best for v in values] == [round(v.number, 1) == top for v in values]


def test_calibration_table_holds_both_ends(context, results, dataset):
    table = gzsl.EXPERIMENT.render(context, results)[1]
    record = evaluate(METHODS.load("eszsl")(), dataset, select=True)
    got = _row(table, "ESZSL")
    assert got[1].number == pytest.approx(record.uncalibrated.H)
    assert got[2].number == pytest.approx(record.calibrated.H)


def test_chosen_table_shows_parameters_and_links_runs(context, results):
    table = gzsl.EXPERIMENT.render(context, results)[2]
    assert table.name.endswith("-details")
    line = next(row for row in table.rows if row[0] == "ESZSL")
    cell = evaluate_cells(context, rows_of(context)[2], DIGITS)[0]
    for name in results[cell.key].values["selected"]:
        assert f"{name} = " in line[-1].text
    assert line[-1].keys == (cell.key,)


def test_zsl_table_equals_direct_evaluation(context, results, dataset):
    (table,) = zsl.EXPERIMENT.render(context, results)
    record = evaluate(METHODS.load("ridge")(), dataset, select=True)
    assert _row(table, "Ridge")[1].number == pytest.approx(record.metrics.zsl)


@pytest.mark.parametrize(("module", "index"), [(zsl, 0), (gzsl, 3)])
def test_published_numbers_stand_beside_ours(module, index):
    context = Context(data=[DataSpec("CUB", "CUB")], methods=tuple(PUBLISHED))
    table = module.EXPERIMENT.render(context, {})[0]
    shown = {row[0]: row[-2 if module is gzsl else -1].published for row in table.rows}
    assert shown["DEM"] == PUBLISHED["dem"]["CUB"][index]
    assert shown["HGKT"] == shown["HGKT, paper"] == PUBLISHED["hgkt"]["CUB"][index]


@pytest.mark.parametrize("module", [zsl, gzsl, ranks, curves, statistics])
def test_render_copes_with_nothing_and_with_failures(module, context):
    for empty in (Context(data=(), missing=["CUB"]), context):
        assert module.EXPERIMENT.render(empty, {})
    planned = module.EXPERIMENT.plan(context)
    failed = {cell.key: CellResult(cell, error="no <b>memory</b>") for cell in planned}
    blocks = module.EXPERIMENT.render(context, failed)
    texts = [
        v.text for b in blocks for r in getattr(b, "rows", []) for v in r if isinstance(v, Value)
    ]
    assert "failed" in texts or any(isinstance(block, TextBlock) for block in blocks)


def test_data_note_names_other_features():
    note = data_note(Context(data=[DataSpec("CUB", "", "res101")], missing=["APY"]))
    assert note == "Not found, so not run: APY."
    assert "efflite2 on CUB" in data_note(Context(data=[DataSpec("CUB", "", "efflite2")]))


# ------------------------------------------------------------------ ranks and curves
def test_rank_matrix_equals_counting():
    rng = np.random.default_rng(0)
    columns = [(data, name) for data in ("A", "B", "C") for name in ("ts", "tr", "H")]
    scores = {f"m{i}": {c: float(rng.integers(0, 6)) for c in columns} for i in range(5)}
    del scores["m3"]["A", "ts"]
    labels, counts, means = ranks.rank_matrix(scores)
    for label, line, mean in zip(labels, counts, means, strict=True):
        own = [
            1 + sum(other.get(c, -1.0) > scores[label][c] for other in scores.values())
            for c in scores[label]
        ]
        assert line.tolist() == [own.count(rank) for rank in range(1, 6)]
        assert mean == pytest.approx(np.mean(own))
    assert means == sorted(means)


def test_ranks_of_printed_numbers_put_hgkt_first():
    block = ranks.EXPERIMENT.render(Context(data=()), {})[-1]
    assert block.data.iloc[0]["method"] == "HGKT"
    counts = block.data.groupby("method")["count"].sum()
    assert counts["DEM"] == 15
    assert counts["PSRZSL"] == 12  # the paper has no result of it on AWA1


def test_ranks_of_our_runs_link_all_cells(context, results):
    block = ranks.EXPERIMENT.render(context, results)[0]
    assert set(block.keys) == set(results)
    assert block.data.groupby("method")["count"].sum().to_dict() == {
        "HGKT": 3, "ESZSL": 3, "Ridge": 3
    }  # fmt: skip


def test_curves_draw_the_area_of_the_legend(context, results):
    (block,) = curves.EXPERIMENT.render(context, results)
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
    methods = ("eszsl", "ridge", "dap", "sae", "hgkt")
    context = Context(data=[DIGITS], methods=methods, n_seeds=1)
    areas = {"eszsl": 10.0, "ridge": 40.0, "dap": 30.0, "sae": 20.0, "hgkt": 5.0}
    arrays = {"seen": np.array([1.0, 0.0]), "unseen": np.array([0.0, 1.0])}
    found = {
        cell.key: CellResult(cell, {"metrics": {"ausuc": areas[cell.method]}}, arrays)
        for cell in plan_evaluations(context)
    }
    drawn = [curve.row.name for curve in curves.curves_of(context, found, DIGITS)]
    assert drawn == ["hgkt", "hgkt-paper", "ridge", "dap", "sae"]


def test_curves_of_one_panel_never_look_alike():
    data = [DataSpec(f"set {number}", "x", fingerprint=str(number)) for number in range(6)]
    context = Context(data=data, n_seeds=1)
    arrays = {"seen": np.array([1.0, 0.0]), "unseen": np.array([0.0, 1.0])}
    names = list(METHODS)
    found = {}
    for cell in plan_evaluations(context):
        # On every set three others are best, so that there are more methods than colours.
        place = (names.index(cell.method) - 3 * data.index(cell.data)) % len(names)
        values = {"metrics": {"ausuc": 50.0 - place}}
        found[cell.key] = CellResult(cell, values, arrays)
    (block,) = curves.EXPERIMENT.render(context, found)
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
    for cell in statistics.EXPERIMENT.plan(context):
        values, arrays = statistics.describe_data(cell, cell.data.load())
        found[cell.key] = CellResult(cell, values, arrays)
    table, details = statistics.EXPERIMENT.render(context, found)
    cub, sun = _row(table, "CUB"), _row(table, "SUN")
    printed = [312, 150, 50, 7057, 1764, 2967]
    assert [v.number for v in cub[1:7]] == printed
    assert [v.published for v in cub[1:7]] == printed
    assert cub[8].text.startswith("✓")
    assert [v.published for v in sun[1:7]] == [102, 645, 72, 10320, 2580, 1440]
    assert sun[8] == "not found"
    assert _row(table, "digits")[1].published is None
    assert any(row[1] == "remark" for row in details.rows)


def test_data_table_says_what_differs(dataset):
    spec = DataSpec("CUB", "digits")
    cell = statistics.EXPERIMENT.plan(Context(data=[spec]))[0]
    values, _ = statistics.describe_data(cell, dataset)
    table = statistics.EXPERIMENT.render(
        Context(data=[spec]), {cell.key: CellResult(cell, values)}
    )[0]
    verdict = table.rows[0][8].text
    assert "n_seen_classes is 8, the paper has 150" in verdict
    assert "the split is not the published one" in verdict
