"""Which models `hgkt serve` serves, and what they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hgkt.serving.settings import ModelFolder

ServedModelsOption = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="[NAME=]FOLDER",
        help="Model folder, as `hgkt train` writes it; repeat it to serve several side by side, "
        "the first of which is current.",
    ),
]
_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)


def read_models(texts: Sequence[str]) -> tuple[ModelFolder, list[ModelFolder]]:
    """Return the first model and those beside it.

    A text that is a folder as it stands is one, whatever its name holds.

    Examples
    --------
    >>> first, beside = read_models(["v2=models/new", "models/old"])
    >>> first.name, str(first.folder), beside[0].name
    ('v2', 'models/new', 'old')
    """
    from hgkt.serving.settings import ModelFolder

    found = []
    for text in texts:
        named = None if Path(text).exists() else _NAMED.fullmatch(text)
        folder = Path(named[2] if named else text)
        found.append(ModelFolder(named[1] if named else folder.resolve().name, folder))
    return found[0], found[1:]
