"""`hgkt classes log`, `rollback` and `prune`: the history of a registry, and the way back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hgkt.cli._options import JsonOption, with_options
from hgkt.cli._output import emit, say, show_table
from hgkt.cli._registry_options import ReasonOption
from hgkt.cli._registry_places import HistoryOptions


@with_options
def log_command(
    place: HistoryOptions,
    name: Annotated[
        str | None, typer.Option("--name", help="Only a class that has or had this name.")
    ] = None,
    after: Annotated[
        int, typer.Option("--after", min=0, help="Only what came after this revision.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Most lines.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show what was changed in a registry, by whom and why, in order.

    Example: hgkt classes log --model digits-model

    Example: hgkt classes log --server http://localhost:8000 --name okapi
    """
    with place.opened() as history:
        document = history.events(after, limit, name)

    def render() -> None:
        rows = [
            [
                line["revision"],
                line["created_at"][:19].replace("T", " "),
                _what(line),
                line["who"] or "",
                line["reason"] or "",
            ]
            for line in document["events"]
        ]
        show_table(["revision", "when (UTC)", "what", "who", "why"], rows)
        revision, oldest = document["revision"], document["oldest"]
        say(f"the registry is at revision {revision}; {oldest} is the oldest to go back to")

    emit(document, as_json, render)


@with_options
def rollback_command(
    revision: Annotated[int, typer.Argument(min=0, help="The revision to go back to.")],
    place: HistoryOptions,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the classes of a registry what they were right after a change; a change of its own.

    Example: hgkt classes rollback 3 --model digits-model --reason "the descriptions were wrong"
    """
    with place.opened() as history:
        document = history.rollback(revision, reason)
    sentence = f"the classes are those of revision {revision} again; this is revision "
    emit(document, as_json, lambda: say(sentence + str(document["revision"])))


@with_options
def prune_command(
    revision: Annotated[
        int, typer.Argument(min=0, help="The oldest revision to go back to afterwards.")
    ],
    place: HistoryOptions,
    as_json: JsonOption = False,
) -> None:
    """Have the log of a registry begin with the classes of a revision; no class changes.

    Example: hgkt classes prune 100 --model digits-model
    """
    with place.opened() as history:
        document = history.prune(revision)
    sentence = f"{document['n_removed']} lines went; the log begins at revision "
    emit(document, as_json, lambda: say(sentence + str(document["oldest"])))


def _what(line: dict[str, Any]) -> str:
    """Return in words what a line says."""
    before, after = line["before"], line["after"]
    name = (after or before or {"name": ""})["name"]
    if line["kind"] == "rename" and before and after:
        return f"rename {before['name']} to {after['name']}"
    if line["kind"] == "grow" and before and after:
        return f"grow {name} by {after['n_examples'] - before['n_examples']} examples"
    if line["kind"] == "rollback" and not name:
        return f"rollback to {line['target']}"
    return f"{line['kind']} {name}"
