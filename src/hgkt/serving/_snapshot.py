"""One immutable snapshot of a served model, and how the next one is made from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from hgkt.estimators import GZSLClassifier
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError
from hgkt.serving.entries import ClassEntry, ClassEvent, RegistryState, UnknownClassError

T = TypeVar("T")


class Cache:
    """Things made once, whichever thread asks first."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._values: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return what is under `key`, made by `make` where nothing is."""
        if key not in self._values:
            with self._lock:
                if key not in self._values:
                    self._values[key] = make()
        value: T = self._values[key]
        return value


@dataclass(frozen=True)
class Snapshot:
    """A model at one revision; nobody changes it, so that any thread may read it without a lock.

    Parameters
    ----------
    model : GZSLClassifier
        The model with the classes of this revision.
    revision : int
        Number of changes so far.
    texts : mapping of label to str
        Descriptions of added classes that have one.
    added_at : mapping of label to str
        When a class was added, ISO 8601 in UTC.
    """

    model: GZSLClassifier
    revision: int = 0
    texts: Mapping[Any, str] = field(default_factory=dict, repr=False)
    added_at: Mapping[Any, str] = field(default_factory=dict, repr=False)
    _own: Cache = field(default_factory=Cache, repr=False, compare=False)
    _shared: Cache = field(default_factory=Cache, repr=False, compare=False)

    def cached(self, key: Any, make: Callable[[], T], *, per_model: bool = False) -> T:
        """Return what `make` makes, made once.

        Parameters
        ----------
        key : hashable
            What it is.
        make : callable
            Makes it.
        per_model : bool
            Whether it depends on seen classes alone and so outlives this snapshot.
        """
        return (self._shared if per_model else self._own).get(key, make)

    def columns(self) -> dict[Any, int]:
        """Return the position of every class in ``model.classes_``."""
        return self.cached(
            "columns", lambda: {label: i for i, label in enumerate(self.model.classes_.tolist())}
        )

    def label(self, name: str) -> Any:
        """Turn a name, always text, into a label of the kind the model has.

        Parameters
        ----------
        name : str
            The name.
        """
        return label_of(self.model, name)

    def find(self, name: str) -> Any:
        """Return the label of a class; raise `UnknownClassError` where there is none.

        Parameters
        ----------
        name : str
            The name.
        """
        try:
            label = self.label(name)
        except DataError:
            raise UnknownClassError(name) from None
        if label not in self.columns():
            raise UnknownClassError(name)
        return label


def load_snapshot(base: GZSLClassifier, state: RegistryState, shared: Cache) -> Snapshot:
    """Build the snapshot of a state from the model as its folder has it.

    Parameters
    ----------
    base : GZSLClassifier
        The model.
    state : RegistryState
        What the registry holds; its classes take the place of those of the same name.
    shared : Cache
        What outlives a snapshot.
    """
    new = {entry.name: entry for entry in state.entries}
    return _build(Snapshot(base, _shared=shared), state.revision, {*state.removed, *new}, new)


def follow_events(start: Snapshot, log: Sequence[ClassEvent]) -> Snapshot:
    """Build the next snapshot from one and what happened since.

    Parameters
    ----------
    start : Snapshot
        Where to begin.
    log : sequence of ClassEvent
        What happened, in order; at least one event.
    """
    gone: set[str] = set()
    new: dict[str, ClassEntry] = {}
    for event in log:
        gone.add(event.entry.name)
        new.pop(event.entry.name, None)
        if event.kind == "add":
            new[event.entry.name] = event.entry
    return _build(start, log[-1].revision, gone, new)


def _build(
    start: Snapshot, revision: int, gone: Iterable[str], new: Mapping[str, ClassEntry]
) -> Snapshot:
    """Take added classes away, as far as they are there, and add others."""
    model = view_of(start.model)
    texts, added_at = dict(start.texts), dict(start.added_at)
    here = set(model.unseen_classes_.tolist())
    labels = [label for label in (label_of(model, name) for name in gone) if label in here]
    if labels:
        model.remove_classes(labels)
    for label in labels:
        texts.pop(label, None)
        added_at.pop(label, None)
    table = {label_of(model, name): entry for name, entry in new.items()}
    if table:
        model.add_classes({label: entry.attributes for label, entry in table.items()})
    for label, entry in table.items():
        added_at[label] = entry.added_at
        if entry.text is not None:
            texts[label] = entry.text
    shown = MappingProxyType(texts), MappingProxyType(added_at)
    return Snapshot(model, revision, *shown, _shared=start._shared)


def label_of(model: GZSLClassifier, name: str) -> Any:
    """Turn a name, always text, into a label of the kind the model has.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    name : str
        The name.

    Returns
    -------
    str, int or float
    """
    kind = model.seen_classes_.dtype.kind
    if kind not in "iuf":
        return name
    try:
        label = float(name) if kind == "f" else int(name)
    except ValueError:
        raise DataError(f"the classes of this model are numbers; got {name!r}") from None
    if not np.isfinite(float(label) if kind == "f" else 0.0) or abs(label) >= 2**63:
        raise DataError(f"the classes of this model are numbers below 2**63; got {name!r}")
    return label
