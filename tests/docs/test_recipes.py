"""The recipes for Dask and Spark on the page on scale give what `hgkt.gather` gives."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import hgkt

pytestmark = pytest.mark.endure

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"


@pytest.fixture
def page(blocks_of, tmp_path, monkeypatch):
    """Run the page's Python up to the recipes; what they need, and each block by a word in it."""
    monkeypatch.chdir(tmp_path)
    codes = [block.text for block in blocks_of(PAGE) if block.language == "python"]
    common = next(number for number, text in enumerate(codes) if "def summed" in text)
    names: dict[str, object] = {"__name__": "__main__"}
    for text in (codes[0], codes[1], codes[common]):
        exec(compile(text, str(PAGE), "exec"), names)
    return names, {word: next(t for t in codes if f"{word}" in t) for word in ("dask", "pyspark")}


def agrees(names) -> bool:
    """Return whether a recipe summed what `gather` sums from the same shards."""
    found = names["stats"]
    options = names["model"].gather_options()
    right = hgkt.gather(".", classes=names["names"], workers=1, **options)
    return found.classes.tolist() == right.classes.tolist() and all(
        np.allclose(getattr(found.of(key), sums), getattr(right.of(key), sums), rtol=1e-10, atol=0)
        for key in right.feature_maps
        for sums in ("second_moment", "sums")
    )


def test_the_recipe_for_dask_sums_what_gather_sums(page):
    pytest.importorskip("distributed")
    names, recipes = page
    exec(compile(recipes["dask"], str(PAGE), "exec"), names)
    assert agrees(names)


@pytest.mark.slow
def test_the_recipe_for_spark_sums_what_gather_sums(page, monkeypatch):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    source = str(Path(hgkt.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", source, prepend=os.pathsep)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    names, recipes = page
    with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet):
        exec(compile(recipes["pyspark"], str(PAGE), "exec"), names)
    assert agrees(names)
