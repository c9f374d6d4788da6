"""The commands of `hgkt classes` that work on a class registry, in a database or behind a service.

`models`, `migrate`, `pull`, `push`, `log` and `rollback`.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._validation import import_extra
from hgkt.cli._inputs import held, load_model
from hgkt.cli._options import JsonOption, ModelOption, with_options
from hgkt.cli._output import classes_text, emit, listed, note, say, show_table
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.serving.events import Origin
    from hgkt.serving.live_model import ServedModel
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.transfer import Transfer

_SHOWN = 12

ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why, in words; it is kept in the log.")
]


@dataclass
class DatabaseOptions:
    """The options that name the database of a class registry.

    Parameters
    ----------
    database_file
        File that holds the address of the class registry, and with it the password.
    """

    database: Annotated[
        str | None,
        typer.Option(
            envvar="HGKT_DATABASE",
            help="Class registry: sqlite:///FILE or postgresql://… [default: "
            "MODEL.registry.sqlite]",
            show_default=False,
        ),
    ] = None
    database_file: Path | None = None

    @property
    def given(self) -> str | None:
        """The address that was given, if one was."""
        from hgkt.serving.settings import read_database_url

        return (
            self.database if self.database_file is None else read_database_url(self.database_file)
        )

    def address(self, model: Path | None = None, new: bool = False) -> str:
        """Return the address of the registry, by default of the one beside a model folder.

        Parameters
        ----------
        model : Path, optional
            The model folder.
        new : bool
            Whether the registry may be one that is not there yet.
        """
        import_extra("sqlalchemy", "serve")
        from hgkt.serving.settings import default_database

        url = self.given
        if url is None:
            if model is None:
                raise DataError("say which class registry: --database or --database-file")
            url = default_database(model)
        if not new:
            _refuse_missing(url)
        return url


def _refuse_missing(url: str) -> None:
    """Refuse a SQLite file that is not there, which opening would make."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        return  # opening it says what is wrong
    file = (found.database or "").removeprefix("file:")
    if found.get_backend_name() == "sqlite" and file and not Path(file).is_file():
        raise DataError(f"there is no class registry {file}")


@contextmanager
def registry_of(url: str, loaded: Any, known: bool = True) -> Iterator[ClassRegistry]:
    """Open the registry of a model; refuse one that the database does not know, where it must."""
    from hgkt.serving.edition import model_identity
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.transfer import find_model

    identity = model_identity(loaded)
    with ClassRegistry(url, identity) as registry:
        if known:
            find_model(registry, identity)
        yield registry


@contextmanager
def served(url: str, loaded: Any) -> Iterator[ServedModel]:
    """Open a model with its classes in a registry; nothing listens, nothing is written yet."""
    from hgkt.serving.live_model import ServedModel

    with registry_of(url, loaded, known=False) as registry:
        yield ServedModel(loaded, registry)


def own_origin(reason: str | None) -> Origin:
    """Return who works on a database here, and why."""
    from hgkt.serving.events import Origin

    try:
        who: str | None = getpass.getuser()[:32]
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        who = None
    return Origin(who, reason)


# ---------------------------------------------------------------------- history
@dataclass
class HistoryOptions(DatabaseOptions):
    """The options that name a history: a model with its database, or a service.

    Parameters
    ----------
    model
        Model folder, as `hgkt train` writes it.
    server : URL
        A service that runs, instead of --model.
    api_key_file
        File that holds a key of the service.
    """

    model: Path | None = None
    server: str | None = None
    api_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        if (self.server is None) == (self.model is None):
            raise DataError("say whose history: --model FOLDER, or --server URL")

    def events(self, after: int, limit: int, name: str | None) -> dict[str, Any]:
        """Return lines of the log, as ``GET /v1/events`` has them."""
        if self.model is None:
            with self._client() as client:
                lines = [vars(line) for line in islice(client.events(after, name), limit)]
                return {"revision": client.model()["revision"], "events": lines}
        url = self.address(self.model)
        from hgkt.serving.routes.history import EventLine

        with registry_of(url, load_model(self.model)) as registry:
            found = registry.events(after, limit, name)
            return {
                "revision": registry.revision(),
                "events": [EventLine.of(event).model_dump() for event in found],
            }

    def rollback(self, revision: int, reason: str | None) -> dict[str, Any]:
        """Go back to a revision, where its classes still fit the model."""
        if self.model is None:
            with self._client() as client:
                change = client.rollback(revision, reason=reason)
            newest, n_classes = change.revision, change.n_classes
        else:
            with served(self.address(self.model), load_model(self.model)) as model:
                edition = model.rollback(revision, origin=own_origin(reason))
            newest, n_classes = edition.revision, len(edition.names)
        return {"revision": newest, "target": revision, "n_classes": n_classes}

    def _client(self) -> Any:
        from hgkt.client import Client

        assert self.server is not None
        if self.api_key_file is None:
            return Client(self.server)
        from hgkt.serving.settings import read_api_keys

        return Client(self.server, read_api_keys(self.api_key_file)[0])


@with_options
def log_command(
    place: HistoryOptions,
    name: str | None = None,
    after: Annotated[int, typer.Option(min=0)] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show what was changed in a registry, by whom and why, in order.

    Example: hgkt classes log --model digits-model

    Example: hgkt classes log --server http://localhost:8000 --name okapi

    Parameters
    ----------
    name
        Only a class that has or had this name.
    after
        Only what came after this revision.
    limit
        Most lines.
    """
    document = place.events(after, limit, name)

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
        say(f"the registry is at revision {document['revision']}")

    emit(document, as_json, render)


@with_options
def rollback_command(
    revision: Annotated[int, typer.Argument(min=0)],
    place: HistoryOptions,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the classes of a registry what they were right after a change; a change of its own.

    Example: hgkt classes rollback 3 --model digits-model --reason "the descriptions were wrong"

    Parameters
    ----------
    revision
        The revision to go back to.
    """
    document = place.rollback(revision, reason)
    sentence = f"the classes are those of revision {revision} again; this is revision "
    emit(document, as_json, lambda: say(sentence + str(document["revision"])))


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


# ---------------------------------------------------------------------- folders
@with_options
def pull_command(
    model: ModelOption,
    registry: DatabaseOptions,
    out_path: Annotated[Path | None, typer.Option("--out")] = None,
    in_place: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Write the classes of a registry, with what they have grown by, into a model folder.

    Example: hgkt classes pull --model digits-model --out digits-with-classes

    Parameters
    ----------
    out_path : FOLDER
        New model folder to write.
    in_place
        Replace the model folder itself.
    """
    if (out_path is None) == (not in_place):
        raise DataError("say where to write the model: --out FOLDER or --in-place")
    url = registry.address(model)
    target = model if out_path is None else out_path
    if out_path is not None and out_path.exists():
        raise ModelFolderError(f"{out_path} is there already; give a folder that is not")
    from hgkt.serving.edition import Edition, model_identity

    with held(model) as loaded:
        with registry_of(url, loaded) as source:
            table = source.table()
        edition = Edition.load(loaded, table)
        edition.model.save(target)
    same = model_identity(edition.model) == source.model_id
    document = {
        "model": target,
        "revision": table.revision,
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
            f"{grown}; the registry is at revision {table.revision}"
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
    replace: bool = False,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the classes that were added to a model folder into the registry of the model.

    Services that have the model without them, in folders of their own, take them in.

    Example: hgkt classes push --model digits-model --database sqlite:///classes.sqlite

    Parameters
    ----------
    replace
        Give classes of the registry the folder's attributes.
    """
    url = registry.address(model, new=True)
    from hgkt.serving.transfer import push_classes

    loaded = load_model(model)
    with registry_of(url, loaded, known=False) as store:
        origin = own_origin(reason or f"pushed from {model.resolve().name}")
        pushed = push_classes(store, loaded, replace, origin)
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
    emit(document, as_json, lambda: say(sentence + (f" ({listed(names)})" if names else "")))


# ---------------------------------------------------------------------- models
@with_options
def models_command(registry: DatabaseOptions, as_json: JsonOption = False) -> None:
    """List the models that a class registry knows, the one that changed last first.

    Example: hgkt classes models --database sqlite:///digits-model.registry.sqlite
    """
    url = registry.address()
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.transfer import ModelFacts

    with ClassRegistry(url, "") as catalog:
        known = [
            (one, one.facts and ModelFacts.from_json(one.facts)) for one in catalog.known_models()
        ]
    document: list[dict[str, Any]] = [
        {
            "identity": one.model_id,
            "name": facts and facts.name,
            "method": facts and facts.method,
            "n_classes": len(one.table.classes),
            "n_grown": len(one.table.growth),
            "revision": one.table.revision,
            "changed_at": one.changed_at,
        }
        for one, facts in known
    ]

    def render() -> None:
        rows = [
            [one["identity"][:_SHOWN], *("" if v is None else v for v in list(one.values())[1:])]
            for one in document
        ]
        columns = ["identity", "name", "method", "classes", "grown", "revision", "last change"]
        show_table(columns, rows)

    emit({"models": document}, as_json, render)


@with_options
def migrate_command(
    model: ModelOption,
    registry: DatabaseOptions,
    old: Annotated[str, typer.Option("--from")],
    old_model: Path | None = None,
    dry_run: bool = False,
    skip_unfit: bool = False,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Carry the classes that were added to an old model to a new one, all or none.

    They are described anew from what the registry keeps of them; the old model's stay as they are.

    Example: hgkt classes migrate --from old-model --model new-model --database sqlite:///c.sqlite \
--dry-run

    Parameters
    ----------
    old : OLD
        The old model: the beginning of its identity, or its folder.
    old_model
        Folder of the old model, where --from is an identity.
    dry_run
        Only say what would become of the classes.
    skip_unfit
        Leave out classes that do not fit, and carry the rest.
    """
    url = registry.address()
    from hgkt.serving.transfer import ModelFacts, adopt_classes, find_source, plan_transfer

    source = find_source(url, old, old_model)
    loaded = load_model(model)
    facts = ModelFacts.of(loaded, model.resolve().name)
    revision = None
    with served(url, loaded) as new:
        transfer = plan_transfer(source, new.refresh(), facts, new.vectors)
        if not dry_run:
            origin = own_origin(reason or f"adopted from {source.title}")
            transfer, revision = adopt_classes(
                source, new, facts, skip_unfit, origin, before=_tell_unfit
            )
    document = transfer.to_dict() | {"dry_run": dry_run, "revision": revision}
    emit(document, as_json, lambda: _show(transfer, dry_run))


def _tell_unfit(transfer: Transfer) -> None:
    for one in transfer.unfit:
        note(f"does not fit: {one.name}: {one.reason}")


def _show(transfer: Transfer, dry_run: bool) -> None:
    verb = "would move" if dry_run else "moved"
    moving = [entry.name for entry in transfer.moving]
    say(f"{classes_text(moving)} {verb} from {transfer.source} to {transfer.target}")
    if transfer.growing:
        total = sum(sums.n_examples for sums in transfer.growing.values())
        say(f"{total} examples go along, of {classes_text(list(transfer.growing))}")
    for title, names in (
        ("learned by the new model itself", transfer.learned),
        ("there already", transfer.there),
        ("there already with other attributes, which stay", transfer.differing),
    ):
        if names:
            say(f"{classes_text(names)}: {title}")
    for one in transfer.unfit if dry_run else ():
        say(f"does not fit: {one.name}: {one.reason}")
    for one in transfer.left_examples:
        say(f"examples of {one.name} stay behind: {one.reason}")
    for line in (*transfer.doubts, *([transfer.note] if transfer.note else [])):
        note(f"warning: {line}")
