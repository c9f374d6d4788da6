"""`hgkt classes`: the classes of a saved model come, grow, change and go, without retraining."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt.cli._checks import show_checks
from hgkt.cli._class_changes import edit, grow, rename
from hgkt.cli._class_lists import export, import_
from hgkt.cli._inputs import about_model, held, label_of
from hgkt.cli._new_classes import NewClasses, describer_of
from hgkt.cli._options import JsonOption, ModelOption, with_options
from hgkt.cli._output import emit, note, report_change, show_table
from hgkt.cli._registry_folders import pull_command, push_command
from hgkt.cli._registry_log import log_command, prune_command, rollback_command
from hgkt.cli._registry_models import migrate_command, models_command
from hgkt.exceptions import ClassWarning

app = typer.Typer(help="List and change the classes of a model.", no_args_is_help=True)


@app.command("list")
def list_(
    model: ModelOption,
    relatives: Annotated[
        int, typer.Option("--relatives", min=0, help="Show this many classes of like attributes.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show the classes of a model: seen, added by attributes, or added and then grown.

    Example: hgkt classes list --model digits-model --relatives 2
    """
    from hgkt.confidence.samples import GROWN
    from hgkt.estimators import load_model

    loaded = load_model(model)
    columns = loaded.candidates()
    entries: list[dict[str, Any]] = [
        {"name": name, "seen": seen, "grown": group == GROWN}
        for name, seen, group in zip(
            loaded.classes_[columns].tolist(),
            loaded.seen_mask_[columns].tolist(),
            loaded.class_groups()[columns].tolist(),
            strict=True,
        )
    ]
    if relatives:
        for entry, near in zip(entries, _relatives(loaded, columns, relatives), strict=True):
            entry["relatives"] = near

    def render() -> None:
        rows = [[entry["name"], _kind(entry)] for entry in entries]
        for row, entry in zip(rows, entries, strict=True) if relatives else ():
            near = entry["relatives"]
            row.append(", ".join(f"{other['name']} {other['similarity']:.2f}" for other in near))
        show_table(["name", "kind", *(["relatives"] if relatives else [])], rows)

    document = {
        "model": model,
        "n_classes": len(entries),
        "n_seen_classes": len(loaded.seen_classes_),
        "attribute_names": about_model(loaded).get("attribute_names"),
        "accepts_text": describer_of(loaded).accepts_text,
        "classes": entries,
    }
    emit(document, as_json, render)


@app.command()
@with_options
def add(model: ModelOption, wanted: NewClasses, as_json: JsonOption = False) -> None:
    """Add classes by attributes or words, all or none; the model folder is replaced in one step.

    Example: hgkt classes add --model digits-model --from-data digits

    Example: hgkt classes add --model birds --name tanager --text "a red bird with black wings"
    """
    with held(model) as loaded:
        new = wanted.table(loaded)
        with warnings.catch_warnings():  # told as notes beside the result
            warnings.simplefilter("ignore", ClassWarning)
            doubts = loaded.class_doubts(new)
            loaded.add_classes(new).save(model)
    for sentence in doubts:
        note(f"warning: {sentence}")
    report_change("added", list(new), loaded, model, as_json)


@app.command()
@with_options
def check(model: ModelOption, wanted: NewClasses, as_json: JsonOption = False) -> None:
    """Say what would become of classes if they were added, each on its own; nothing is changed.

    Rivals, classes that would lose images, the accuracy to expect, and what would help.

    Example: hgkt classes check --model digits-model --from-data digits

    Example: hgkt classes check --model birds --name tanager --text "a red bird with black wings"
    """
    from hgkt.estimators import load_model

    loaded = load_model(model)
    checks = [loaded.check_class(row, label) for label, row in wanted.table(loaded).items()]
    document = {"model": model, "classes": [found.to_dict() for found in checks]}
    emit(document, as_json, lambda: show_checks(checks))


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
    report_change("removed", labels, loaded, model, as_json)


app.command()(grow)
app.command()(edit)
app.command()(rename)
app.command("import")(import_)
app.command()(export)
app.command("models")(models_command)
app.command("migrate")(migrate_command)
app.command("pull")(pull_command)
app.command("push")(push_command)
app.command("log")(log_command)
app.command("rollback")(rollback_command)
app.command("prune")(prune_command)


def _kind(entry: dict[str, Any]) -> str:
    if entry["grown"]:
        return "grown"
    return "seen" if entry["seen"] else "added"


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
