"""The tables of README and docs say what the records say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from hgkt.estimators import METHODS
from hgkt.experiments.rows import PUBLISHED

pytestmark = pytest.mark.endure  # it takes long

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def tables(script):
    return script("tables")


@pytest.fixture
def docs(tmp_path):
    """A copy of the pages; the records are the real ones."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for page in DOCS.glob("*.md"):
        shutil.copy(page, folder)
    shutil.copy(ROOT / "README.md", tmp_path)
    for name in ("results", "gallery", "images"):
        (folder / name).symlink_to(DOCS / name)
    return folder


def put_cell(folder, method, seed, h, versions=None, metric="ausuc", per_class=None, **more):
    metrics = {"ts": h - 1, "tr": h + 1, "H": h, "zsl": h, "ausuc": h / 2}
    cell = {"task": "evaluate", "data": {"name": "CUB", "attributes": "att"}, "method": method,
            "preset": "", "params": {}, "seed": seed, "options": {"select": True}}  # fmt: skip
    law = {"offset": 0.5, "slope": 0.1}
    values = {"metrics": metrics, "uncalibrated": {**metrics, "H": h - 10}, "calibration": 0.6,
              "calibrated": metrics, "by_zsl": {"zsl": h + 2, "per_class": [h + 1, h + 3]},
              "validation": {"metric": metric, "calibration": law}, "seed": seed,
              "selected": {"calibration": law}, "per_class": per_class}  # fmt: skip
    installed = getattr(METHODS.load(method), "mathematics_version", 1)
    document = {"cell": {**cell, **more}, "values": values, "error": "",
                "versions": versions or {"mathematics": str(installed)}}  # fmt: skip
    (folder / "cells").mkdir(exist_ok=True)
    path = folder / "cells" / f"{method}-{seed}-{len(list(folder.rglob('*.json')))}.json"
    path.write_text(json.dumps(document))


def test_pages_are_up_to_date_with_the_records(tables):
    assert tables.problems(DOCS) == []


def test_a_changed_number_is_found_and_made_good(tables, docs):
    page = docs / "methods.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("<!-- end costs -->", "| stale |\n<!-- end costs -->"))
    with pytest.raises(SystemExit, match=r"methods\.md differs from the records"):
        tables.main(["--docs", str(docs), "--check"])
    tables.main(["--docs", str(docs)])
    assert page.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("method", "record"),
    [
        ("hgkt", "growing.json"),
        ("hgkt", "bench/add-class.json, hgkt"),
        ("hgkt-network", "bench/network.json, hgkt-network"),
        ("ridge", "costs.json, ridge"),
    ],
)
def test_a_record_of_other_mathematics_is_named(tables, monkeypatch, method, record):
    monkeypatch.setattr(METHODS.load(method), "mathematics_version", 99, raising=False)
    found = tables.problems(DOCS)
    assert any(
        problem.startswith(record) and problem.endswith(f"{method}, which is at 99")
        for problem in found
    )
    # Rows of cells are left out, so that pages differ; other records are named.
    named = [problem for problem in found if "differs from the records" not in problem]
    assert all(method in problem for problem in named)


def test_a_record_that_names_its_mathematics_is_shown(tables, monkeypatch, tmp_path):
    monkeypatch.setattr(METHODS.load("ale"), "mathematics_version", 2, raising=False)
    put_cell(tmp_path, "ale", 0, 40.0, versions={"mathematics": "2"})
    records = tables.Records(tmp_path)
    assert "| `ale` | 1 | 42.0 |" in tables.methods.results(records, "CUB")
    assert records.stale == set()


@pytest.mark.parametrize(
    "old", [{"versions": {"mathematics": "99"}}, {"metric": "H"}, {"options": {"select": False}}]
)
def test_a_row_without_a_record_of_today_is_left_out_and_counted(tables, tmp_path, old):
    put_cell(tmp_path, "ale", 0, 40.0, **old)
    put_cell(tmp_path, "sae", 0, 30.0)
    text = tables.methods.results(tables.Records(tmp_path), "CUB")
    assert "| `ale`" not in text
    assert "| `sae`" in text
    n_rows = len(tables.methods.rows("CUB"))
    assert f"Rows without a record: {n_rows - 1} of {n_rows} (" in text
    (left_out,) = [line for line in text.splitlines() if line.startswith("Rows without")]
    assert "`ale`" in left_out


def test_paired_differences_are_hgkt_minus_the_others(tables, tmp_path):
    for method, gain in (("hgkt", 4.0), ("ale", 0.0)):
        unseen, seen = [40.0 + gain, 50.0 + gain], [60.0 + gain, 70.0 + gain, 80.0 + gain]
        per_class = {"ts": unseen, "tr": seen, "zsl": unseen, "ts_uncalibrated": unseen,
                     "tr_uncalibrated": seen}  # fmt: skip
        put_cell(tmp_path, method, 0, 40.0 + gain, per_class=per_class)
    put_cell(tmp_path, "sae", 0, 30.0)  # an old record, without accuracies of classes
    lines = tables.methods.paired(tables.Records(tmp_path)).splitlines()
    gap = 2 * 49 * 74 / (49 + 74) - 2 * 45 * 70 / (45 + 70)
    assert lines[2].startswith(f"| `ale` | **{gap:+.1f} (")
    assert "| **+4.0 (+4.0 to +4.0)** |" in lines[2]
    assert "`sae`" in lines[-1]


def test_a_table_of_figures_without_markers_is_found(tables, docs):
    with (docs / "data.md").open("a") as file:
        file.write("\n| method | H |\n|---|---|\n| one | 41.5 ± 0.4 |\n| two | 39.9 |\n")
    assert tables.problems(docs) == ["data.md: this table has no record: | method | H |"]


@pytest.mark.parametrize(
    "row", ["| 35.9 | **1.2** |", "| 3 ms | 4,100 ms |", "| 78.5 (76.4) | 96.0 (74.0) |"]
)
def test_what_counts_as_a_figure(tables, row):
    page = f"| | a | b |\n|---|---|---|\n| x {row}\n"
    assert list(tables.unmarked_tables(page)) == ["| | a | b |"]
    assert list(tables.unmarked_tables(f"```\n{page}```\n")) == []


def test_codes_and_words_are_no_figures(tables):
    page = (
        "| what | status | by default |\n|---|---|---|\n| full | 507 | 3 seeds |\n| a | 503 | |\n"
    )
    assert list(tables.unmarked_tables(page)) == []


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("<!-- begin nonsense -->\n<!-- end nonsense -->", "no table is called 'nonsense'"),
        ("<!-- begin costs -->\n", "begin costs --> has no partner"),
    ],
)
def test_a_wrong_marker_is_named(tables, page, problem):
    with pytest.raises(tables.PageError, match=problem):
        tables.fill(page, tables.Records(DOCS / "results"))


def test_a_missing_record_is_named(tables, tmp_path):
    with pytest.raises(tables.RecordError, match=r"no record growing\.json"):
        tables.fill("<!-- begin growing -->\n<!-- end growing -->", tables.Records(tmp_path))


def test_results_have_mean_deviation_and_order(tables, tmp_path):
    for seed, h in enumerate((30.0, 32.0, 31.0)):
        put_cell(tmp_path, "ale", seed, h)
    put_cell(tmp_path, "ale", 0, 99.0, params={"n_epochs": 3})  # not what is asked for
    put_cell(tmp_path, "ale", 0, 99.0, data={"name": "CUB", "attributes": "sent"})
    put_cell(tmp_path, "sae", 0, 40.0)
    lines = tables.methods.results(tables.Records(tmp_path), "CUB").splitlines()
    assert lines[2].startswith("| `sae` | 1 | 42.0 | 30.0 | 40.0 | 39.0 | 41.0 | 20.0 | 33.3")
    spread = np.std([30.0, 31.0, 32.0], ddof=1)
    assert lines[3].split(" | ")[1:5:3] == ["3", f"31.0 ± {spread:.1f}"]
    (missing,) = (line for line in lines if line.startswith("Rows without a record"))
    assert "`sae`, `" not in missing  # only as released
    assert "`dem`" in missing


def test_the_papers_numbers_stand_beside_its_network(tables):
    rows = tables.methods.rows("CUB")
    printed = tables.methods.printed(rows["`hgkt-network`, exact preset"], "CUB")
    assert printed == ["54.2", "25.2", "56.9", "34.9"]
    assert tables.methods.printed(rows["`hgkt`"], "CUB") == ["–"] * 4


def test_ranks_are_among_competing_methods_only(tables, tmp_path):
    for name, h in [("hgkt", 60.0), ("ale", 30.0), ("sae", 40.0), ("dap", 1.0)]:
        put_cell(tmp_path, name, 0, h)
    lines = tables.methods.ranks(tables.Records(tmp_path), "CUB").splitlines()
    expected = scipy.stats.spearmanr([1, 2, 3], [2, 1, 3]).statistic
    assert f"by H: {expected:.2f}; without `ale` 1.00." in lines[-3]
    assert lines[2:5] == [
        "| `sae` | 1 | 2 | +1 | 1 |",
        "| `ale` | 2 | 1 | -1 | 2 |",
        "| `dap` | 3 | 3 | +0 | 3 |",
    ]


def test_a_star_marks_what_ends_its_grid(tables):
    tried = {"C": [0.25, 1.0, 4.0], "decay": [0.0, 0.1], "n_epochs": [5, 10, 20], "k": [1, 2, 5]}
    ends = tables.methods.at_ends
    assert ends(tried, {"C": 4.0, "decay": 0.0, "n_epochs": 5, "k": 2, "map": "l2"}) == [
        "C",
        "n_epochs",
    ]
    assert ends(tried, {"C": 1.0, "k": 1, "other": 3}) == []  # one is the least there can be
    assert "learning_rate" in tables.methods.numbers_tried("ale")
    assert "averaged" not in tables.methods.numbers_tried("ale")  # no number


def test_a_grid_goes_on_by_its_last_step(script):
    beyond = script("grid_ends").beyond
    assert beyond([0.25, 1.0, 2.0, 4.0], 4.0) == [8.0, 16.0]
    assert beyond([1e-3, 1e-2, 1.0], 1e-3) == pytest.approx([1e-4, 1e-5])
    assert beyond([5, 10, 20, 50], 50) == [125, 312]


def test_past_the_end_of_a_grid_begins_where_the_record_ends(tables):
    # Made by another program than the cells: the same setting must have the same area.
    records = tables.Records(DOCS / "results")
    rows = records.script("grid_ends", method="")["rows"]
    assert rows
    for row in rows:
        (run, *_) = records.runs(tables.methods.main(row["data"], row["method"]))
        chosen = row["tried"][0]
        assert run["selected"][row["parameter"]] == chosen["value"]
        # Networks were trained on a GPU.
        assert chosen["ausuc"] == pytest.approx(run["validation"]["score"], abs=0.5)
        assert chosen["ausuc"] == pytest.approx(np.mean(chosen["folds"]))


def test_methods_page_names_every_method():
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert [name for name in METHODS if f"`{name}`" not in page] == []


def test_published_harmonic_means_follow_from_their_parts():
    n_cells = 0
    for method, cells in PUBLISHED.items():
        assert method in METHODS
        for zsl, ts, tr, h in cells.values():
            assert h == pytest.approx(2 * ts * tr / (ts + tr), abs=0.15)
            assert zsl is None or ts <= zsl + 1e-9
            n_cells += 1
    assert n_cells == 17 * 5 - 1  # PSRZSL is not printed on AWA1


def test_a_plot_of_other_numbers_is_found_and_drawn_anew(tables, docs):
    pytest.importorskip("matplotlib")
    (docs / "images").unlink()
    shutil.copytree(DOCS / "images", docs / "images")
    plot = docs / "images" / "performance-adding.svg"
    drawn = plot.read_text("utf-8")
    plot.write_text(drawn.replace("<!-- drawn from ", "<!-- drawn from 0"), "utf-8")
    problem = "images/performance-adding.svg differs from the records; run make tables"
    assert tables.problems(docs) == [problem]
    tables.main(["--docs", str(docs)])
    assert plot.read_text("utf-8").splitlines()[-1] == drawn.splitlines()[-1]
