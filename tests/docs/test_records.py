"""The scripts that make the records and the gallery."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import harmonic_mean, per_class_accuracy
from hgkt.experiments.plan import Cell, CellResult, DataSpec
from hgkt.experiments.store import ResultStore

pytestmark = pytest.mark.endure  # it takes long

CELLS = Path(__file__).resolve().parents[2] / "docs" / "results" / "cells"


@pytest.fixture(scope="module")
def cells(script):
    return script("cells")


def committed(note=None):
    """The results in docs/results/cells that are of today's mathematics and protocol, by key."""
    asked = [json.loads(path.read_text())["cell"] for path in CELLS.glob("*.json")]
    cells = [Cell(**{**cell, "data": DataSpec(**cell["data"])}) for cell in asked]
    return ResultStore(CELLS, note).load(cells)


def test_committed_cells_are_a_store_without_arrays_and_paths():
    ignored = []
    assert committed(ignored.append)
    assert ignored == []
    assert list(CELLS.glob("*.npz")) == []
    data = [json.loads(path.read_text())["cell"]["data"] for path in CELLS.glob("*.json")]
    assert {place["name"] for place in data} == {"CUB", "AWA1", "EMOJI", "digits"}
    assert all(place["location"] == place["name"] for place in data)


def test_every_cell_that_pages_show_is_planned(cells, data_root):
    from page_tables.shown import everything

    keys = {cell.key for asked in everything() for cell in cells.cells_of(asked, str(data_root))}
    assert set(committed()) <= keys


def test_cells_takes_what_a_report_holds_and_runs_nothing_twice(cells, tmp_path, monkeypatch):
    from page_tables.shown import Evaluation

    monkeypatch.setattr(cells, "everything", lambda: [Evaluation("digits", "ridge", n_seeds=1)])
    arguments = ["--root", str(tmp_path), "--data", "digits", "--jobs", "1"]
    arguments += ["--report", str(tmp_path / "report"), "--kept", str(tmp_path / "kept")]
    (cell,) = cells.cells_of(Evaluation("digits", "ridge", n_seeds=1), str(tmp_path))
    version = {"mathematics": cell.mathematics}
    there = CellResult(cell, {"metrics": {"H": 1.0}}, {"curve": np.arange(3)}, versions=version)
    ResultStore(tmp_path / "report" / "cells").put(there)
    cells.main(arguments)
    found = ResultStore(tmp_path / "kept").get(cell)
    assert found.values == {"metrics": {"H": 1.0}}
    assert found.arrays == {}
    cells.main(arguments)  # nothing is missing


def test_kept_results_name_no_folder_of_the_machine(cells):
    cell = Cell("evaluate", DataSpec("CUB", "/home/somebody/CUB"), "ridge")
    kept = cells.kept(CellResult(cell))
    assert kept.cell.data.location == "CUB"
    assert kept.cell.key == cell.key


def test_gallery_has_the_figures_and_the_mathematics_of_a_report(script, tmp_path):
    from PIL import Image

    gallery = script("gallery")
    report = tmp_path / "report"
    (report / "figures").mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(report / "figures" / "one.png")
    (report / "report.md").write_text(
        "# T\n\nlead\n\n- Seeds: 3\n\n## With\n\nAbout it.\n\n> 1 of 2\n\n"
        "![A](figures/one.png)\n\n**A.** Note. ([numbers](figures/one.csv))\n\n"
        "### Table\n\n| a | b |\n| --- | --: |\n| x | [1.5](records/k.json) |\n\nIts note.\n\n"
        "## Without\n\nNothing to draw.\n"
    )
    for version, method in (("2", "hgkt"), ("1", "hgkt"), ("3", "dem")):
        cell = Cell("evaluate", DataSpec("digits", "digits"), method, seed=int(version))
        result = CellResult(cell, versions={"mathematics": version})
        document = {"cell": {"method": method}, "versions": result.versions, "error": ""}
        (report / "cells").mkdir(exist_ok=True)
        (report / "cells" / f"{cell.key}.json").write_text(json.dumps(document))
    gallery.main([str(report), "--docs", str(tmp_path)])
    page = (tmp_path / "gallery.md").read_text()
    body = page.partition("- Seeds: 3\n")[2]
    assert body == "\n## With\n\nAbout it.\n\n![A](gallery/one.png)\n\n**A.** Note.\n"
    assert (tmp_path / "gallery" / "one.png").is_file()
    run = json.loads((tmp_path / "gallery" / "run.json").read_text())
    assert run == {"mathematics": {"hgkt": "1", "dem": "3"}}


def test_growing_scores_images_against_class_means_in_the_models_metric(script):
    growing = script("growing")
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    images = growing.Images(X, y, *data.rows("test_seen"), *data.rows("test_unseen"))
    rows = list(growing.grow(model, images, seed=0))
    assert [(r.n_images, r.method == growing.POSTERIOR) for r in rows] == [
        (0, True), (1, True), (1, False), (2, True), (2, False),
        (5, True), (5, False), (10, True), (10, False),
    ]  # fmt: skip
    assert len({len(r.y_new) for r in rows}) == 1  # every n is tested on the same images
    by_means = [r.metrics(0.0)["zsl"] for r in rows if r.method == growing.CLASS_MEAN]
    assert by_means[-1] > 95  # ten images tell two digits apart
    assert len(model.unseen_classes_) == 2  # the model that was given stays as it is
    grown = [r for r in rows if r.method == growing.POSTERIOR]
    harmonic = [r.as_answered()["H"] for r in grown]
    assert harmonic[-1] > harmonic[0] + 10
    # What a service answers after the same images gives the same figures.
    drawn = growing.protocol(images.y_new, seed=0)
    assert [n for n, _ in drawn.steps] == [0, 1, 2, 5, 10]
    for _, given in drawn.steps[1:]:
        model.partial_fit(images.X_new[given], images.y_new[given])
    tests = (images.X_old, images.y_old), (images.X_new[drawn.left], images.y_new[drawn.left])
    right = [per_class_accuracy(y, model.predict(X)) for X, y in tests]
    assert 100 * harmonic_mean(*right) == pytest.approx(harmonic[-1])


def test_costs_are_measured_in_a_process_of_its_own(script, data_root, tmp_path):
    costs = script("costs")
    out = tmp_path / "costs.json"
    costs.main(["--root", str(data_root), "--methods", "ridge", "--out", str(out)])
    costs.main(["--root", str(data_root), "--methods", "sae", "--limit", "0.1", "--out", str(out)])
    found = json.loads(out.read_text())["methods"]
    assert found["sae"] == {"skipped": "more than 0 s"}
    ridge = found["ridge"]
    assert ridge["mathematics"] == "2"
    # One thread: no more CPU than wall time, but for the clocks' grain.
    assert 0 < ridge["fit_cpu_s"] <= ridge["fit_wall_s"] * 1.1 + 0.02
    assert ridge["images_per_cpu_s"] > 100
    assert 0 <= ridge["add_class_cpu_s"] < ridge["fit_cpu_s"] + 0.02
    assert 0 <= ridge["fit_peak_mib"] <= ridge["peak_mib"]
