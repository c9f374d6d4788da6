"""The short form of `make fuzz`: every attack, small, and some hundred mutated requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.endure

SCRIPT = Path(__file__).with_name("fuzz_service.py")


@pytest.mark.slow
def test_a_service_withstands_attacks_and_mutated_requests(tmp_path):
    out = tmp_path / "fuzz.json"
    command = [sys.executable, str(SCRIPT), "--short", "--requests", "400", "--schemathesis", "0"]
    done = subprocess.run(
        [*command, "--out", str(out)], capture_output=True, text=True, timeout=240
    )
    assert out.exists(), done.stderr
    record = json.loads(out.read_text())
    wrong = {each["attack"]: each["statuses"] for each in record["attacks"] if each["unexpected"]}
    assert not wrong
    assert record["first_traceback"] == ""
    held = record["held"]
    # What was in time is judged by who knows how busy the machine was.
    assert held.keys() >= {"rows", "changes"}
    assert {held[name] for name in ("memory", "statuses", "log", "ready")} == {True}
    assert record["peak_bytes"] < 100_000_000
    assert record["mutated"]["n_requests"] == 400
    assert done.returncode == (not all(held.values()))
