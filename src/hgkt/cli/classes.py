"""`hgkt classes`: list, add and remove the classes of a saved model, without retraining."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt.cli._common import JsonOption, RootOption, emit, note, say, show_table
from hgkt.cli._inputs import read_pairs, read_vector
from hgkt.cli._model import ModelOption, about_model, held, label_of, load_matching
from hgkt.exceptions import ClassWarning, DataError

if TYPE_CHECKING:
    from hgkt.language import Describer

app = typer.Typer(help="List, add and remove the classes of a model.", no_args_is_help=True)


@app.command("list")
def list_(
    model: ModelOption,
    relatives: Annotated[
        int, typer.Option("--relatives", min=0, help="Show this many classes of like attributes.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show the classes of a model: learned from instances, or added by attributes.

    Example: hgkt classes list --model digits-model --relatives 2
    """
    from hgkt.estimators import load_model

    loaded = load_model(model)
    columns = loaded.candidates()
    entries: list[dict[str, Any]] = [
        {"name": name, "seen": seen}
        for name, seen in zip(
            loaded.classes_[columns].tolist(), loaded.seen_mask_[columns].tolist(), strict=True
        )
    ]
    if relatives:
        for entry, near in zip(entries, _relatives(loaded, columns, relatives), strict=True):
            entry["relatives"] = near

    def render() -> None:
        rows = [[entry["name"], "seen" if entry["seen"] else "added"] for entry in entries]
        for row, entry in zip(rows, entries, strict=True) if relatives else ():
            near = entry["relatives"]
            row.append(", ".join(f"{other['name']} {other['similarity']:.2f}" for other in near))
        show_table(["name", "kind", *(["relatives"] if relatives else [])], rows)

    document = {
        "model": model,
        "n_classes": len(entries),
        "n_seen_classes": len(loaded.seen_classes_),
        "attribute_names": about_model(loaded).get("attribute_names"),
        "accepts_text": _describer(loaded).accepts_text,
        "classes": entries,
    }
    emit(document, as_json, render)


@app.command()
def add(
    model: ModelOption,
    name: Annotated[str | None, typer.Option("--name", help="Name of one new class.")] = None,
    attributes: Annotated[
        str | None,
        typer.Option("--attributes", help='Its attributes: "0.1,0.2,…", or @FILE that holds them.'),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=VALUE",
            help="One of its attributes by name; repeatable, others are 0.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            help="What it looks like, for a model trained on text; of several the mean is taken.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Many: .csv or .parquet with name and attribute columns."),
    ] = None,
    from_data: Annotated[
        str | None, typer.Option("--from-data", help="All unseen classes of a data set.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add classes by attributes or words, all or none; the model folder is replaced in one step.

    Example: hgkt classes add --model digits-model --from-data digits

    Example: hgkt classes add --model birds --name tanager --text "a red bird with black wings"
    """
    from hgkt.language import ClassDescription

    if sum(value is not None for value in (name, file, from_data)) != 1:
        raise DataError("say what to add: one of --name, --file or --from-data")
    if name is None and (attributes is not None or attribute or text):
        raise DataError("--attributes, --attribute and --text describe one class; give its --name")
    vector = None if attributes is None else read_vector(attributes)
    named = read_pairs(attribute) if attribute else None
    with held(model) as loaded:
        describer = _describer(loaded)
        if name is not None:
            if vector is named is None and not text and not describer.accepts_text:
                raise DataError(
                    "--name needs its attributes: either --attributes, or --attribute options"
                )
            description = ClassDescription(name, vector, named, text or None)
            table = {name: describer.vectors([description])[0]}
        elif file is not None:
            table = _from_file(file, describer)
        else:
            table = _from_data(loaded, describer, str(from_data), root)
        new = {label_of(loaded, key): row for key, row in table.items()}
        with warnings.catch_warnings():  # told as notes beside the result
            warnings.simplefilter("ignore", ClassWarning)
            doubts = loaded.class_doubts(new)
            loaded.add_classes(new).save(model)
    for sentence in doubts:
        note(f"warning: {sentence}")
    _report("added", list(new), loaded, model, as_json)


@app.command()
def remove(
    names: Annotated[list[str], typer.Argument(help="Added classes to remove.")],
    model: ModelOption,
    as_json: JsonOption = False,
) -> None:
    """Remove classes that were added, all or none.

    Example: hgkt classes remove six --model digits-model
    """
    with held(model) as loaded:
        labels = [label_of(loaded, name) for name in names]
        loaded.remove_classes(labels).save(model)
    _report("removed", labels, loaded, model, as_json)


def _describer(model: Any) -> Describer:
    from hgkt.language import Describer

    return Describer(about_model(model), model.class_attributes_.shape[1])


def _from_file(path: Path, describer: Describer) -> dict[str, NDArray[np.float64]]:
    """Read classes from a table: ``name`` and attribute columns, or a list column ``attributes``.

    Columns named as the model's attributes may come in any order; other columns are left out.
    Vectors that were made in another way than the model's are refused.
    """
    from hgkt.data import read_attribute_file

    file = read_attribute_file(path, describer.attribute_names)
    describer.check_made_with(str(path), file.encoder, file.blocks, file.kinds)
    return dict(zip(file.names, file.attributes.astype(np.float64), strict=True))


def _from_data(
    model: Any, describer: Describer, name: str, root: Path | None
) -> dict[str, NDArray[np.float64]]:
    """Return the vectors of a data set's unseen classes, made as the model's were."""
    dataset = load_matching(model, name, root, with_attributes=True)
    about, width = dataset.about, dataset.class_attributes.shape[1]
    if "encoder" in about or describer.accepts_text:
        blocks = about.get("attribute_blocks") or [width]
        kinds = about.get("attribute_kinds") or ["att"] * len(blocks)
        where = f"data set {dataset.name!r}"
        describer.check_made_with(where, about.get("encoder"), blocks, kinds)
    # Classes without rows came with the training.
    there = set(model.classes_.tolist()) & set(dataset.names(dataset.described_classes))
    table = dataset.attributes_of(dataset.unseen_classes)
    return {name: row for name, row in table.items() if name not in there}


def _report(verb: str, names: list[Any], model: Any, path: Path, as_json: bool) -> None:
    count = len(model.classes_)
    shown = ", ".join(map(str, names[:5])) + ("…" if len(names) > 5 else "")
    noun = "class" if len(names) == 1 else "classes"
    sentence = f"{verb} {len(names)} {noun} ({shown}); {path} has {count} classes now"
    emit({verb: names, "n_classes": count, "model": path}, as_json, lambda: say(sentence))


def _relatives(model: Any, columns: NDArray[np.intp], k: int) -> list[list[dict[str, Any]]]:
    """For each class of `columns` the others with the highest cosine of attribute vectors."""
    unit = unit_rows(model.class_attributes_[columns])
    labels = model.classes_[columns].tolist()
    found = []
    for own, row in enumerate(unit):
        similarities = unit @ row
        order = [c for c in np.argsort(-similarities, kind="stable") if c != own][:k]
        found.append([{"name": labels[c], "similarity": float(similarities[c])} for c in order])
    return found
