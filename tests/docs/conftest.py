"""Scripts of the folder ``benchmarks`` as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="session")
def script():
    """Load a script by name; what scripts share is found as when they run."""
    sys.path.append(str(BENCHMARKS))  # last: no script hides a package of its name

    def load(name):
        path = BENCHMARKS / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"script_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    yield load
    sys.path.remove(str(BENCHMARKS))
