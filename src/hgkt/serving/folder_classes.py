"""Classes of a model folder, put into the registry of its model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hgkt.estimators import GZSLClassifier
from hgkt.exceptions import DataError
from hgkt.serving.entries import ClassEntry
from hgkt.serving.events import Origin
from hgkt.serving.registry import ClassRegistry


@dataclass(frozen=True)
class Pushed:
    """What became of the added classes of a model folder.

    Parameters
    ----------
    added, replaced, same : tuple of str
        Classes that are new in the registry, that have other attributes there now, and that were
        there so.
    revision : int
        The registry's revision afterwards.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    same: tuple[str, ...]
    revision: int


def push_classes(
    registry: ClassRegistry, model: GZSLClassifier, replace: bool, origin: Origin
) -> Pushed:
    """Put the added classes of a model into its registry; done again, it changes nothing.

    Parameters
    ----------
    registry : ClassRegistry
        The registry of the model.
    model : GZSLClassifier
        The model as its folder has it.
    replace : bool
        Whether classes that the registry has with other attributes get those of the folder;
        otherwise one such class is refused, and nothing is changed.
    origin : Origin
        Who and why, for the log.
    """
    state = registry.state()
    here = {entry.name: entry for entry in state.entries}
    rows = zip(model.unseen_classes_.tolist(), model._added_attributes.array, strict=True)
    entries = [ClassEntry(str(label), np.array(row, dtype=np.float64)) for label, row in rows]
    new = [entry for entry in entries if entry.name not in here]
    other = [
        entry
        for entry in entries
        if entry.name in here
        and entry.attributes.tobytes() != here[entry.name].attributes.tobytes()
    ]
    if other and not replace:
        raise DataError(
            f"class {other[0].name!r} has other attributes in the registry; nothing was changed; "
            "--replace gives it those of the folder"
        )
    revision = state.revision
    if new:
        revision = registry.add(new, origin=origin)
    if other:
        revision = registry.edit({entry.name: entry for entry in other}, origin=origin)
    changed = {entry.name for entry in (*new, *other)}
    return Pushed(
        tuple(entry.name for entry in new),
        tuple(entry.name for entry in other),
        tuple(entry.name for entry in entries if entry.name not in changed),
        revision,
    )
