"""Ablations: planned cells run for real on digits, against direct computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTNetworkClassifier
from hgkt.evaluation import ClassFoldSearch, evaluate
from hgkt.experiments.ablations import (
    CHOICES,
    INTER,
    MU,
    Sweep,
    Variant,
    VariantTable,
    plan_variants,
)
from hgkt.experiments.blocks import (
    Block,
    Experiment,
    FigureBlock,
    Outcome,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.discovery import fingerprint_of
from hgkt.experiments.plan import EXPERIMENTS, Cell, CellResult, Context, DataSpec, load_task
from hgkt.experiments.report.pages import value_text
from hgkt.experiments.rows import PAPER, RELATIONS
from hgkt.experiments.training import (
    final_fold,
    graph_of,
    instances_of,
    neighbor_table,
    shared_edges,
    train_network,
    validation_fold,
)
from hgkt.transport import entropic_barycenter, ground_cost, line_barycenter, to_simplex

CALIBRATION = EXPERIMENTS.load("ablation-calibration")

DIGITS = DataSpec("digits", "digits", fingerprint="digits")
QUICK = Context(data=(DIGITS,), methods=("hgkt", "hgkt-network", "eszsl"), n_seeds=2, quick=True)
ABLATIONS = [name for name in EXPERIMENTS if name.startswith("ablation")]
NETWORK = "hgkt-network"


def cells_of(experiment: Experiment, context: Context) -> list[Cell]:
    return [cell for cells in experiment.plan(context).values() for cell in cells]


def rendered(
    experiment: Experiment, context: Context, results: Mapping[str, CellResult]
) -> Sequence[Block]:
    return experiment.render(Outcome(context, experiment.plan(context), results))


@pytest.fixture(scope="module")
def digits() -> Any:
    return load_dataset("digits")


def paper(**parameters: Any) -> HGKTNetworkClassifier:
    given = {"n_hidden": 32, "random_state": 0, "device": "cpu", "learning_rate": 1e-2}
    return HGKTNetworkClassifier(**(given | parameters))


def invented(cell: Cell, H: float = 40.0) -> CellResult:
    """A record as the task "evaluate" gives it, with invented numbers."""
    names = ("ts", "tr", "H", "zsl", "ausuc", "H_star")
    metrics = dict.fromkeys(names, H)
    values = {
        "metrics": metrics,
        "uncalibrated": metrics | {"H": H - 10},
        "calibrated": metrics,
        "validation": {"score": H / 2, "metric": "H"},
    }
    return CellResult(cell, values)


# ---------------------------------------------------------------- the network behind the ablations
def test_train_network_equals_fit_and_evaluate(digits: Any) -> None:
    run = train_network(paper(), final_fold(digits), steps=(10, 40))
    for step in (10, 40):
        direct = evaluate(paper(n_steps=step), digits, calibrate=False)
        assert run.metrics[step] == direct.metrics


def test_validation_fold_scores_as_the_search_does(digits: Any) -> None:
    X, y = digits.rows("train")
    for seed in (0, 3):
        steps = [{"n_steps": [40]}]
        search = ClassFoldSearch(paper(), stages=steps, n_folds=1, random_state=seed)
        search.fit(X, y, digits.attributes_of(digits.seen_classes))
        run = train_network(paper(), validation_fold(digits, seed), steps=(40,))
        # Forty steps of L-BFGS end where rounding takes them: a few rows in ten thousand.
        assert pytest.approx(search.best_score_, abs=0.01) == run.metrics[40].ausuc


# ---------------------------------------------------------------- tasks
def test_graph_of_is_the_graph_of_a_fit(digits: Any) -> None:
    X, y = digits.rows("train")
    for parameters in ({}, {"graph_space": "attributes", "n_neighbors": 3}):
        model = paper(n_steps=1, **parameters)
        graph = graph_of(model, final_fold(digits))
        fitted = model.fit(X, y, digits.attributes_of(digits.seen_classes))
        np.testing.assert_array_equal(graph.representatives, fitted.representatives_)
        np.testing.assert_array_equal(
            neighbor_table(graph).ravel(), fitted.graph_.neighbors.indices
        )


def test_barycenters_task_agrees_with_linear_programs(digits: Any) -> None:
    options = {"n_classes": 2, "n_instances": 6, "max_iter": 60, "reg": 0.01}
    cell = Cell("barycenters", DIGITS, NETWORK, "", {"n_steps": 2}, options=options)
    values, arrays = load_task("barycenters")(cell, digits)
    instances = instances_of(final_fold(digits))
    code = np.sort(np.random.default_rng(0).permutation(instances.codes.max() + 1)[:2])[0]
    members = np.flatnonzero(instances.codes == code)
    members = np.sort(np.random.default_rng([0, int(code)]).permutation(members)[:6])
    rows = to_simplex(instances.X[members].astype(np.float64))
    with pytest.warns(UserWarning, match="converge"):
        entropic = entropic_barycenter(rows, "squared", 0.01, max_iter=60)
    for position, center in enumerate((line_barycenter(rows), entropic)):
        np.testing.assert_allclose(arrays["barycenters"][position], center, atol=1e-12)
        cost = ground_cost(len(center))
        expected = np.mean([ot.emd2(row, center, cost) for row in rows])
        assert arrays["objectives"][0, position] == pytest.approx(expected, rel=1e-6)
    assert (arrays["objectives"][:, 0] <= arrays["objectives"][:, 1]).all()
    assert values["exact"]["objective"] == pytest.approx(arrays["objectives"][:, 0].mean())


def test_shared_edges_ignores_order() -> None:
    table = np.array([[1, 2], [2, 0], [0, 1]])
    assert shared_edges(table, table[:, ::-1]) == 100.0
    assert shared_edges(table, np.array([[1, 3], [2, 0], [0, 3]])) == pytest.approx(100 * 4 / 6)


# ---------------------------------------------------------------- plans
def test_plans_share_the_cells_of_the_main_table() -> None:
    for quick in (True, False):
        context = replace(QUICK, quick=quick)
        main = {cell.key for cell in cells_of(EXPERIMENTS.load("table-gzsl"), context)}
        shared = {
            "ablation-intra": 4, "ablation-inter": 4, "ablation-selection": 2,
            "ablation-calibration": len(main),
        }  # fmt: skip
        for name, n_shared in shared.items():
            cells = {cell.key for cell in cells_of(EXPERIMENTS.load(name), context)}
            assert len(cells & main) == n_shared, name


def test_choices_take_original_attributes_of_a_benchmark_folder_only(data_root: Path) -> None:
    cub = DataSpec("CUB", str(data_root / "CUB"), "efflite2", "att", "the usual attributes")
    gone = DataSpec("SUN", str(data_root / "no such folder"), "res101", "att")
    context = replace(QUICK, data=(DIGITS, cub, gone), quick=False)
    cells = cells_of(CHOICES, context)
    kinds = {(cell.data.name, cell.data.attributes) for cell in cells}
    assert kinds == {("digits", ""), ("CUB", "att"), ("CUB", "original_att"), ("SUN", "att")}
    original = next(cell.data for cell in cells if cell.data.attributes == "original_att")
    # A worker refuses data that is not what the cell was planned for.
    assert original.fingerprint == fingerprint_of(original.load()) != cub.fingerprint


SWEEP = Sweep("T", "μ", "mu", (0.01, 0.1, 0.5, 1.0), PAPER, (1.0,))


def test_sweeps_change_one_parameter_and_hold_the_others() -> None:
    full = replace(QUICK, quick=False)
    cells = [cells[0] for cells in plan_variants(full, SWEEP.variants.values()).values()]
    assert [cell.params for cell in cells] == [{"mu": value} for value in (0.01, 0.1, 0.5, 1.0)]
    assert all(cell.options["select"] is False for cell in cells)
    planned = {cell.key for cell in cells_of(MU, full)}
    assert {cell.key for cell in cells} <= planned
    quick = [cells[0] for cells in plan_variants(QUICK, SWEEP.variants.values()).values()]
    assert [cell.params["mu"] for cell in quick] == [1.0]


# ---------------------------------------------------------------- renders
@pytest.mark.parametrize("name", ABLATIONS)
def test_render_copes_without_results_and_with_failures(name: str) -> None:
    experiment = EXPERIMENTS.load(name)
    failed = {c.key: CellResult(c, error="it broke.") for c in cells_of(experiment, QUICK)}
    results: list[Mapping[str, CellResult]] = [{}, failed]
    for found in results:
        blocks = rendered(experiment, QUICK, found)
        assert blocks
        assert not any(isinstance(block, FigureBlock) for block in blocks)
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    reasons = [
        item.failed
        for block in blocks
        if isinstance(block, TableBlock)
        for row in block.rows
        for item in row
        if isinstance(item, Value)
    ]
    assert any("it broke." in text for text in [*texts, *reasons])


def test_variants_table_shows_the_paper_and_marks_the_best_of_each_model() -> None:
    cub = DataSpec("CUB", "somewhere")
    context = Context(data=(cub,), n_seeds=2)
    cells = cells_of(INTER, context)
    without = [cell for cell in cells if cell.params]
    results = {c.key: invented(c, 30.0 + c.seed if c in without else 50.0) for c in cells}
    table = rendered(INTER, context, results)[0]
    assert isinstance(table, TableBlock)
    column = list(table.columns).index("H")
    none, knn = table.rows[0][column], table.rows[1][column]
    assert isinstance(none, Value)
    assert isinstance(knn, Value)
    assert (value_text(none), none.published, none.best) == ("30.5 ± 0.7", None, False)
    assert knn.best
    plain = list(table.columns).index("H, γ = 0")  # as the paper has it
    assert [row[plain].published for row in table.rows[:2]] == [32.7, 34.9]
    assert table.rows[3][column].best
    assert table.rows[3][column].published is None


def test_published_relations_are_consistent() -> None:
    for part in RELATIONS.values():
        for ts, tr, harmonic in part.values():
            assert 2 * ts * tr / (ts + tr) == pytest.approx(harmonic, abs=0.16)


def test_sweep_frame_marks_what_validation_chose() -> None:
    context = replace(QUICK, quick=False)
    plan = plan_variants(context, SWEEP.variants.values())
    results: dict[str, CellResult] = {}
    for H, cells in zip((10.0, 30.0, 20.0), plan.values(), strict=False):
        results |= {cell.key: invented(cell, H) for cell in cells}
    frame = SWEEP.frame(Outcome(context, plan, results), DIGITS)
    assert frame["value"].tolist() == ["0.01", "0.1", "0.5"]  # the last one did not run
    assert frame["chosen"].tolist() == [False, True, False]
    assert frame["validation"].tolist() == [5.0, 15.0, 10.0]


def test_calibration_reads_three_numbers_of_one_cell() -> None:
    results = {cell.key: invented(cell) for cell in cells_of(CALIBRATION, QUICK)}
    table, figure = rendered(CALIBRATION, QUICK, results)
    assert isinstance(table, TableBlock)
    assert isinstance(figure, FigureBlock)
    row = [item.mean for item in table.rows[0] if isinstance(item, Value)]
    assert row == [40.0, 40.0, 30.0, 40.0, 40.0, 40.0, 40.0]
    assert set(figure.data["γ = 0"]) == {30.0}
    groups = [(column.group, column.name) for column in table.heads[1:]]
    assert groups[2] == ("γ = 0", "H")
    assert groups[5] == ("γ chosen", "H")


def test_barycenters_run_and_render_on_digits(digits: Any) -> None:
    experiment, results = EXPERIMENTS.load("ablation-barycenter"), {}
    for cell in cells_of(experiment, QUICK):
        small = replace(cell, params={**cell.params, "n_hidden": 16})
        values, arrays = load_task(cell.task)(small, digits)
        results[cell.key] = CellResult(cell, values, arrays)
    blocks = rendered(experiment, QUICK, results)
    table = next(block for block in blocks if isinstance(block, TableBlock))
    assert all(len(row) == len(table.columns) for row in table.rows)
    for figure in (block for block in blocks if isinstance(block, FigureBlock)):
        figure.figure.canvas.draw()  # type: ignore[attr-defined]
        assert np.asarray(figure.figure.canvas.buffer_rgba()).std() > 5  # type: ignore[attr-defined]


def test_variant_cells_are_evaluations_of_its_model() -> None:
    context = replace(QUICK, quick=False)
    cells = Variant(("none",), PAPER, {"n_neighbors": 0}).cells(context, DIGITS)
    told = [(c.task, c.method, c.seed) for c in cells]
    assert told == [("evaluate", NETWORK, seed) for seed in (0, 1)]
    assert cells[0].params == {"n_neighbors": 0}
    assert not Variant(("slow",), PAPER, quick=False).cells(QUICK, DIGITS)
    (table,) = VariantTable("n", "t", ("h",), []).render(Outcome(QUICK, {}, {}))
    assert isinstance(table, TableBlock)
    assert table.rows == []
