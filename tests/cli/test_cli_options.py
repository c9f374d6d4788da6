"""Options of a command are its parameters; their help is its docstring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from hgkt.cli._options import with_options


@dataclass
class Where:
    """A place.

    Parameters
    ----------
    folder : DIR, default here
        Where it goes.
    """

    folder: str | None = None


def invoke(*arguments: str) -> str:
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @with_options
    def command(
        item: Annotated[str, typer.Argument()],
        where: Where,
        n_rows: Annotated[int, typer.Option(min=1)] = 3,
        fast: bool | None = None,
        quiet: bool = False,
        kind: Annotated[str, typer.Option("--type", help="Kept.")] = "a",
    ) -> None:
        """Do it.

        Parameters
        ----------
        item : ITEM
            What to do.
        n_rows : N
            How many rows, over two
            lines.
        fast : default where possible
            Whether to hurry.
        quiet
            Say nothing.
        """
        typer.echo(f"{item} {where.folder} {n_rows} {fast} {quiet} {kind}")

    return CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"}).output


def test_help_is_what_the_docstring_says():
    lines = [" ".join(line.split()) for line in invoke("--help").splitlines()]
    text = "\n".join(lines)
    assert "Parameters" not in text
    for line in (
        "ITEM <str> What to do. [required]",
        "--folder DIR Where it goes. [default: (here)]",
        "--fast / --no-fast Whether to hurry. [default: (where possible)]",
        "--quiet Say nothing.",
    ):
        assert line in lines
    assert "--n-rows N How many rows, over two lines. [default: 3; x>=1]" in text.replace("\n", " ")
    assert "Kept." in text


def test_options_arrive():
    given = ("--folder", "x", "--n-rows", "5", "--no-fast", "--quiet", "--type", "b")
    assert invoke("it", *given).strip() == "it x 5 False True b"
    assert invoke("it").strip() == "it None 3 None False a"
    assert "Invalid value for '--n-rows'" in invoke("it", "--n-rows", "0")
