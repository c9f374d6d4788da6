"""`hgkt classes models` and `migrate`: the models of a registry, and classes for a new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hgkt.cli._inputs import read_features
from hgkt.cli._options import JsonOption, ModelOption, with_options
from hgkt.cli._output import emit, note, say, show_table
from hgkt.cli._registry_options import DatabaseOptions, ReasonOption, load, served
from hgkt.cli._registry_places import own_origin
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.serving.adoption import Comparison
    from hgkt.serving.migration import Migration, Source
    from hgkt.serving.served_model import ServedModel

_SHOWN = 12


@with_options
def models_command(registry: DatabaseOptions, as_json: JsonOption = False) -> None:
    """List the models that a class registry knows, the one that changed last first.

    Example: hgkt classes models --database sqlite:///digits-model.registry.sqlite
    """
    url = registry.address()
    from hgkt.serving.catalog import ModelCatalog

    with ModelCatalog(url) as catalog:
        known = catalog.models()
    document: list[dict[str, Any]] = [
        {
            "identity": one.model_id,
            "name": one.facts and one.facts.name,
            "method": one.facts and one.facts.method,
            "n_classes": one.n_classes,
            "n_grown": one.n_grown,
            "revision": one.revision,
            "changed_at": one.changed_at,
        }
        for one in known
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
    old: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="OLD",
            help="The old model: the beginning of its identity, or its folder.",
        ),
    ],
    old_model: Annotated[
        Path | None,
        typer.Option("--old-model", help="Folder of the old model, where --from is an identity."),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample", help="Feature rows (.npy, .csv, .parquet …) to predict with both models."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would become of the classes.")
    ] = False,
    skip_unfit: Annotated[
        bool,
        typer.Option("--skip-unfit", help="Leave out classes that do not fit, and carry the rest."),
    ] = False,
    reason: ReasonOption = None,
    as_json: JsonOption = False,
) -> None:
    """Carry the classes that were added to an old model to a new one, all or none.

    They are described anew from what the registry keeps of them; the old model's stay as they are.

    Example: hgkt classes migrate --from old-model --model new-model --database sqlite:///c.sqlite \
--dry-run
    """
    url = registry.address()
    from hgkt.serving.adoption import adopt_classes, find_source
    from hgkt.serving.migration import plan_migration
    from hgkt.serving.model_facts import ModelFacts

    source = find_source(url, old, old_model)
    old_folder = Path(old) if Path(old).is_dir() else old_model
    if sample is not None and old_folder is None:
        raise DataError("to predict the --sample with both models, give the --old-model folder")
    loaded = load(model)
    facts = ModelFacts.of(loaded, model.resolve().name)
    with served(url, loaded, trial=dry_run) as new:
        compared = None
        if sample is not None and old_folder is not None:
            plan = plan_migration(source, new, facts)
            compared = _compare(sample, load(old_folder), source, new, plan)
        revision = None
        if dry_run:
            migration = plan_migration(source, new, facts)
        else:
            origin = own_origin(reason or f"adopted from {source.title}")
            migration, revision = adopt_classes(
                source, new, facts, skip_unfit, origin, before=_tell_unfit
            )
    document = migration.to_dict() | {
        "dry_run": dry_run,
        "revision": revision,
        "comparison": compared and compared.to_dict(),
    }
    emit(document, as_json, lambda: _show(migration, compared, dry_run))


def _compare(
    sample: Path, old: Any, source: Source, new: ServedModel, plan: Migration
) -> Comparison:
    from hgkt.serving.adoption import compare_predictions, migrated_edition
    from hgkt.serving.editions import Edition

    X = read_features(sample, old.n_features_in_)
    before = Edition.load(old, source.state).model
    return compare_predictions(before, migrated_edition(new, plan).model, X)


def _tell_unfit(migration: Migration) -> None:
    for one in migration.unfit:
        note(f"does not fit: {one.name}: {one.reason}")


def _show(migration: Migration, compared: Comparison | None, dry_run: bool) -> None:
    verb = "would move" if dry_run else "moved"
    moving = [entry.name for entry in migration.moving]
    say(f"{_counted(moving)} {verb} from {migration.source} to {migration.target}")
    if migration.growing:
        total = sum(sums.n_examples for sums in migration.growing.values())
        say(f"{total} examples go along, of {_counted(list(migration.growing))}")
    for title, names in (
        ("learned by the new model itself", migration.learned),
        ("there already", migration.there),
        ("there already with other attributes, which stay", migration.differing),
    ):
        if names:
            say(f"{_counted(names)}: {title}")
    for one in migration.unfit if dry_run else ():
        say(f"does not fit: {one.name}: {one.reason}")
    for one in migration.left_examples:
        say(f"examples of {one.name} stay behind: {one.reason}")
    for line in (*migration.doubts, *([migration.note] if migration.note else [])):
        note(f"warning: {line}")
    if compared is not None:
        share = compared.n_different / compared.n_rows
        say(f"of {compared.n_rows} rows {compared.n_different} ({share:.1%}) change their class")
        if compared.moves:
            show_table(["from", "to", "rows"], compared.moves)


def _counted(names: Any) -> str:
    shown = ", ".join(names[:5]) + ("…" if len(names) > 5 else "")
    return f"{len(names)} {'class' if len(names) == 1 else 'classes'}" + (
        f" ({shown})" if names else ""
    )
