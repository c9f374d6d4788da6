"""`hgkt classes pull` and `push`: classes from a registry into a model folder, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hgkt.cli._inputs import held
from hgkt.cli._options import JsonOption, ModelOption, with_options
from hgkt.cli._output import emit, note, say
from hgkt.cli._registry_options import DatabaseOptions, ReasonOption, load, registry_of, served
from hgkt.cli._registry_places import own_origin
from hgkt.exceptions import DataError, ModelFolderError


@with_options
def pull_command(
    model: ModelOption,
    registry: DatabaseOptions,
    out_path: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="New model folder to write.")
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the model folder itself.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the classes of a registry, with what they have grown by, into a model folder.

    Example: hgkt classes pull --model digits-model --out digits-with-classes
    """
    if (out_path is None) == (not in_place):
        raise DataError("say where to write the model: --out FOLDER or --in-place")
    url = registry.address(model)
    target = model if out_path is None else out_path
    if out_path is not None and out_path.exists():
        raise ModelFolderError(f"{out_path} is there already; give a folder that is not")
    from hgkt.serving.editions import Edition
    from hgkt.serving.identity import model_identity

    with registry_of(url, model) as source:
        state = source.state()
    with held(model) as loaded:
        edition = Edition.load(loaded, state)
        edition.model.save(target)
    same = model_identity(edition.model) == source.model_id
    document = {
        "model": target,
        "revision": state.revision,
        "n_classes": len(edition.names),
        "n_added_classes": edition.n_added,
        "n_examples": sum(edition.n_examples.values()),
        "identity": model_identity(edition.model),
        "same_identity": same,
    }

    def render() -> None:
        grown = f", {len(edition.n_examples)} of them grown" if edition.n_examples else ""
        say(
            f"{target} has {len(edition.names)} classes now, {edition.n_added} of them added"
            f"{grown}; the registry is at revision {state.revision}"
        )

    emit(document, as_json, render)
    if not same:
        note(
            "what has grown makes it another model: it has everything in its folder, and no "
            "classes in the registry"
        )


@with_options
def push_command(
    model: ModelOption,
    registry: DatabaseOptions,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Give classes of the registry the folder's attributes."),
    ] = False,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the classes that were added to a model folder into the registry of the model.

    Services that have the model without them, in folders of their own, take them in.

    Example: hgkt classes push --model digits-model --database sqlite:///classes.sqlite
    """
    url = registry.address(model, new=True)
    from hgkt.serving.folder_classes import push_classes

    loaded = load(model)
    with served(url, loaded) as store:
        origin = own_origin(reason or f"pushed from {model.resolve().name}")
        pushed = push_classes(store.registry, loaded, replace, origin)
    names = [*pushed.added, *pushed.replaced]
    sentence = (
        f"{len(pushed.added)} classes added and {len(pushed.replaced)} replaced; "
        f"{len(pushed.same)} were there already"
    )
    document = {
        "added": list(pushed.added),
        "replaced": list(pushed.replaced),
        "there": list(pushed.same),
        "revision": pushed.revision,
    }
    emit(document, as_json, lambda: say(sentence + (f" ({', '.join(names[:5])})" if names else "")))
