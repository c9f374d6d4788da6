"""The served model: the current edition for readers, kept level with the class registry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import label_of
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.class_table import attribute_doubts
from hgkt.exceptions import DataError
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import (
    Edition,
    folder_classes,
    made_with,
    model_identity,
    refuse_unsound,
    refuse_unusable,
)
from hgkt.serving.events import (
    ClassEntry,
    ClassTable,
    NoGrowthError,
    UnknownRevisionError,
    add_events,
    edit_events,
    remove_events,
    replay,
    rollback_events,
    stamp_events,
)
from hgkt.serving.registry import Asked, ClassRegistry, KeyedRequest, Planned, Receipt
from hgkt.statistics import ExampleSums

if TYPE_CHECKING:
    from hgkt.language import ClassDescription, Describer
    from hgkt.serving.settings import ServiceSettings

N_OLD_EDITIONS = 2
"""How many earlier editions are kept; one of a model with grown classes has its own matrices."""

logger = logging.getLogger(__name__)


class ServedModel:
    """A model whose classes come, change and go while it is read.

    A thread looks every `poll_seconds` for what other processes have changed and puts a new
    edition in the place of the old one. Readers take `current()` once and work with that.

    Parameters
    ----------
    model : GZSLClassifier
        The model as loaded from its folder; it is not changed.
    registry : ClassRegistry
        Where added classes are kept; it is told which ones the model folder has.
    poll_seconds : float
        How often to look.

    Attributes
    ----------
    trouble : str or None
        What was wrong at the last look, in a sentence that names no place.
    """

    def __init__(
        self, model: GZSLClassifier, registry: ClassRegistry, poll_seconds: float = 0.25
    ) -> None:
        self.registry = registry
        self.poll_seconds = poll_seconds
        self.base = copy(model)
        registry.folder = folder_classes(model)
        self.trouble: str | None = None
        self._changing, self._describing = threading.Lock(), threading.Lock()
        self._growing, self._recalling = threading.Lock(), threading.Lock()
        self._recall = lru_cache(N_OLD_EDITIONS)(lambda n: self._load(registry.table_at(n)))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._current = self._load(registry.table())

    @classmethod
    def open(cls, model: GZSLClassifier, settings: ServiceSettings) -> Self:
        """Open the registry that the settings name for a model; the caller starts and closes."""
        url = settings.database_url()
        registry = ClassRegistry(url, model_identity(model), settings.database_id)
        try:
            return cls(model, registry, settings.poll_seconds)
        except Exception:
            registry.close()
            raise

    # ------------------------------------------------------------------ reading
    def current(self) -> Edition:
        """Return the newest edition of this process; costs nothing."""
        return self._current

    def refresh(self) -> Edition:
        """Look for changes now and return the newest edition."""
        try:
            known = self._current.table
            if self.registry.head() != (known.revision, known.digest):
                self._catch_up()
        except RegistryError as error:
            self.trouble = error.sentence
            raise
        self.trouble = None
        return self._current

    def at(self, revision: int) -> Edition:
        """Return the edition of a revision, an earlier one perhaps; one is made at a time.

        Raises `UnknownRevisionError` where the registry's log does not lead there.
        """
        if revision > self._current.revision:
            self.refresh()  # another process may have made the change just now
        current = self._current
        if revision == current.revision:
            return current
        if revision > current.revision:
            raise UnknownRevisionError(revision, current.revision)
        with self._recalling:
            return self._recall(revision)

    def healthy(self) -> bool:
        """Return whether the last look at the registry went well and the thread still looks."""
        alive = self._thread is None or self._thread.is_alive()
        return alive and self.trouble is None

    def _catch_up(self, prepared: Edition | None = None) -> Edition:
        """Put the newest edition in place: `prepared`, where nobody came between."""
        with self._changing:
            known = self._current
            table, grown = self.registry.follow(known.table)
            if table.digest == known.table.digest:
                return known
            if grown is None:
                self._recall.cache_clear()  # perhaps another history
            if prepared is not None and prepared.revision == table.revision:
                self._current = replace(prepared, table=table)
            else:
                with self._readable():
                    self._current = known.follow(self.base, table, grown)
            return self._current

    def _load(self, table: ClassTable) -> Edition:
        with self._readable():
            return Edition.load(self.base, table)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say that the registry is damaged where its classes do not fit the model."""
        try:
            yield
        except DataError as error:
            logger.error("the class registry %s: %s", self.registry.place, error)
            raise RegistryError("corrupt", self.registry.place) from error

    # ------------------------------------------------------------------ following
    def start(self) -> Self:
        """Begin to follow what other processes change."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._poll, name="hgkt-registry", daemon=True)
            self._thread.start()
        return self

    def close(self) -> None:
        """Stop following and close the registry."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        self.registry.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_details: object) -> None:
        self.close()

    def _poll(self) -> None:
        while not self._stop.wait(self.poll_seconds):
            try:
                self.refresh()
            except RegistryError:
                pass  # it is in `trouble`; what was known goes on answering
            except Exception:
                self.trouble = "the class registry could not be followed; the log says why"
                logger.exception("following the class registry failed")

    # ------------------------------------------------------------------ describing
    @cached_property
    def describer(self) -> Describer:
        """What turns descriptions into attribute vectors."""
        from hgkt.language import Describer

        return Describer(made_with(self.base), self.base.class_attributes_.shape[1])

    def vectors(self, descriptions: Sequence[ClassDescription]) -> list[NDArray[np.float64]]:
        """Return the attribute vector of each description."""
        describer = self.describer
        with self._describing:  # one sentence encoder, one thread at a time
            return list(describer.vectors(descriptions))

    # ------------------------------------------------------------------ changing
    def add(self, descriptions: Sequence[ClassDescription], **asked: Unpack[Asked]) -> Receipt:
        """Add described classes, all or nothing.

        Parameters
        ----------
        descriptions : sequence of ClassDescription
            The classes.
        **asked
            By what it is asked for; see `Asked`.
        """
        return self._add_grown(self._entries(descriptions), {}, asked)

    def remove(self, names: Sequence[str], **asked: Unpack[Asked]) -> Receipt:
        """Remove added classes, all or nothing."""

        def make(edition: Edition) -> Planned:
            leaving = [edition.names[edition.find(name)] for name in names]
            return remove_events(edition.table, edition.folder, leaving), []

        return self._change(make, asked)

    def edit(
        self,
        name: str,
        description: ClassDescription | None = None,
        new_name: str | None = None,
        **asked: Unpack[Asked],
    ) -> Receipt:
        """Give an added class another description, another name, or both.

        Parameters
        ----------
        name : str
            The class.
        description : ClassDescription, optional
            By what it is described from now on; its own name does not count.
        new_name : str, optional
            What it is called from now on.
        **asked
            As in `add`.
        """
        if description is None and new_name is None:
            raise DataError(f"nothing was said that class {name!r} is to become")
        self.refresh().find(name)  # before anything is encoded
        given = None if description is None else self._entries([description])[0]

        def make(edition: Edition) -> Planned:
            old = edition.names[edition.find(name)]
            new = old if new_name is None else edition.canonical(new_name)
            wanted = new if given is None else replace(given, name=new)
            events = edit_events(edition.table, edition.folder, {old: wanted})
            return events, _doubts(edition, [events[0].entry], [old])

        return self._change(make, asked)

    def grow(self, name: str, X: NDArray[Any], **asked: Unpack[Asked]) -> Receipt:
        """Let a class learn from feature rows (n, n_features) of its own.

        Their sums are kept, the rows are not. The model is tried before anything is written.
        """
        edition = self._growing_edition()
        known = edition.names[edition.find(name)]
        return self._add_grown([], {known: edition.model.example_sums(X)}, asked)

    def teach(
        self, description: ClassDescription, X: NDArray[Any], **asked: Unpack[Asked]
    ) -> Receipt:
        """Let a class learn from feature rows, and add it where it is not there, in one change.

        A class that is there keeps its description. Parameters are those of `add` and `grow`.
        """
        edition = self._growing_edition()
        sums = {edition.canonical(description.name): edition.model.example_sums(X)}
        entries = [] if sums.keys() <= edition.columns.keys() else self._entries([description])
        return self._add_grown(entries, sums, asked)

    def rollback(self, revision: int, **asked: Unpack[Asked]) -> Receipt:
        """Make the classes what they were at a revision, by a change of its own."""
        self.refresh()
        then = self.at(revision).table  # one that no longer fits the model is refused
        return self._change(lambda edition: (rollback_events(edition.table, then), []), asked)

    def receipt(self, request: KeyedRequest | None) -> Receipt | None:
        """Return what a request was answered before; None for a new one."""
        receipt = None if request is None else self.registry.receipt(request)
        if receipt is not None and receipt.revision > self._current.revision:
            self.refresh()
        return receipt

    def check_growth(self) -> None:
        """Refuse examples where the method of the model cannot take them in."""
        if not self.base.can_grow:
            raise NoGrowthError(
                f"the method of this model, {type(self.base).__name__}, cannot learn from more "
                "examples once it is fitted"
            )

    def _growing_edition(self) -> Edition:
        edition = self.refresh()
        self.check_growth()
        return edition

    def _entries(self, descriptions: Sequence[ClassDescription]) -> list[ClassEntry]:
        """Return classes as the registry keeps them; refuse what the model cannot take."""
        names = [str(label_of(self.base, one.name)) for one in descriptions]
        entries = [
            ClassEntry(name, np.asarray(row, dtype=np.float64), "\n".join(one.texts or []) or None)
            for name, row, one in zip(names, self.vectors(descriptions), descriptions, strict=True)
        ]
        refuse_unusable(self.base, {entry.name: entry.attributes for entry in entries})
        return entries

    def _add_grown(
        self, entries: list[ClassEntry], sums: Mapping[str, ExampleSums], asked: Asked
    ) -> Receipt:
        """Add classes, and let these or others grow, where the model that comes of it is sound."""

        def make(edition: Edition) -> Planned:
            events = add_events(edition.table, edition.folder, entries, sums)
            return events, _doubts(edition, entries)

        if not sums:
            return self._change(make, asked)
        with self._growing:  # one after another: every change solves the model anew
            edition = self.refresh()
            log = stamp_events(make(edition)[0], edition.revision + 1)
            trial = edition.follow(self.base, *replay(edition.table, log))
            refuse_unsound(trial.model, next(iter(sums)))
            return self._change(make, asked, trial)

    def _change(
        self, make: Callable[[Edition], Planned], asked: Asked, trial: Edition | None = None
    ) -> Receipt:
        """Write a change of the newest edition, and put the next one in place.

        Parameters
        ----------
        make : callable
            Makes the change, or raises what is wrong with it.
        asked : Asked
            By what it is asked for.
        trial : Edition, optional
            The edition that comes of it, unless somebody else is faster.
        """

        def make_of(table: ClassTable) -> Planned:
            if table.digest != self._current.table.digest:
                self._catch_up()
            return make(self._current)  # nobody can come between: this is the turn to write

        self.refresh()  # what can be done before the turn is
        receipt = self.registry.change(make_of, **asked)
        self._catch_up(trial)
        return receipt


def _doubts(
    edition: Edition, entries: Sequence[ClassEntry], replaced: Sequence[str] = ()
) -> list[str]:
    """Say what is doubtful about classes that come, perhaps in the place of others."""
    if not entries:
        return []
    model = edition.model
    labels = [label_of(model, entry.name) for entry in entries]
    rows = np.reshape([entry.attributes for entry in entries], (len(entries), -1))
    without = [label_of(model, name) for name in replaced]
    return list(attribute_doubts(labels, rows, model._table, without))
