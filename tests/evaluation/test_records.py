"""Run records: JSON and back."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest
import sklearn

import hgkt
from hgkt.evaluation import RunRecord, evaluate, load_records, records_frame
from hgkt.exceptions import DataError


@pytest.fixture
def record(toy, ridge):
    return evaluate(ridge(), toy, select=True, calibrate=True, random_state=3, by_zsl=True)


def test_record_survives_saving_and_loading(record, tmp_path):
    path = record.save(tmp_path / "new" / "folder")
    assert RunRecord.load(path) == record
    assert path.name == f"RidgeMeans-toy-{record.key}.json"
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # no scratch file is left


def test_record_of_an_earlier_version_loads(record):
    document = record.to_dict()
    del document["per_class"], document["by_zsl"]
    found = RunRecord.from_dict(document)
    assert found == dataclasses.replace(record, per_class=None, by_zsl=None)


def test_record_says_where_it_comes_from(record, toy):
    document = json.loads(json.dumps(record.to_dict()))
    assert document["data"]["fingerprint"] == toy.fingerprint()
    assert document["data"]["about"] == {"features": "made up"}
    assert document["data"]["n_seen_classes"] == 12
    assert document["seed"] == 3
    versions = document["versions"]
    assert versions["hgkt"] == hgkt.__version__
    assert versions["numpy"] == np.__version__
    assert versions["sklearn"] == sklearn.__version__
    assert ("torch" in versions) == ("torch" in sys.modules)
    assert document["machine"]["n_cpus"] >= 1
    assert document["parameters"]["alpha"] == record.selected["alpha"]


def test_record_of_the_same_run_replaces_its_file(record, tmp_path):
    first = record.save(tmp_path)
    slower = dataclasses.replace(record, timings={**record.timings, "total": 99.0})
    assert slower.save(tmp_path) == first
    assert RunRecord.load(first).timings["total"] == 99.0
    other = dataclasses.replace(record, seed=4)
    assert other.save(tmp_path) != first
    assert len(load_records(tmp_path)) == 2


def test_record_file_name_is_safe(record):
    odd = dataclasses.replace(record, data={**record.data, "name": "../my data/ä"})
    assert "/" not in odd.file_name


def test_records_frame_has_one_row_a_record(record):
    other = dataclasses.replace(record, seed=4)
    frame = records_frame([record, other])
    assert frame["seed"].tolist() == [3, 4]
    assert frame["H"].tolist() == [record.metrics.H] * 2
    assert {"method", "data", "ts", "tr", "zsl", "ausuc", "H_star", "seconds"} <= set(frame)
    assert frame["H_uncalibrated"].tolist() == [record.uncalibrated.H] * 2


def test_record_load_refuses_other_files(tmp_path, record):
    path = tmp_path / "x.json"
    with pytest.raises(DataError, match="does not exist"):
        RunRecord.load(path)
    path.write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        RunRecord.load(path)
    path.write_text('{"a": 1}')
    with pytest.raises(DataError, match=r"x\.json: this is no run record"):
        RunRecord.load(path)
    document = record.to_dict()
    del document["seed"]
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="lacks 'seed'"):
        RunRecord.load(path)


def test_record_save_refuses_a_file_as_folder(record, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*RidgeMeans-toy"):
        record.save(tmp_path / "file")
