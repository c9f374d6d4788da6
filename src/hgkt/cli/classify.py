"""`hgkt classify`: what is in photographs, by a model that was trained on images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt.cli._inputs import candidate_names, read_images, show_unreadable
from hgkt.cli._options import (
    AmongOption,
    Device,
    DeviceOption,
    JsonOption,
    ModelOption,
    TopOption,
    WeightsOption,
)
from hgkt.cli._output import emit, say

_SOURCES = {True: "photos", False: "description"}


def classify_command(
    photos: Annotated[list[Path], typer.Argument(help="Images, and folders of images.")],
    model: ModelOption,
    top: TopOption = 1,
    among: AmongOption = "all",
    weights: WeightsOption = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Name what is in photos.

    The answer says whether a class was learned from photos or is known by description.

    Example: hgkt classify new.jpg more/ --model photo-model --top 3
    """
    from hgkt.estimators import load_model
    from hgkt.items import ImageClassifier

    classifier = load_model(model)
    names = candidate_names(classifier, among)
    classifier.candidates(names)  # wrong names are told before photos are read
    given = read_images(photos, classifier, weights, str(device))
    show_unreadable(given)
    found = ImageClassifier(classifier).rank_features(given.features, top, names)
    rows = [
        {"file": file, **vars(best[0]), **({"top": [*map(vars, best)]} if top > 1 else {})}
        for file, best in zip(given.files or (), found, strict=True)
    ]
    document: dict[str, Any] = {
        "model": model,
        "among": among,
        "n_photos": len(rows),
        "photos": rows,
        **given.report(),
    }
    emit(document, as_json, lambda: _render(rows))


def _render(rows: list[dict[str, Any]]) -> None:
    lines = [("photo", "class", "score", "known by")]
    for row in rows:
        for rank, guess in enumerate(row.get("top", [row])):
            file = row["file"] if rank == 0 else ""
            source = _SOURCES[guess["seen"]]
            lines.append((file, str(guess["label"]), f"{guess['score']:.4f}", source))
    # No table of rich's: it would cut the names of files to the width of the terminal.
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say("  ".join(cells).rstrip())
