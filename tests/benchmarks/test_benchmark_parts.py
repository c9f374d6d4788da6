"""A long benchmark goes on with what its record lacks."""

from __future__ import annotations

import json
from operator import itemgetter

import pytest

from _timing import measure_parts
from hgkt.exceptions import DataError

ROWS = itemgetter("rows")


def _document(rows, n_cpus=2):
    environment = {"n_cpus": n_cpus, "load": len(rows)}
    return {"name": "demo", "rows": rows, "environment": environment}


class Clock:
    """Parts that fail until the machine is quiet; counts how often each was measured."""

    def __init__(self):
        self.measured = []

    def parts(self, *broken):
        def measure(name):
            if name in broken:
                raise KeyboardInterrupt
            self.measured.append(name)
            return {"name": name, "turn": len(self.measured)}

        return {name: lambda name=name: measure(name) for name in ("a", "b", "c")}


def test_goes_on_where_it_was_stopped(tmp_path):
    clock, record, told = Clock(), tmp_path / "record.json", []
    with pytest.raises(KeyboardInterrupt):
        measure_parts(clock.parts("c"), _document, ROWS, record=record)
    assert [row["name"] for row in json.loads(record.read_text())["rows"]] == ["a", "b"]
    found = measure_parts(
        clock.parts(), _document, ROWS, record=record, progress=lambda *now: told.append(now[:3])
    )
    assert clock.measured == ["a", "b", "c"]
    assert found == json.loads(record.read_text())
    assert told == [("c", 0, 1), ("c", 1, 1)]


def test_a_named_part_is_measured_again_and_keeps_its_place(tmp_path):
    clock, record = Clock(), tmp_path / "record.json"
    measure_parts(clock.parts(), _document, ROWS, record=record)
    found = measure_parts(clock.parts(), _document, ROWS, only=["a"], record=record)
    assert [(row["name"], row["turn"]) for row in found["rows"]] == [("a", 4), ("b", 2), ("c", 3)]


def test_figures_of_another_machine_are_refused(tmp_path):
    clock, record = Clock(), tmp_path / "record.json"
    measure_parts(clock.parts(), _document, ROWS, only=["b"], record=record)
    with pytest.raises(DataError, match="measured with n_cpus = 2, now it is 8"):
        measure_parts(clock.parts(), lambda rows: _document(rows, 8), ROWS, record=record)


def test_an_unknown_part_is_named():
    with pytest.raises(DataError, match="part must be one of 'a', 'b', 'c'; got 'd'"):
        measure_parts(Clock().parts(), _document, ROWS, only=["d"])
