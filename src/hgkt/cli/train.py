"""`hgkt train`: fit a method on a data set or on photographs, and save the model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hgkt._plain import short
from hgkt.cli._carry import Carried, carry_classes, check_replaced
from hgkt.cli._common import JsonOption, emit, note, say
from hgkt.cli._gathering import GatherOptions, gathered_run
from hgkt.cli._options import with_options
from hgkt.cli._photos import PhotoOptions
from hgkt.cli._training import TrainingRun, training_files
from hgkt.cli.methods import FitOptions

_SHOWN = 5


@with_options
def train_command(
    context: typer.Context,
    out_path: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write.")],
    photos: PhotoOptions,
    options: FitOptions,
    gathering: GatherOptions,
    with_unseen: Annotated[
        bool,
        typer.Option("--with-unseen", help="Add unseen classes that have test rows, too."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is there.")
    ] = False,
    carry: Annotated[
        bool,
        typer.Option(
            "--carry-classes", help="Replace it, and keep the classes that were added to it."
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            help="Shards: folder of their sums, to resume from and to keep. Network: file.",
            show_default="network: MODEL.checkpoint, deleted once the model is saved",
        ),
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", help="Network: folder for TensorBoard.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a method on the train split of a data set, or on photos, and save the model folder.

    Classes without rows or photos are added by their description. An interrupted extraction of
    photos, or training of the network, goes on with the same command. A folder of shards (many
    Parquet files, .npy pairs) of any size is read once and never held in memory; with --checkpoint
    that goes on, too.

    Example: hgkt train --images photos --classes classes.csv --out photo-model

    Example: hgkt train --data digits --select --with-unseen --out digits-model

    Example: hgkt train --data shards --checkpoint sums --select --out big-model
    """
    from hgkt.estimators.model_folder import saved_name

    start = time.perf_counter()
    photos.check(context)
    estimator = options.estimator()
    method = saved_name(estimator)  # one that cannot be saved is refused before it is trained
    gathered = None
    if photos.images is None:
        gathered = gathered_run(options, gathering, photos.workers, checkpoint, estimator)
    own = checkpoint if gathered is None or gathered.checkpoint is None else None
    files = training_files(estimator, out_path, own, tensorboard)
    old = check_replaced(out_path, overwrite, carry)
    run = TrainingRun(photos, options, files, photos.cache_beside(out_path), gathered)
    try:
        data, fitted = run.train()
    except KeyboardInterrupt:
        note(f"interrupted; {run.kept()}")
        raise typer.Exit(130) from None
    model, about = fitted.model, data.about
    model.add_classes(data.unseen if with_unseen else data.described)
    carried = Carried() if old is None else carry_classes(old, model, about, out_path)
    found = {"chosen": fitted.chosen, "validation": fitted.validation}
    model.save(out_path, **about, selected=fitted.selected, **found)
    run.clear(keep_checkpoint=checkpoint is not None)
    document = {
        "model": out_path,
        "data": data.name,
        "n_instances": data.n_instances,
        "n_seen_classes": len(model.seen_classes_),
        "n_added_classes": len(model.unseen_classes_),
        "described": list(data.described),
        "carried": carried.names,
        "not_carried": carried.left,
        **found,
        "gamma": model.gamma_,
        "parameters": model.get_params(deep=False),
        "method": method,
        "preset": options.preset,
        "seed": options.seed,
        "resumed": run.resumed,
        **run.photo_report(),
        **run.shard_report(),
        "seconds": time.perf_counter() - start,
    }
    emit(document, as_json, lambda: _render(document, carried))


def _render(document: dict[str, Any], carried: Carried) -> None:
    described, validation = document["described"], document["validation"]
    rows = "photos" if "backbone" in document else "instances"
    added = document["n_added_classes"]
    say(
        f"{document['method']} on {document['data']}: {document['n_instances']} {rows} "
        f"of {_classes(document['n_seen_classes'])}"
        + (f", {_classes(added)} added" if added else "")
        + f", {document['seconds']:.1f} s"
    )
    if "gathered" in document:
        say(_render_shards(document["gathered"]))
    if described:
        say(f"known by description alone: {_listed(described)}")
    if validation is not None:
        values = {n: value for n, value in document["chosen"].items() if n != "calibration"}
        if "calibration" in document["chosen"]:
            values["γ"] = document["gamma"]
        chosen = ", ".join(f"{name}={short(value)}" for name, value in values.items())
        say(
            f"chosen on {validation['n_folds']} {validation['folds']} class folds "
            f"({validation['metric']} {validation['score']:.1f}): {chosen}"
        )
    if rows == "photos":
        _render_photos(document)
    if carried.names:
        say(f"carried over from the old model: {_listed(carried.names)}")
    if carried.left:
        say(f"not carried over: {_listed(carried.left)}, since {carried.reason}")
    say(f"saved to {document['model']}")


def _render_shards(gathered: dict[str, Any]) -> str:
    count = gathered["n_shards"]
    shards = "1 shard" if count == 1 else f"{count} shards"
    kept = f"; the sums are in {gathered['checkpoint']}" if gathered["checkpoint"] else ""
    rows = f"; {gathered['n_rows_kept']} rows kept to choose on" if gathered["n_rows_kept"] else ""
    return f"read in {shards}{rows}{kept}"


def _render_photos(document: dict[str, Any]) -> None:
    if document["attribute_names"]:
        say(f"classes are told by the numbers {_listed(document['attribute_names'])}")
    if document["validation"] is None:
        say("too few classes with two photos to choose settings on: the defaults are used")
    if document["n_cut"]:
        say(f"{document['n_cut']} descriptions are longer than the encoder reads and were cut")
    if document["unreadable"]:
        n_bad = len(document["unreadable"])
        bad = (
            "1 photo could not be read and was"
            if n_bad == 1
            else f"{n_bad} photos could not be read and were"
        )
        say(f"{bad} left out:")
        say(*(f"  {entry['reason']}" for entry in document["unreadable"][:_SHOWN]))


def _classes(count: int) -> str:
    return f"{count} class" if count == 1 else f"{count} classes"


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(str, names[:_SHOWN])) + more
