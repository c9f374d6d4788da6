"""`hgkt suggest`: which items to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt.cli._inputs import load_model, read_path
from hgkt.cli._options import ReaderOptions, with_options
from hgkt.cli._output import emit, percent, show_table


@with_options
def suggest_command(
    model: Path,
    items: Path,
    n: Annotated[int, typer.Option("-n", "--number", min=1)] = 20,
    *,
    reading: ReaderOptions,
    as_json: bool = False,
) -> None:
    """Choose items whose labels would help the model most, the best first.

    Give them labels, and the classes grow: hgkt classes grow.

    Example: hgkt suggest --model photo-model --items photos/new -n 20

    Example: hgkt suggest --model text-model --items texts.csv

    Parameters
    ----------
    items : PATH
        Photos or a folder of them; of a model of texts, a table with a column text; or rows of
        features (.npy, .npz, .parquet, .mat).
    n
        How many to choose.
    """
    from hgkt.unknown import suggest

    loaded = load_model(model)
    given = read_path(items, loaded, reading)
    rows: list[dict[str, Any]] = [
        {"item": given.names[one.row], "label": one.label, "probability": one.probability}
        for one in suggest(loaded, given.features, n)
    ]
    n_items = len(given.features)
    document = {"model": model, "n_items": n_items, "items": rows, **given.report()}

    def render() -> None:
        lines = [[row["item"], row["label"], percent(row["probability"])] for row in rows]
        show_table(["item", "seems to be", "probability"], lines)

    emit(document, as_json, render)
