"""The campaigns of this folder are scripts; what they share is found as when they run."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # last: no script hides a package of its name
collect_ignore = [
    str(path) for path in HERE.rglob("*.py") if not path.name.startswith(("test_", "conftest"))
]
