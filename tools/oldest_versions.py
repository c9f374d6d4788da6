"""Print the lower bounds of pyproject.toml as pip constraints, the oldest versions it allows.

    python tools/oldest_versions.py pyproject.toml constraints.txt > oldest.txt

What the second file pins stays as it is there.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_BOUND = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?>=(?P<version>[\w.]+)")


def lower_bounds(project: Path) -> dict[str, str]:
    """Return the lowest version of every dependency that has a bound, extras included."""
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    groups = [declared["dependencies"], *declared["optional-dependencies"].values()]
    found = [_BOUND.match(line) for lines in groups for line in lines]
    return {match["name"].lower(): match["version"] for match in found if match}


def pinned(constraints: Path) -> dict[str, str]:
    """Return what a constraints file pins."""
    lines = constraints.read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if "==" in line)


if __name__ == "__main__":
    versions = {**lower_bounds(Path(sys.argv[1])), **pinned(Path(sys.argv[2]))}
    sys.stdout.write("".join(f"{name}=={version}\n" for name, version in versions.items()))
