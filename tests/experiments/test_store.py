"""The store of results: atomic, forgiving, never unpickling."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hgkt.evaluation.records import PROTOCOL
from hgkt.exceptions import DataError
from hgkt.experiments.discovery import discover
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec
from hgkt.experiments.store import ResultStore

DATA = DataSpec("toy", "/somewhere/toy", "res101", "att", "f" * 64)


def a_cell(**changes: object) -> Cell:
    return replace(Cell("evaluate", DATA, "hgkt-network", "", {"mu": 0.1}, 2), **changes)


def versions_of(cell: Cell) -> dict[str, str]:
    """The versions that a run of today has."""
    return {"hgkt": "0.0.9", "mathematics": cell.mathematics}


def a_result(cell: Cell, H: float = 1.5) -> CellResult:
    arrays = {"seen": np.array([1.0, -np.inf]), "names": np.array(["a", "b"])}
    return CellResult(cell, {"H": H}, arrays, "", 2.0, versions_of(cell), {"n_cpus": 2})


def test_store_gives_back_what_was_put(tmp_path):
    store, cell = ResultStore(tmp_path / "new"), a_cell()
    assert store.get(cell) is None
    path = store.put(a_result(cell))
    found = store.get(cell)
    assert path.name == f"{cell.key}.json"
    assert found.ok
    assert found.values == {"H": 1.5}
    assert found.seconds == 2.0
    assert found.versions == versions_of(cell)
    assert found.machine == {"n_cpus": 2}
    np.testing.assert_array_equal(found.arrays["seen"], [1.0, -np.inf])
    assert found.arrays["names"].tolist() == ["a", "b"]
    assert [path.suffix for path in sorted((tmp_path / "new").iterdir())] == [".json", ".npz"]


def test_store_finds_a_result_where_the_folder_moved_but_not_for_other_data(tmp_path):
    store = ResultStore(tmp_path)
    store.put(a_result(a_cell()))
    moved = a_cell(data=replace(DATA, location="/elsewhere"))
    assert store.get(moved).cell.data.location == "/elsewhere"
    assert store.get(a_cell(data=replace(DATA, fingerprint="0" * 64))) is None
    assert store.get(a_cell(seed=3)) is None


def test_store_failure_never_replaces_a_success(tmp_path):
    store, cell = ResultStore(tmp_path), a_cell()
    store.put(CellResult(cell, error="it broke", versions=versions_of(cell)))
    assert store.get(cell).error == "it broke"
    store.put(a_result(cell))
    assert store.get(cell).ok
    store.put(CellResult(cell, error="it broke again", versions=versions_of(cell)))
    assert store.get(cell).ok


def _damage(folder: Path, key: str, how: str) -> None:
    json_file, npz_file = folder / f"{key}.json", folder / f"{key}.npz"
    if how == "truncated json":
        json_file.write_bytes(json_file.read_bytes()[:40])
    elif how == "empty json":
        json_file.write_bytes(b"")
    elif how == "binary json":
        json_file.write_bytes(b"\xff\xfe\x00")
    elif how == "list":
        json_file.write_text("[1, 2]")
    elif how == "other format":
        json_file.write_text(json_file.read_text().replace("hgkt-cell-1", "hgkt-cell-9"))
    elif how == "other seed":
        json_file.write_text(json_file.read_text().replace('"seed": 2', '"seed": 7'))
    elif how == "truncated npz":
        npz_file.write_bytes(npz_file.read_bytes()[:-30])
    elif how == "other npz":
        np.savez(npz_file, seen=np.zeros(1))
    elif how == "no npz":
        npz_file.unlink()


@pytest.mark.parametrize(
    "how",
    [
        "truncated json",
        "empty json",
        "binary json",
        "list",
        "other format",
        "other seed",
        "truncated npz",
        "other npz",
        "no npz",
    ],
)
def test_store_ignores_a_damaged_file_with_one_line(tmp_path, how):
    lines: list[str] = []
    store, cell, other = ResultStore(tmp_path, lines.append), a_cell(), a_cell(seed=9)
    store.put(a_result(cell))
    store.put(a_result(other))
    _damage(tmp_path, cell.key, how)
    assert list(store.load([cell, other])) == [other.key]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert cell.key in lines[0]
    store.put(a_result(cell, H=3.0))
    assert store.get(cell).values == {"H": 3.0}


def test_store_refuses_python_objects(tmp_path):
    store, cell = ResultStore(tmp_path), a_cell()
    with pytest.raises(DataError, match="'bad' holds Python objects"):
        store.put(CellResult(cell, {}, {"bad": np.array([{}], dtype=object)}))
    assert store.get(cell) is None


def test_store_does_not_unpickle_arrays_that_someone_else_wrote(tmp_path):
    lines: list[str] = []
    store, cell = ResultStore(tmp_path, lines.append), a_cell()
    path = store.put(a_result(cell))
    np.savez(path.with_suffix(".npz"), seen=np.array([{}], dtype=object))
    document = json.loads(path.read_text())
    import hashlib

    document["arrays"] = hashlib.sha256(path.with_suffix(".npz").read_bytes()).hexdigest()
    path.write_text(json.dumps(document))
    assert store.get(cell) is None
    assert "allow_pickle" in lines[0]


def test_store_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match=r"cannot write .*file"):
        ResultStore(tmp_path / "file").put(a_result(a_cell()))


@pytest.mark.endure
def test_store_takes_no_result_of_other_mathematics(tmp_path, monkeypatch):
    from hgkt.baselines.eszsl import ESZSLClassifier
    from hgkt.experiments.run import reproduce, run_cell

    now, lines = ESZSLClassifier.mathematics_version, []
    store = ResultStore(tmp_path / "cells", lines.append)
    digits = discover(names=["digits"]).data
    context = Context(digits, methods=["eszsl", "ridge"], n_seeds=1, quick=True)
    first = reproduce(tmp_path, context, ["table-zsl"], n_jobs=1)
    cell, other = (result.cell for result in first.results.values())
    assert store.get(cell).versions["mathematics"] == str(now)

    monkeypatch.setattr(ESZSLClassifier, "mathematics_version", now + 1)
    # Another method's result stays; this one's is not there, so it is not shown and runs again.
    assert store.get(cell) is None
    assert store.get(other) is not None
    assert list(store.load([cell, other])) == [other.key]
    shown = reproduce(tmp_path, context, ["table-zsl"], run=False)
    assert [result.cell.method for result in shown.results.values()] == ["ridge"]
    assert f"cells/{cell.key}.json" not in shown.report.markdown.read_text()
    store.put(run_cell(cell))
    assert store.get(cell).versions["mathematics"] == str(now + 1)
    # A failure of today replaces a success of yesterday's mathematics.
    monkeypatch.setattr(ESZSLClassifier, "mathematics_version", now + 2)
    store.put(CellResult(cell, error="it broke", versions=versions_of(cell)))
    assert store.get(cell).error == "it broke"
    assert lines == []


def test_store_takes_a_result_without_a_version_for_the_first(tmp_path, monkeypatch):
    from hgkt.estimators import HGKTNetworkClassifier

    store, cell = ResultStore(tmp_path), a_cell()
    store.put(replace(a_result(cell), versions={"hgkt": "0.0.9"}))
    assert store.get(cell) is None
    monkeypatch.setattr(HGKTNetworkClassifier, "mathematics_version", 1)
    assert store.get(cell) is not None
    monkeypatch.setattr(HGKTNetworkClassifier, "mathematics_version", 2)
    assert store.get(a_cell(method="hgkt", preset="paper")) is None  # the same class by preset


def test_store_keeps_keys_of_cells_that_need_nothing():
    # Results that were stored before cells could need each other are found.
    digits = DataSpec("digits", "digits")
    assert Cell("evaluate", digits, method="eszsl").key == "5f2affb1f6f8744e"
    assert Cell("evaluate", digits, method="eszsl", needs=["a"]).key != "5f2affb1f6f8744e"


def _write_often(folder: str) -> None:
    store, versions = ResultStore(folder), versions_of(a_cell())
    for number in range(60):
        store.put(CellResult(a_cell(), {"text": str(number) * 20_000}, versions=versions))


@pytest.mark.endure
def test_store_is_whole_whenever_another_process_reads(tmp_path):
    lines: list[str] = []
    store = ResultStore(tmp_path, lines.append)
    store.put(CellResult(a_cell(), {"text": "start"}, versions=versions_of(a_cell())))
    writer = multiprocessing.get_context("fork").Process(target=_write_often, args=(str(tmp_path),))
    writer.start()
    n_reads = 0
    while writer.is_alive():
        assert store.get(a_cell()) is not None
        n_reads += 1
    writer.join()
    assert writer.exitcode == 0
    assert n_reads > 10
    assert not lines
    assert not list(tmp_path.glob("*.part"))


def test_a_run_record_of_an_earlier_protocol_counts_as_absent(tmp_path):
    store, result = ResultStore(tmp_path), a_result(a_cell())
    cell, record = result.cell, {"format": "hgkt-run-1", "versions": {"protocol": PROTOCOL}}
    store.put(replace(result, values=record))
    assert store.get(cell) is not None
    store.put(replace(result, values={**record, "versions": {"hgkt": "0.0.9"}}))
    assert store.get(cell) is None
