"""`hgkt extract`: features of images, as a folder that `hgkt train --data` takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.cli._options import Device, DeviceOption, JsonOption, with_options
from hgkt.cli._output import emit, note, progress_bar, say, unreadable_document, unreadable_lines

if TYPE_CHECKING:
    from hgkt.vision.output import ExtractedFolder


@with_options
def extract_command(
    images: Annotated[Path, typer.Argument()],
    out_path: Annotated[Path, typer.Option("--out")],
    backbone: str = "efficientnet-lite0",
    manifest: Path | None = None,
    classes: Path | None = None,
    unseen: list[str] | None = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 32,
    workers: Annotated[int, typer.Option(min=0)] = 0,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Extract the features of images, as a data set.

    Interrupted, the same command goes on where it was.

    Example: hgkt extract photos --classes classes.csv --out photos-lite0

    Parameters
    ----------
    images
        Folder with one sub-folder per class, or a manifest: .csv, .parquet.
    out_path : OUT
        Folder to write.
    backbone : NAME
        efficientnet-lite0 … 4, or a hub name or folder of transformers.
    manifest
        Table of file, class, split; files are inside IMAGES.
    classes : FILE
        Class attributes: .parquet or .csv.
    unseen : CLASS
        A class to test on only; repeatable.
    batch_size
        Images a pass.
    workers
        Threads that decode; 0: none of their own.
    """
    from hgkt.vision.output import extract_folder, partial_folder

    partial = partial_folder(out_path)
    if partial.is_dir():
        note(f"resuming: rows that {partial} has are not extracted again")
    try:
        with progress_bar() as bar:
            found = extract_folder(
                images,
                out_path,
                backbone=backbone,
                manifest=manifest,
                classes=classes,
                unseen=unseen or (),
                batch_size=batch_size,
                workers=workers,
                device=str(device),
                progress=bar,
            )
    except KeyboardInterrupt:
        note(f"interrupted; {partial} holds the state: run the same command again to resume")
        raise typer.Exit(130) from None
    document = _document(found)
    emit(document, as_json, lambda: _render(document))


def _document(made: ExtractedFolder) -> dict[str, Any]:
    found = made.extraction
    n_extracted = len(found.entries) - found.n_resumed
    return {
        "out": made.path,
        "backbone": made.record,
        "n_images": len(found.entries) + len(found.unreadable),
        "n_rows": len(found.entries),
        "n_classes": len({entry.label for entry in found.entries}),
        "n_features": found.n_features,
        "n_resumed": found.n_resumed,
        "n_unreadable": len(found.unreadable),
        "unreadable": unreadable_document([(e.id, reason) for e, reason in found.unreadable]),
        "seconds": found.seconds,
        "images_per_second": n_extracted / found.seconds if n_extracted else None,
        "needed": made.needed,
        "passed_over": made.passed_over,
    }


def _render(document: dict[str, Any]) -> None:
    from hgkt.vision.listing import passed_over_text

    rate = document["images_per_second"]
    lines = [
        f"{document['n_rows']} images of {document['n_classes']} classes, "
        f"{document['n_features']} features each"
        + (f", {document['n_resumed']} of them from before" if document["n_resumed"] else "")
        + (f", {rate:.1f} images/s" if rate else "")
    ]
    lines += unreadable_lines(document["unreadable"], "image", " (unreadable.csv)")
    if document["passed_over"]:
        lines.append(passed_over_text(document["passed_over"]))
    lines.append(f"wrote {document['out']}")
    if document["needed"]:
        lines.append(f"still needed: {document['needed']}")
    say(*lines)
