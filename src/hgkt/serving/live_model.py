"""The served model: the current edition for readers, kept level with the class registry."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import attribute_matrix, check_class_name, label_of
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.class_table import attribute_doubts
from hgkt.exceptions import DataError
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import (
    Edition,
    made_with,
    model_identity,
    refuse_unsound,
    refuse_unusable,
    saved_entries,
)
from hgkt.serving.events import (
    ClassEntry,
    ClassEvent,
    ClassExistsError,
    ClassLearnedError,
    ClassTable,
    NoGrowthError,
    UnknownClassError,
    UnknownRevisionError,
    add_grown_events,
    replay,
    stamp_events,
)
from hgkt.serving.registry import AnsweredError, Asked, ClassRegistry, KeyedRequest, Receipt

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
        Where added classes are kept.
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
        self.saved = saved_entries(model)
        self.trouble: str | None = None
        self._changing, self._describing = threading.Lock(), threading.Lock()
        self._growing, self._recalling = threading.Lock(), threading.Lock()
        self._old: OrderedDict[int, Edition] = OrderedDict()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        table = registry.table()
        with self._readable():
            self._current = Edition.load(self.base, table)

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
            edition = self._old.pop(revision, None)
            if edition is None:
                table = self.registry.table_at(revision)
                with self._readable():
                    edition = Edition.load(self.base, table)
            self._old[revision] = edition
            if len(self._old) > N_OLD_EDITIONS:
                self._old.popitem(last=False)
            return edition

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
                with self._recalling:
                    self._old.clear()  # perhaps another history
            if prepared is not None and prepared.revision == table.revision:
                self._current = replace(prepared, table=table)
            else:
                with self._readable():
                    self._current = known.follow(self.base, table, grown)
            return self._current

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
    def add(
        self,
        descriptions: Sequence[ClassDescription],
        **asked: Unpack[Asked],
    ) -> tuple[Edition, list[str]]:
        """Add described classes, all or nothing.

        Parameters
        ----------
        descriptions : sequence of ClassDescription
            The classes.
        **asked
            By what it is asked for; see `Asked`.

        Returns
        -------
        edition : Edition
            One that has the classes.
        doubts : list of str
            What is doubtful about them, in sentences.
        """
        entries, doubts = self._described(self.refresh(), descriptions)
        self.registry.add(entries, saved=self.saved, doubts=doubts, **asked)
        return self._catch_up(), doubts

    def _described(
        self, edition: Edition, descriptions: Sequence[ClassDescription]
    ) -> tuple[list[ClassEntry], list[str]]:
        """Return new classes as the registry keeps them, and what is doubtful about them."""
        names = [self._free_name(edition, one.name) for one in descriptions]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"class {twice!r} was given twice")
        vectors = dict(zip(names, self.vectors(descriptions), strict=True))
        labels = {label_of(edition.model, name): vector for name, vector in vectors.items()}
        doubts = edition.model.class_doubts(labels)
        refuse_unusable(self.base, vectors)
        entries = [
            ClassEntry(name, vectors[name], _text(one))
            for name, one in zip(names, descriptions, strict=True)
        ]
        return entries, doubts

    def remove(
        self,
        names: Sequence[str],
        **asked: Unpack[Asked],
    ) -> Edition:
        """Remove added classes, all or nothing; return an edition without them."""
        edition = self.refresh()
        leaving = [self._changeable(edition, name, "removed") for name in dict.fromkeys(names)]
        self.registry.remove(leaving, saved=self.saved, **asked)
        return self._catch_up()

    def edit(
        self,
        name: str,
        description: ClassDescription | None = None,
        new_name: str | None = None,
        **asked: Unpack[Asked],
    ) -> tuple[Edition, list[str]]:
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

        Returns
        -------
        edition : Edition
            One that has it so.
        doubts : list of str
            What is doubtful about it, in sentences.
        """
        edition = self.refresh()
        if description is None and new_name is None:
            raise DataError(f"nothing was said that class {name!r} is to become")
        old = self._changeable(edition, name, "edited")
        new = old if new_name is None else edition.canonical(new_name)
        if new != old:
            self._free_name(edition, str(new_name))
        wanted: ClassEntry | str = new
        if description is None:
            vector = edition.model.class_attributes_[edition.columns[old]]
        else:
            vector = self.vectors([description])[0]
            refuse_unusable(self.base, {new: vector})
            wanted = ClassEntry(new, np.asarray(vector, dtype=np.float64), _text(description))
        doubts = _edit_doubts(edition, old, new, vector)
        self.registry.edit({old: wanted}, saved=self.saved, doubts=doubts, **asked)
        return self._catch_up(), doubts

    def grow(
        self,
        name: str,
        X: NDArray[Any],
        **asked: Unpack[Asked],
    ) -> Edition:
        """Let a class learn from feature rows (n, n_features) of its own; return an edition so.

        Their sums are kept, the rows are not. The model is tried before anything is written.
        """
        with self._growing:  # one after another: every change solves the model anew
            edition = self.refresh()
            self.check_growth()
            known = edition.names[edition.find(name)]
            return self._add_grown(edition, [], known, X, [], asked)[0]

    def teach(
        self,
        description: ClassDescription,
        X: NDArray[Any],
        **asked: Unpack[Asked],
    ) -> tuple[Edition, int, list[str]]:
        """Let a class learn from feature rows, and add it where it is not there, in one change.

        A class that is there keeps its description. Parameters are those of `add` and `grow`.

        Returns
        -------
        edition : Edition
            One that has the class.
        revision : int
            The number of the change.
        doubts : list of str
            What is doubtful about the description, in sentences.
        """
        with self._growing:
            edition = self.refresh()
            self.check_growth()
            name = edition.canonical(description.name)
            if name in edition.columns:
                return *self._add_grown(edition, [], name, X, [], asked), []
            entries, doubts = self._described(edition, [description])
            return *self._add_grown(edition, entries, name, X, doubts, asked), doubts

    def _add_grown(
        self,
        edition: Edition,
        entries: list[ClassEntry],
        name: str,
        X: NDArray[Any],
        doubts: list[str],
        asked: Asked,
    ) -> tuple[Edition, int]:
        """Add classes, and let one grow, where the model that comes of it is sound."""
        sums = {name: edition.model.example_sums(X)}

        def make(table: ClassTable) -> list[ClassEvent]:
            return add_grown_events(table, entries, sums, self.saved, edition.learned)

        log = stamp_events(make(edition.table), edition.revision + 1)
        table, grown = replay(edition.table, log)
        trial = edition.follow(self.base, table, grown)
        refuse_unsound(trial.model, name)
        revision = self.registry.change(make, saved=self.saved, doubts=doubts, **asked)
        return self._catch_up(trial), revision

    def check_growth(self) -> None:
        """Refuse examples where the method of the model cannot take them in."""
        if not self.base.can_grow:
            raise NoGrowthError(
                f"the method of this model, {type(self.base).__name__}, cannot learn from more "
                "examples once it is fitted"
            )

    def rollback(self, revision: int, **asked: Unpack[Asked]) -> Edition:
        """Make the classes what they were at a revision, by a change of its own."""
        self.refresh()
        self.at(revision)  # a table that no longer fits the model is refused before it is written
        self.registry.rollback(revision, saved=self.saved, **asked)
        return self._catch_up()

    def once(self, request: KeyedRequest, change: Callable[[], object]) -> Receipt:
        """Make a change, unless its request was answered before; return the receipt.

        Parameters
        ----------
        request : KeyedRequest
            What asks for it.
        change : callable
            Makes it, by `add` or `remove` with the same request.
        """
        receipt = self.registry.receipt(request)
        if receipt is None:
            try:
                change()
            except (AnsweredError, ClassExistsError, UnknownClassError):
                # The same request may have been faster, in this process or another.
                receipt = self.registry.receipt(request)
                if receipt is None:
                    raise
        receipt = receipt or self.registry.receipt(request)
        if receipt is None:
            raise RegistryError("corrupt", self.registry.place)  # it was written a moment ago
        if self._current.revision < receipt.revision:
            self.refresh()
        return receipt

    def _free_name(self, edition: Edition, given: str) -> str:
        """Return a name for a new class as the model writes it; refuse one that cannot be."""
        name = edition.canonical(given)
        check_class_name(name)
        if name in edition.columns:
            raise ClassExistsError(given)
        return name

    def _changeable(self, edition: Edition, name: str, change: str) -> str:
        """Return the name of a class that was added, as the model writes it."""
        known = edition.names[edition.find(name)]
        if known in edition.learned:
            raise ClassLearnedError(known, change)
        return known


def _edit_doubts(edition: Edition, name: str, new_name: str, vector: Any) -> list[str]:
    """Say what is doubtful about a class as it would be; refuse a name too like another's."""
    model = edition.model
    label = label_of(model, new_name)
    without = [label_of(model, name)]
    model._table.refuse_new([label], without)
    rows = attribute_matrix({label: vector}, [label], model.class_attributes_.shape[1])
    return list(attribute_doubts([label], rows, model._table, without))


def _text(description: ClassDescription) -> str | None:
    return "\n".join(description.texts or []) or None
