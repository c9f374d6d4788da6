"""The page of methods says what the records say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.stats

from hgkt.estimators import METHODS
from hgkt.experiments.tables.published import PUBLISHED

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"script_{name}", ROOT / "benchmarks" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return load_script("methods_page")


def record(label, seed, h, data="CUB", **more):
    metrics = {"ts": h - 1, "tr": h + 1, "H": h, "zsl": h, "ausuc": h / 2}
    return {
        "key": f"{label} {seed}", "label": label, "data_name": data, "seed": seed,
        "metrics": metrics, "calibrated": {**metrics, "H": h + 3}, "uncalibrated": metrics, **more,
    }  # fmt: skip


def test_page_is_up_to_date_with_the_records(script):
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert script.fill(page, DOCS) == page, "run python benchmarks/methods_page.py"


def test_check_fails_where_the_page_is_behind(script, tmp_path):
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    (tmp_path / "results").symlink_to(DOCS / "results")
    changed = page.replace("<!-- end costs -->", "| stale |\n<!-- end costs -->")
    (tmp_path / "methods.md").write_text(changed, encoding="utf-8")
    with pytest.raises(SystemExit, match="behind the records"):
        script.main(["--docs", str(tmp_path), "--check"])
    script.main(["--docs", str(tmp_path)])
    assert (tmp_path / "methods.md").read_text(encoding="utf-8") == page


def test_missing_marker_is_named(script):
    with pytest.raises(SystemExit, match="begin families"):
        script.fill("no markers here", DOCS)


def test_page_names_every_method(script):
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert [name for name in METHODS if f"`{name}`" not in page] == []


def test_results_table_has_mean_deviation_and_order(script, tmp_path):
    rows = [record("ale", 0, 30.0), record("ale", 1, 99.0), record("ale", 2, 31.0),
            record("ale", 1, 32.0), record("sae", 0, 40.0)]  # fmt: skip
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    lines = script.results_table(script.read_records(path), "CUB").splitlines()
    # The later record of seed 1 replaces the earlier one; the higher H comes first.
    assert lines[2].startswith("| `sae` | 1 | 39.0 | 41.0 | 40.0 | 40.0 | 20.0 | 43.0 | 7.8 |")
    spread = np.std([30.0, 31.0, 32.0], ddof=1)
    assert lines[3].split(" | ")[4] == f"31.0 ± {spread:.1f}"
    assert "`sae`" not in lines[-1]
    assert "`dem`" in lines[-1]


def test_ranks_are_among_competing_methods_only(script):
    groups = {("CUB", name): [record(name, 0, h)] for name, h in
              [("hgkt", 60.0), ("ale", 30.0), ("sae", 40.0), ("dap", 1.0)]}  # fmt: skip
    lines = script.ranks_table(groups, "CUB").splitlines()
    expected = scipy.stats.spearmanr([1, 2, 3], [2, 1, 3]).statistic
    assert f"by H: {expected:.2f}; without `ale` 1.00." in lines[-1]
    assert lines[2:-2] == [
        "| `sae` | 1 | 2 | +1 | 1 |",
        "| `ale` | 2 | 1 | -1 | 2 |",
        "| `dap` | 3 | 3 | +0 | 3 |",
    ]


def test_published_harmonic_means_follow_from_their_parts():
    n_cells = 0
    for method, cells in PUBLISHED.items():
        assert method in METHODS
        for zsl, ts, tr, h in cells.values():
            assert h == pytest.approx(2 * ts * tr / (ts + tr), abs=0.15)
            assert zsl is None or ts <= zsl + 1e-9
            n_cells += 1
    assert n_cells == 17 * 5 - 1  # PSRZSL is not printed on AWA1


def test_costs_are_measured_in_a_process_of_its_own(data_root, tmp_path):
    costs = load_script("costs")
    out = tmp_path / "costs.json"
    costs.main(["--root", str(data_root), "--methods", "ridge", "--out", str(out)])
    costs.main(["--root", str(data_root), "--methods", "sae", "--limit", "0.1", "--out", str(out)])
    found = json.loads(out.read_text())["methods"]
    assert found["sae"] == {"skipped": "more than 0 s"}
    ridge = found["ridge"]
    # One thread: no more CPU than wall time, but for the clocks' grain.
    assert 0 < ridge["fit_cpu_s"] <= ridge["fit_wall_s"] * 1.1 + 0.02
    assert ridge["images_per_cpu_s"] > 100
    assert 0 <= ridge["fit_peak_mib"] <= ridge["peak_mib"]
