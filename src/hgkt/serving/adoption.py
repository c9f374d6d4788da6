"""A new model takes over the classes of an old one, in one change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hgkt.estimators import GZSLClassifier, load_model
from hgkt.exceptions import DataError
from hgkt.serving import schema
from hgkt.serving.catalog import ModelCatalog, remember
from hgkt.serving.editions import Edition
from hgkt.serving.entries import ClassEntry, ClassExistsError
from hgkt.serving.events import ClassEvent, Origin
from hgkt.serving.identity import model_identity
from hgkt.serving.migration import Migration, Source, plan_migration
from hgkt.serving.model_facts import ModelFacts
from hgkt.serving.proposals import refuse_unsound
from hgkt.serving.registry import ClassRegistry
from hgkt.serving.rows import class_row, growth_row
from hgkt.serving.served_model import ServedModel

_TRIES = 5


@dataclass(frozen=True)
class Comparison:
    """How the predictions of two models on the same rows differ.

    Parameters
    ----------
    n_rows, n_different : int
        How many rows were predicted, and how many of them differently.
    moves : tuple of (str, str, int)
        The class before, the class after, and of how many rows; the most frequent first.
    """

    n_rows: int
    n_different: int
    moves: tuple[tuple[str, str, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        moves = [{"from": old, "to": new, "n_rows": n} for old, new, n in self.moves]
        return {
            "n_rows": self.n_rows,
            "n_different": self.n_different,
            "share_different": self.n_different / self.n_rows,
            "moves": moves,
        }


def compare_predictions(old: GZSLClassifier, new: GZSLClassifier, X: NDArray[Any]) -> Comparison:
    """Predict rows (n, n_features) with two models, and say where they differ."""
    before, after = (list(map(str, model.predict(X).tolist())) for model in (old, new))
    moves = Counter((a, b) for a, b in zip(before, after, strict=True) if a != b)
    ordered = sorted(moves.items(), key=lambda item: (-item[1], item[0]))
    return Comparison(len(before), moves.total(), tuple((a, b, count) for (a, b), count in ordered))


def find_source(url: str, old: str, folder: Path | None = None) -> Source:
    """Return the classes of an old model in a database.

    Parameters
    ----------
    url : str
        The database's address.
    old : str
        The beginning of the model's identity, or its folder.
    folder : Path, optional
        The model's folder, where `old` is its identity: it says what the attributes mean.
    """
    place = Path(old) if Path(old).is_dir() else folder
    model = None if place is None else load_model(place)
    with ModelCatalog(url) as catalog:
        if model is not None and Path(old).is_dir():
            old = model_identity(model)
        known = catalog.find(old)
    facts = known.facts
    if model is not None and place is not None:
        if model_identity(model) != known.model_id:
            raise DataError(
                f"the model in {place} is not the one whose classes are to be carried; its "
                f"identity is {model_identity(model)[:12]}, not {known.model_id[:12]}"
            )
        facts = ModelFacts.of(model, place.resolve().name if facts is None else facts.name)
    with ClassRegistry(url, known.model_id) as registry:
        return Source(known.model_id, registry.state(), facts)


def migrated_edition(served: ServedModel, migration: Migration) -> Edition:
    """Return the new model as it would be with what is carried."""
    return Edition.load(served._base, migration.after(served.registry.state()))


def adopt_classes(
    source: Source,
    served: ServedModel,
    facts: ModelFacts,
    skip_unfit: bool = False,
    origin: Origin | None = None,
    before: Callable[[Migration], object] | None = None,
) -> tuple[Migration, int | None]:
    """Have a model take over the classes of another, all of them in one change.

    What it has already stays, so that doing it again adds nothing. The old model's classes are
    only read.

    Parameters
    ----------
    source : Source
        The old model's classes.
    served : ServedModel
        The new model.
    facts : ModelFacts
        What is known of the new model.
    skip_unfit : bool
        Whether to leave out classes that do not fit; otherwise one such class stops it all.
    origin : Origin, optional
        Who and why; by default for the reason that they were adopted.
    before : callable, optional
        Called with what will be done.

    Returns
    -------
    migration : Migration
        What was done.
    revision : int or None
        The change; None where there was nothing to do.
    """
    if source.model_id == served.registry.model_id:
        raise DataError("the old and the new model are the same one, and have the same classes")
    origin = origin or Origin(reason=f"adopted from {source.title}")
    for number in range(_TRIES):
        migration = plan_migration(source, served, facts)
        if before is not None and number == 0:
            before(migration)
        if migration.unfit and not skip_unfit:
            raise _unfit(migration)
        if not migration.moving and not migration.growing:
            return migration, None
        if migration.growing:
            name = next(iter(migration.growing))
            refuse_unsound(migrated_edition(served, migration).model, name)
        remember(served.registry, facts)
        try:
            return migration, _write(served, migration, origin)
        except ClassExistsError:  # somebody was faster; what is left is seen anew
            if number == _TRIES - 1:
                raise
    raise AssertionError  # the last try returns or raises


def _unfit(migration: Migration) -> DataError:
    first = migration.unfit[0]
    count = len(migration.unfit)
    noun = "class does" if count == 1 else "classes do"
    return DataError(
        f"{count} {noun} not fit the new model, among them {first.name!r}: {first.reason}; nothing "
        "was changed; `hgkt classes migrate --skip-unfit` leaves them out"
    )


def _write(served: ServedModel, migration: Migration, origin: Origin) -> int:
    """Write what is carried; return the revision."""
    registry, entries = served.registry, migration.moving
    names = [entry.name for entry in entries]
    with registry._changing(served._saved, None, origin) as change:
        registry._refuse_taken(change, names, served._saved)
        held = registry._named_rows(
            change.connection, schema.growth, list({*names, *migration.growing})
        )
        # What a class of the name grew by that the folder has lost is not this one's.
        change.delete(schema.growth, [row for name, row in held.items() if name in names])
        for name in held.keys() - set(names):
            raise ClassExistsError(name)
        placed = change.placed(entries)
        change.insert(schema.classes, [class_row(entry) for entry in placed])
        change.insert(schema.growth, [growth_row(*item) for item in migration.growing.items()])
        lines = [ClassEvent(change.revision, "add", entry) for entry in placed]
        lines += [
            ClassEvent(
                change.revision,
                "grow",
                ClassEntry(name),
                there=False,
                n_examples=sums.n_examples,
                sums=sums,
            )
            for name, sums in migration.growing.items()
        ]
        change.log(lines)
    return change.revision
