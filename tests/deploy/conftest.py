"""What the tests of deployment files share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def deploy() -> Path:
    return ROOT / "deploy"


@pytest.fixture(scope="session")
def serve_options() -> Callable[[list[str]], dict[str, Any]]:
    """Read arguments as `hgkt serve` does; what it does not know is an error."""
    from hgkt.cli.main import app

    command = get_command(app).commands["serve"]

    def call(arguments: list[str]) -> dict[str, Any]:
        context = command.context_class(command)
        given, rest, _ = command.make_parser(context).parse_args(args=list(arguments))
        assert not rest
        return given

    return call
