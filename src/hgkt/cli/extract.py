"""`hgkt extract` and `hgkt describe`: images to features, words to class attributes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt.cli._options import Device, with_options
from hgkt.cli._output import check_suffix, emit, left_out, left_out_lines, note, progress_bar


@dataclass(frozen=True)
class ExtractionOptions:
    """How images become features: what `extract_folder` takes, each under its name there.

    Parameters
    ----------
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

    backbone: str = "efficientnet-lite0"
    manifest: Path | None = None
    classes: Path | None = None
    unseen: list[str] | None = None
    batch_size: Annotated[int, typer.Option(min=1)] = 32
    workers: Annotated[int, typer.Option(min=0)] = 0
    device: Device = "auto"


@with_options
def extract_command(
    images: Annotated[Path, typer.Argument()],
    out_path: Annotated[Path, typer.Option("--out")],
    options: ExtractionOptions,
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
    """
    from hgkt.vision.output import extract_folder, partial_folder

    partial = partial_folder(out_path)
    if partial.is_dir():
        note(f"resuming: rows that {partial} has are not extracted again")
    try:
        with progress_bar() as bar:
            asked = vars(options) | {"unseen": options.unseen or ()}
            made = extract_folder(images, out_path, **asked, progress=bar)
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
        "unreadable": left_out([(e.id, reason) for e, reason in done.unreadable]),
        "seconds": done.seconds,
        "images_per_second": n_extracted / done.seconds if n_extracted else None,
        "needed": made.needed,
        "passed_over": made.passed_over,
    }
    emit(document, *_lines(document))


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
    lines += left_out_lines(document["unreadable"], "image", " (unreadable.csv)")
    if document["passed_over"]:
        lines.append(passed_over_text(document["passed_over"]))
    lines.append(f"wrote {document['out']}")
    return lines + ([f"still needed: {document['needed']}"] if document["needed"] else [])


@with_options
def describe_command(
    classes: Annotated[Path, typer.Argument()],
    out_file: Annotated[Path, typer.Option("--out")],
    encoder: str = "minilm",
    template: list[str] | None = None,
    words: bool = True,
    with_attributes: Path | None = None,
    device: Device = "cpu",
) -> None:
    """Encode class names and descriptions.

    The file goes to `train --classes`, to --attributes of any command, or `classes add --file`.

    Example: hgkt describe classes.csv --out names.parquet

    Parameters
    ----------
    classes
        Table with name and, optionally, description: .csv, .parquet.
    out_file : FILE
        Class attributes to write: .parquet.
    encoder : NAME
        minilm, a folder (of sentence-transformers, CLIP or SigLIP), or a hub name.
    template : TEXT, default photo
        How name and description become a sentence: photo (“a photo of a {name}.
        {description}”), text (“{name}. {description}”), or one of your own; of several the mean
        is taken.
    words
        Write names as words first: "001.Sooty_Tern" is "sooty tern".
    with_attributes : FILE
        Put the numeric attributes of a table in front; it may be the same table.
    """
    from hgkt._arrays import torch_device
    from hgkt.data import write_attribute_file
    from hgkt.language import describe_classes, load_encoder, read_class_list

    check_suffix(out_file, ".parquet")
    listed = read_class_list(classes, with_attributes)
    loaded = load_encoder(encoder, torch_device(device), template or "photo", words)
    with progress_bar() as bar:
        described = describe_classes(listed, loaded, bar)
    write_attribute_file(out_file, described.file, described.descriptions, listed.seen)
    if described.n_cut:
        note(
            f"{described.n_cut} of {len(described.sentences)} sentences are longer than the "
            "encoder reads; what goes beyond was left out"
        )
    document: dict[str, Any] = {
        "out": out_file,
        "n_classes": len(described.file.names),
        "n_sentences": len(described.sentences),
        "n_cut": described.n_cut,
        "attribute_blocks": described.file.blocks,
        "attribute_kinds": described.file.kinds,
        "first_sentence": described.sentences[0],
        "encoder": described.file.encoder,
    }
    sentences = f"{document['n_sentences']} sentences such as “{document['first_sentence']}”"
    numbers = " + ".join(map(str, described.file.blocks))
    emit(
        document,
        f"{document['n_classes']} classes, {sentences}",
        f"wrote {numbers} numbers per class to {out_file}",
    )
