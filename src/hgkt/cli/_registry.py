"""The commands of `hgkt classes` that work on a class registry, in a database or behind a service.

`models`, `migrate`, `pull`, `log` and `rollback`.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt._validation import import_extra
from hgkt.cli._inputs import held, load_model
from hgkt.cli._options import command_of
from hgkt.cli._output import classes_text, emit, note, show_table
from hgkt.exceptions import DataError, ModelFolderError

if TYPE_CHECKING:
    from hgkt.serving.events import Origin
    from hgkt.serving.live_model import ServedModel
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.transfer import Transfer

_SHOWN = 12  # digits of an identity
app = typer.Typer()


@dataclass(frozen=True)
class DatabaseOptions:
    """The options that name the database of a class registry.

    Parameters
    ----------
    database : default MODEL.registry.sqlite
        Class registry: sqlite:///FILE or postgresql://….
    database_file
        File that holds the address of the class registry, and with it the password.
    """

    database: Annotated[str | None, typer.Option(envvar="HGKT_DATABASE")] = None
    database_file: Path | None = None

    @property
    def given(self) -> str | None:
        """The address that was given, if one was."""
        from hgkt.serving.settings import read_database_url

        file = self.database_file
        return self.database if file is None else read_database_url(file)

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
        file = url.removeprefix("sqlite:///")
        # Opening a SQLite file that is not there would make it.
        if not new and file != url and not Path(file.partition("?")[0]).is_file():
            raise DataError(f"there is no class registry {file}")
        return url


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
@command_of(app)
def log(
    model: Path,
    registry: DatabaseOptions,
    name: str | None = None,
    after: Annotated[int, typer.Option(min=0)] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
) -> None:
    """Show what was changed in a registry, by whom and why, in order.

    Example: hgkt classes log --model digits-model --name okapi

    Parameters
    ----------
    name
        Only a class that has or had this name.
    after
        Only what came after this revision.
    limit
        Most lines.
    """
    url = registry.address(model)
    from hgkt.serving.routes.history import EventLine

    with registry_of(url, load_model(model)) as store:
        events = store.events(after, limit, name)
        lines = [EventLine.of(event).model_dump() for event in events]
        document = {"revision": store.revision(), "events": lines}

    rows = []
    for line in lines:
        when = line["created_at"][:19].replace("T", " ")
        rows.append([line["revision"], when, _what(line), line["who"], line["reason"]])
    columns = ["revision", "when (UTC)", "what", "who", "why"]
    at = f"the registry is at revision {document['revision']}"
    emit(document, lambda: show_table(columns, rows), at)


@command_of(app)
def rollback(
    revision: Annotated[int, typer.Argument(min=0)],
    model: Path,
    registry: DatabaseOptions,
    reason: str | None = None,
) -> None:
    """Make the classes of a registry what they were right after a change; a change of its own.

    Example: hgkt classes rollback 3 --model digits-model --reason "the descriptions were wrong"

    Parameters
    ----------
    revision
        The revision to go back to.
    """
    with served(registry.address(model), load_model(model)) as live:
        now = live.rollback(revision, origin=own_origin(reason))
    document = {"revision": now.revision, "target": revision, "n_classes": now.n_classes}
    again = f"the classes are those of revision {revision} again"
    emit(document, f"{again}; this is revision {now.revision}")


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
@command_of(app)
def pull(
    model: Path,
    registry: DatabaseOptions,
    out_path: Annotated[Path | None, typer.Option("--out")] = None,
    in_place: bool = False,
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
    url, target = registry.address(model), out_path or model
    if out_path is not None and out_path.exists():
        raise ModelFolderError(f"{out_path} is there already; give a folder that is not")
    from hgkt.serving.edition import Edition, model_identity

    with held(model) as loaded:
        with registry_of(url, loaded) as source:
            table = source.table()
        edition = Edition.load(loaded, table)
        edition.model.save(target)
    identity = model_identity(edition.model)
    n_classes, n_added = len(edition.names), edition.n_added
    document = {
        "model": target,
        "revision": table.revision,
        "n_classes": n_classes,
        "n_added_classes": n_added,
        "n_examples": sum(edition.n_examples.values()),
        "identity": identity,
        "same_identity": identity == source.model_id,
    }
    grown = f", {len(edition.n_examples)} of them grown" if edition.n_examples else ""
    has = f"{target} has {n_classes} classes now, {n_added} of them added{grown}"
    emit(document, f"{has}; the registry is at revision {table.revision}")
    if identity != source.model_id:
        note(
            "what has grown makes it another model: it has everything in its folder, and no "
            "classes in the registry"
        )


# ---------------------------------------------------------------------- models
@command_of(app)
def models(registry: DatabaseOptions) -> None:
    """List the models that a class registry knows, the one that changed last first.

    Example: hgkt classes models --database sqlite:///digits-model.registry.sqlite
    """
    url = registry.address()
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.transfer import ModelFacts

    with ClassRegistry(url, "") as catalog:
        known = catalog.known_models()
    facts = [one.facts and ModelFacts.from_json(one.facts) for one in known]
    document: list[dict[str, Any]] = [
        {
            "identity": one.model_id,
            "name": told and told.name,
            "method": told and told.method,
            "n_classes": len(one.table.classes),
            "n_grown": len(one.table.growth),
            "revision": one.table.revision,
            "changed_at": one.changed_at,
        }
        for one, told in zip(known, facts, strict=True)
    ]
    columns = ["identity", "name", "method", "classes", "grown", "revision", "last change"]
    rows = [[one["identity"][:_SHOWN], *[*one.values()][1:]] for one in document]
    emit({"models": document}, lambda: show_table(columns, rows))


@dataclass(frozen=True)
class TransferOptions:
    """Which classes are carried to a model, and how; one field per option.

    Parameters
    ----------
    old : OLD
        The old model: the beginning of its identity, or its folder.
    dry_run
        Only say what would become of the classes.
    skip_unfit
        Leave out classes that do not fit, and carry the rest.
    """

    old: Annotated[str, typer.Option("--from")]
    dry_run: bool = False
    skip_unfit: bool = False
    reason: str | None = None

    def carry(self, url: str, model: Path) -> tuple[Transfer, int | None]:
        """Carry the classes of the old model to a new one.

        Parameters
        ----------
        url : str
            The class registry of both.
        model : Path
            Folder of the new model.

        Returns
        -------
        transfer : Transfer
            What was done, or would be.
        revision : int or None
            The change; None where there was nothing to do.
        """
        import_extra("sqlalchemy", "serve")
        from hgkt.serving.transfer import ModelFacts, adopt_classes, find_source, plan_transfer

        source, loaded = find_source(url, self.old), load_model(model)
        facts = ModelFacts.of(loaded, model.resolve().name)
        with served(url, loaded) as new:
            if self.dry_run:
                return plan_transfer(source, new.refresh(), facts, new.vectors), None
            origin = own_origin(self.reason or f"adopted from {source.title}")
            return adopt_classes(source, new, facts, self.skip_unfit, origin, before=_note_unfit)


@command_of(app)
def migrate(model: Path, registry: DatabaseOptions, options: TransferOptions) -> None:
    """Carry the classes that were added to a model to another one, all or none.

    They are described anew from what the registry keeps of them; the first model's stay as they
    are. Of a folder the classes that are in it go along, also to the same model in another folder.

    Example: hgkt classes migrate --from old-model --model new-model --database sqlite:///c.sqlite \
--dry-run
    """
    transfer, revision = options.carry(registry.address(), model)
    document = transfer.to_dict() | {"dry_run": options.dry_run, "revision": revision}
    emit(document, *transfer_lines(transfer, options.dry_run))


def _note_unfit(transfer: Transfer) -> None:
    for one in transfer.unfit:
        note(f"does not fit: {one.name}: {one.reason}")


def transfer_lines(transfer: Transfer, dry_run: bool = False) -> list[str]:
    """Return what is said of classes that were carried, or would be."""
    verb = "would move" if dry_run else "moved"
    moving = [entry.name for entry in transfer.moving]
    lines = [f"{classes_text(moving)} {verb} from {transfer.source} to {transfer.target}"]
    if transfer.growing:
        total = sum(sums.n_examples for sums in transfer.growing.values())
        lines.append(f"{total} examples go along, of {classes_text(list(transfer.growing))}")
    lines += [f"{one.name} does not move: {one.reason}" for one in transfer.present]
    if dry_run:
        lines += [f"does not fit: {one.name}: {one.reason}" for one in transfer.unfit]
    lines += [f"examples of {one.name} stay behind: {one.reason}" for one in transfer.left_examples]
    return lines + [f"warning: {doubt}" for doubt in transfer.doubts]
