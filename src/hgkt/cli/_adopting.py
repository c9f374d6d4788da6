"""`hgkt serve --adopt`: models that are served take over the classes of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt.cli._output import note
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.serving.settings import ServiceSettings


def adopt_served(settings: ServiceSettings, old: str) -> None:
    """Have every model that is served, but the old one itself, take over its classes.

    Parameters
    ----------
    settings : ServiceSettings
        What is served.
    old : str
        The old model: the beginning of its identity, its folder, or its name among those served.
    """
    from hgkt.estimators import load_model
    from hgkt.serving.adoption import adopt_classes, find_source
    from hgkt.serving.model_facts import ModelFacts
    from hgkt.serving.served_model import ServedModel

    if settings.database is None:
        raise DataError("--adopt needs --database, the class registry that has the old model's")
    each = {own.name(): own for own in settings.each()}
    source = find_source(settings.database, str(each[old].model) if old in each else old)
    adopting = 0
    for name, own in each.items():
        loaded = load_model(own.model, own.verify_key)
        with ServedModel.open(loaded, own) as served:
            if served.registry.model_id == source.model_id:
                continue
            adopting += 1
            migration, revision = adopt_classes(source, served, ModelFacts.of(loaded, name))
        n_moved = len(migration.moving)
        noun = "class" if n_moved == 1 else "classes"
        told = f"{name} took over {n_moved} {noun} of {migration.source}"
        note(told if revision is not None else f"{name} has all classes of {migration.source}")
        for left in migration.left_examples:
            note(f"examples of {left.name} stay behind: {left.reason}")
    if not adopting:
        raise DataError(f"the model {old!r} cannot adopt its own classes; serve another one too")
