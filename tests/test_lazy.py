"""Packages whose names are imported on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = [
    "hgkt",
    "hgkt.client",
    "hgkt.data",
    "hgkt.serving",
]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_found_and_listed(name):
    package = import_module(name)
    assert dir(package) == sorted(package.__all__)
    for public in package.__all__:
        assert getattr(package, public) is not None
    assert set(package._HOMES) <= set(package.__all__)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'$"):
        package.nothing  # noqa: B018


@pytest.mark.endure
@pytest.mark.smoke
def test_import_of_the_package_loads_nothing_heavy():
    heavy = {"numpy", "pandas", "sklearn", "torch", "fastapi", "sqlalchemy", "httpx"}
    code = "import sys, hgkt, hgkt.serving, hgkt.client"
    code += f"; sys.exit(bool({heavy!r} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.endure
def test_import_of_what_reads_items_loads_no_library_that_reads_them():
    heavy = {"torch", "transformers", "sentence_transformers", "PIL", "onnx", "onnxruntime"}
    code = "import sys, hgkt.vision, hgkt.language, hgkt.items, hgkt.export"
    code += f"; sys.exit(bool({heavy!r} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
