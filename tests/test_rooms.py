"""What import-linter cannot say: no room reaches into a private module of another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hgkt

PACKAGE = Path(hgkt.__file__).parent


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_private_modules_are_used_in_their_own_room_only() -> None:
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0]
        for name in imports(file):
            parts = name.split(".")
            if parts[0] == "hgkt" and len(parts) > 2 and parts[1] != room:
                hidden = (PACKAGE.joinpath(*parts[1:i]) for i in range(3, len(parts) + 1))
                is_private = any(
                    place.name.startswith("_")
                    and (place.with_suffix(".py").is_file() or place.is_dir())
                    for place in hidden
                )
                wrong += [f"{file.relative_to(PACKAGE)}: {name}"] if is_private else []
    assert wrong == []
