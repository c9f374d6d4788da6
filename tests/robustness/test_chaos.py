"""The short form of `make chaos`: a handful of kills and stops of the real service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.endure,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc"),
]


@pytest.mark.slow
def test_a_few_kills_and_stops_lose_nothing(tmp_path):
    pytest.importorskip("pgserver", reason="kills on PostgreSQL need the package pgserver")
    out = tmp_path / "chaos.json"
    command = [sys.executable, HERE / "chaos.py", "--kills", 6, "--stops", 2]
    result = subprocess.run(
        list(map(str, [*command, "--seed", 5, "--out", out])),
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "TMPDIR": str(tmp_path)},
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


def test_the_comparison_tells_what_is_lost_and_what_is_half():
    from _chaos_clients import Changer

    client = Changer(0, 1, seed=0)
    client._there = {"1.1.0": True, "1.1.1": True, "1.1.2": True, "1.2.0": False}
    batch = {"1.1.0", "1.1.1", "1.1.2"}
    assert client.compare(batch | {"2.1.0"}) == (0, 0)
    assert client.compare(batch - {"1.1.1"}) == (1, 0)  # an acknowledged class has gone
    assert client.compare(batch | {"1.2.0"}) == (1, 0)  # an acknowledged removal has not
    assert client.compare(batch | {"1.9.0"}) == (1, 0)  # nobody asked for it
    client._open = ("1.3.0", "1.3.1", "1.3.2")
    assert client.compare(batch | set(client._open)) == (0, 0)
    assert client.compare(batch | {"1.3.1"}) == (0, 1)
