"""The short form of `make chaos`: a handful of kills and stops of the real service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")


def test_a_few_kills_and_stops_lose_nothing(tmp_path):
    pytest.importorskip("pgserver", reason="kills on PostgreSQL need the package pgserver")
    out = tmp_path / "chaos.json"
    command = [sys.executable, ROOT / "benchmarks" / "chaos.py", "--kills", 6, "--stops", 2]
    result = subprocess.run(
        list(map(str, [*command, "--seed", 5, "--out", out])),
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    record = json.loads(out.read_text())
    assert record["kills"] == 6
    assert {(row["database"], row["workers"]) for row in record["arrangements"]} == {
        ("sqlite", 1),
        ("sqlite", 3),
        ("postgresql", 3),
    }
    for row in record["arrangements"]:
        assert row["acknowledged"] > 0
        wrong = ("lost", "half_applied", "wrong_answers", "orphans", "folders_left")
        assert {name: row[name] for name in wrong} == dict.fromkeys(wrong, 0)
    assert [row["failed"] for row in record["stops"]] == [0, 0]
