"""The site: builds without a warning, and its pages ask no host for anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the extra docs is not installed")

pytestmark = pytest.mark.endure

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("_build", "api", "method", "examples")
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=\"(https?:)?//|"
    r"<link\b(?=[^>]*rel=\"(?:stylesheet|preload|icon)\")[^>]*href=\"(https?:)?//|"
    r"(?:@import|url\()\s*[\"']?(?:https?:)?//"
)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
         "--disable-component-update", "--no-first-run", "--disable-dev-shm-usage"]  # fmt: skip


def build(folder: Path, *options: str) -> Path:
    """Build a copy of the sources, so that nothing is left in the checkout."""
    ignored = shutil.ignore_patterns(*GENERATED, "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=ignored)
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(ROOT / "CHANGELOG.md", folder)
    site = folder / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *options, folder / "docs", site],
        env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def opened():
    """Open pages in a real browser; what they ask for and complain about comes back."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine; the site is not opened in a browser")

    def visit(pages):
        asked, complaints = [], []
        with playwright.sync_playwright() as running:
            browser = running.chromium.launch(executable_path=chromium, args=FLAGS)
            tab = browser.new_page()
            tab.on("request", lambda request: asked.append(request.url))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            for page in pages:
                tab.goto(page.as_uri())
            browser.close()
        return asked, complaints

    return visit


def outside(asked):
    return sorted({url for url in asked if not url.startswith(("file:", "data:"))})


def loads_from_elsewhere(site: Path) -> list[str]:
    files = [path for kind in ("*.html", "*.css") for path in site.rglob(kind)]
    return [path.name for path in files if LOADED.search(path.read_text(encoding="utf-8"))]


def test_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path, opened):
    site = build(tmp_path, "-D", "plot_gallery=0")
    assert loads_from_elsewhere(site) == []
    pages = ["index", "start", "methods", "method/dap", "api/names/hgkt.HGKTClassifier", "search"]
    asked, complaints = opened([site / f"{page}.html" for page in pages])
    assert outside(asked) == []
    assert complaints == []


@pytest.mark.slow
def test_whole_site_with_its_gallery_asks_no_host(tmp_path, opened):
    site = build(tmp_path)
    assert len(list((site / "_images").glob("sphx_glr_plot_*"))) >= 12
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 100
    asked, complaints = opened(pages)
    assert outside(asked) == []
    assert complaints == []
