"""`hgkt suggest`: which items to label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hgkt.cli._items import ItemsOption, item_rows
from hgkt.cli._options import (
    Device,
    DeviceOption,
    JsonOption,
    ModelOption,
    WeightsOption,
    with_options,
)
from hgkt.cli._output import emit, show_table


@with_options
def suggest_command(
    model: ModelOption,
    items: ItemsOption,
    n: Annotated[int, typer.Option("-n", "--number", min=1)] = 20,
    weights: WeightsOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Choose items whose labels would help the model most, the best first.

    Give them labels, and the classes grow: hgkt classes grow.

    Example: hgkt suggest --model photo-model --items photos/new -n 20

    Example: hgkt suggest --model text-model --items texts.csv

    Parameters
    ----------
    n
        How many to choose.
    """
    from hgkt.estimators import load_model
    from hgkt.unknown import suggest

    loaded = load_model(model)
    given = item_rows(loaded, Path(items), weights, str(device))
    found = suggest(loaded, given.features, n)
    names = given.files or ()
    rows = [
        {"item": names[one.row], "label": one.label, "probability": one.probability}
        for one in found
    ]
    document = {"model": model, "n_items": len(names), "items": rows, **given.report()}

    def render() -> None:
        lines = [
            [row["item"], row["label"], f"{100 * float(str(row['probability'])):.0f} %"]
            for row in rows
        ]
        show_table(["item", "seems to be", "probability"], lines)

    emit(document, as_json, render)
