"""Scripts of ``benchmarks`` and ``docs/_ext`` as modules, and the code blocks of every page."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = (ROOT / "benchmarks", ROOT / "docs" / "_ext")
# Pages that a build writes are not kept; their code is tested as doctests and as examples.
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
KINDS = {"python_page": ("python",), "shell_page": ("bash", "console", "")}
_FENCE = re.compile(r"^(```+)(\w*)\n(.*?)^\1$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `output` is the block of text right below it, or None."""

    language: str
    text: str
    line: int
    output: str | None


def read_blocks(path):
    """Return the fenced blocks of a page in order."""
    page = path.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(page))
    blocks = []
    for match, after in zip(found, [*found[1:], None], strict=False):
        follows = after is not None and not page[match.end() : after.start()].strip()
        output = after[3] if follows and after[2] == "text" else None
        line = page.count("\n", 0, match.start()) + 2
        blocks.append(Block(match[2], match[3], line, output))
    return blocks


def pytest_generate_tests(metafunc):
    """Run a test that asks for a kind of page once for every page with blocks of that kind."""
    for kind, languages in KINDS.items():
        if kind in metafunc.fixturenames:
            pages = [
                page
                for page in PAGES
                if any(block.language in languages for block in read_blocks(page))
            ]
            names = [page.relative_to(ROOT).as_posix() for page in pages]
            metafunc.parametrize(kind, pages, ids=names)


@pytest.fixture(scope="session")
def blocks_of():
    """The fenced blocks of a page, by its path."""
    return read_blocks


@pytest.fixture(scope="session")
def script():
    """Load a script by name; what scripts share is found as when they run."""
    sys.path += map(str, SCRIPTS)  # last: no script hides a package of its name

    def load(name):
        path = next(path for folder in SCRIPTS if (path := folder / f"{name}.py").is_file())
        spec = importlib.util.spec_from_file_location(f"script_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    yield load
    for folder in SCRIPTS:
        sys.path.remove(str(folder))
