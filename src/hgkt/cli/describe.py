"""`hgkt describe`: class names and descriptions to a file of class attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt.cli._options import Device, with_options
from hgkt.cli._output import check_suffix, emit, note, progress_bar, say


@with_options
def describe_command(
    classes: Annotated[Path, typer.Argument()],
    out_file: Annotated[Path, typer.Option("--out")],
    encoder: str = "minilm",
    template: list[str] | None = None,
    words: bool = True,
    with_attributes: Path | None = None,
    device: Device = "cpu",
    as_json: bool = False,
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
        "attribute_blocks": list(described.file.blocks),
        "attribute_kinds": list(described.file.kinds),
        "first_sentence": described.sentences[0],
        "encoder": described.file.encoder,
    }
    lines = (
        f"{document['n_classes']} classes, {document['n_sentences']} sentences such as "
        f"“{document['first_sentence']}”",
        f"wrote {' + '.join(map(str, described.file.blocks))} numbers per class to {out_file}",
    )
    emit(document, as_json, lambda: say(*lines))
