"""`hgkt extract`: features of images, as a folder that `hgkt train --data` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt.cli._options import Device, with_options
from hgkt.cli._output import emit, note, progress_bar, say, unreadable_document, unreadable_lines


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
    device: Device = "auto",
    as_json: bool = False,
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
            made = extract_folder(
                images,
                out_path,
                backbone=backbone,
                manifest=manifest,
                classes=classes,
                unseen=unseen or (),
                batch_size=batch_size,
                workers=workers,
                device=device,
                progress=bar,
            )
    except KeyboardInterrupt:
        note(f"interrupted; {partial} holds the state: run the same command again to resume")
        raise typer.Exit(130) from None
    done = made.extraction
    n_extracted = len(done.entries) - done.n_resumed
    document = {
        "out": made.path,
        "backbone": made.record,
        "n_images": len(done.entries) + len(done.unreadable),
        "n_rows": len(done.entries),
        "n_classes": len({entry.label for entry in done.entries}),
        "n_features": done.n_features,
        "n_resumed": done.n_resumed,
        "n_unreadable": len(done.unreadable),
        "unreadable": unreadable_document([(e.id, reason) for e, reason in done.unreadable]),
        "seconds": done.seconds,
        "images_per_second": n_extracted / done.seconds if n_extracted else None,
        "needed": made.needed,
        "passed_over": made.passed_over,
    }
    emit(document, as_json, lambda: say(*_lines(document)))


def _lines(document: dict[str, Any]) -> list[str]:
    """Return what is said of an extraction."""
    from hgkt.vision.listing import passed_over_text

    n_resumed, rate = document["n_resumed"], document["images_per_second"]
    lines = [
        f"{document['n_rows']} images of {document['n_classes']} classes, "
        f"{document['n_features']} features each"
        + (f", {n_resumed} of them from before" if n_resumed else "")
        + (f", {rate:.1f} images/s" if rate else "")
    ]
    lines += unreadable_lines(document["unreadable"], "image", " (unreadable.csv)")
    if document["passed_over"]:
        lines.append(passed_over_text(document["passed_over"]))
    lines.append(f"wrote {document['out']}")
    return lines + ([f"still needed: {document['needed']}"] if document["needed"] else [])
