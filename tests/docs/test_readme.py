"""README: its links lead somewhere, here and on PyPI."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_relative_links_of_readme_lead_to_files():
    links = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    relative = [link.partition("#")[0] for link in links if not link.startswith("http")]
    assert [link for link in relative if not (ROOT / link).exists()] == []


def test_what_pypi_shows_has_no_relative_link():
    pytest.importorskip("hatch_fancy_pypi_readme", reason="the extra test is not installed")
    shown = subprocess.run(
        [sys.executable, "-m", "hatch_fancy_pypi_readme"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "# hgkt" in shown
    assert [link for link in LINK.findall(shown) if not link.startswith("http")] == []
