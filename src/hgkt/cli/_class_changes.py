"""`hgkt classes grow`, `edit` and `rename`: classes of a model folder that change."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt._validation import label_text
from hgkt.cli._inputs import held, label_of, read_features, read_images, show_unreadable
from hgkt.cli._new_classes import NewClasses
from hgkt.cli._options import Device, DeviceOption, JsonOption, ModelOption, with_options
from hgkt.cli._output import note, report_change
from hgkt.exceptions import ClassWarning, DataError


def grow(
    model: ModelOption,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The class; with --images its sub-folders may name several."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            metavar="DIR",
            help="Images of the class, or without --name one sub-folder per class.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option("--features", metavar="FILE", help="Rows of features of the class instead."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="Of images: the backbone's weights, if they were moved."),
    ] = None,
    device: DeviceOption = Device.auto,
    as_json: JsonOption = False,
) -> None:
    """Let classes learn from examples, without retraining; the examples are not kept.

    Example: hgkt classes grow --model birds --name tanager --images photos/tanager

    Example: hgkt classes grow --model digits-model --name six --features rows.npy
    """
    if (images is None) == (features is None):
        raise DataError("say what to learn from: either --images DIR or --features FILE")
    if features is not None and name is None:
        raise DataError("--features holds rows of one class; give its --name")
    with held(model) as loaded:
        if not loaded.can_grow:
            loaded.grow({})  # says which method can
        files = {name: features or images} if name is not None else _sub_folders(images)
        labels = {label_of(loaded, str(text)): path for text, path in files.items()}
        for label in labels:
            if label not in loaded.classes_.tolist():
                raise DataError(
                    f"class {label_text(label)} is unknown to this model; add it with "
                    "`hgkt classes add` before it grows"
                )
        found = {
            label: _rows(Path(str(path)), features is not None, loaded, weights, str(device))
            for label, path in labels.items()
        }
        loaded.grow({label: loaded.example_sums(rows) for label, rows in found.items()})
        loaded.save(model)
    n_examples = {label: len(rows) for label, rows in found.items()}
    total = sum(n_examples.values())
    noun = "example" if total == 1 else "examples"
    report_change(
        "grown", list(found), loaded, model, as_json, {"n_examples": n_examples},
        f" by {total} {noun}",
    )  # fmt: skip


def _sub_folders(folder: Path | None) -> dict[str, Path]:
    """Return the folders in a folder, by name: one per class."""
    if folder is None or not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the --name of the class")
    found = {path.name: path for path in sorted(folder.iterdir()) if path.is_dir()}
    if not found:
        raise DataError(f"{folder} has no sub-folder per class; give the --name of the class")
    return found


def _rows(path: Path, are_features: bool, model: Any, weights: Path | None, device: str) -> Any:
    """Return the feature rows (n, D) of a file of features or of images."""
    if are_features:
        return read_features(path, model.n_features_in_)
    given = read_images([path], model, weights, device)
    show_unreadable(given)
    if not len(given.features):
        raise DataError(f"none of the images in {path} can be read")
    return given.features


@with_options
def edit(model: ModelOption, wanted: NewClasses, as_json: JsonOption = False) -> None:
    """Give classes that were added other attributes, all or none; what they learned stays.

    Example: hgkt classes edit --model birds --name tanager --text "a red bird with black wings"
    """
    with held(model) as loaded, warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ClassWarning)
        new = wanted.table(loaded)
        loaded.edit_classes(new).save(model)
    for doubt in doubts:
        note(f"warning: {doubt.message}")
    report_change("edited", list(new), loaded, model, as_json)


def rename(
    old: Annotated[str, typer.Argument(help="The class.")],
    new: Annotated[str, typer.Argument(help="Its new name, which must be free.")],
    model: ModelOption,
    as_json: JsonOption = False,
) -> None:
    """Give a class another name; any class may be renamed.

    Example: hgkt classes rename six half-dozen --model digits-model
    """
    with held(model) as loaded:
        labels = {label_of(loaded, old): label_of(loaded, new)}
        loaded.rename_classes(labels).save(model)
    report_change("renamed", [f"{old} to {new}"], loaded, model, as_json)
