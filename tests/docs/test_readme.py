"""README, CONTRIBUTING and CITATION: links lead somewhere, here and on PyPI; one version."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hgkt

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_relative_links_lead_to_files(name):
    links = LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    relative = [link.partition("#")[0] for link in links if not link.startswith("http")]
    assert [link for link in relative if not (ROOT / link).exists()] == []


def test_readme_stays_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


@pytest.mark.endure
def test_what_pypi_shows_has_no_relative_link():
    pytest.importorskip("hatch_fancy_pypi_readme", reason="the extra test is not installed")
    shown = subprocess.run(
        [sys.executable, "-m", "hatch_fancy_pypi_readme"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "# hgkt" in shown
    assert [link for link in LINK.findall(shown) if not link.startswith("http")] == []


def test_citation_names_the_version_of_the_package():
    told = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert told["version"] == hgkt.__version__
    assert f"## {hgkt.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
