"""A model that follows its class registry: the current edition for readers, and earlier ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from hgkt.estimators import GZSLClassifier
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError
from hgkt.serving.database import RegistryError
from hgkt.serving.editions import Edition
from hgkt.serving.entries import ClassEntry, UnknownRevisionError
from hgkt.serving.events import ClassEvent
from hgkt.serving.old_editions import OldEditions
from hgkt.serving.polling import Polling
from hgkt.serving.registry import ClassRegistry

logger = logging.getLogger(__name__)


class FollowedModel:
    """A model that is kept level with its class registry.

    A thread looks every `poll_seconds` for what other processes have changed and puts a new
    edition in the place of the old one. Readers take `current()` once and work with that.
    `ServedModel`, which changes classes too, says what it takes.
    """

    def __init__(
        self, model: GZSLClassifier, registry: ClassRegistry, poll_seconds: float = 0.25
    ) -> None:
        self.registry = registry
        self.poll_seconds = poll_seconds
        self._base = view_of(model)
        self._saved = _saved_entries(model)
        self._learned = frozenset(map(str, model.seen_classes_.tolist()))
        self._n_attributes = model.class_attributes_.shape[1]
        self._changing = threading.Lock()
        self._old = OldEditions(self._load_at)
        self._polling = Polling(
            lambda: self.refresh(), poll_seconds, "hgkt-registry", self._not_followed
        )
        self.trouble: str | None = None
        self._current = self._load()

    # ------------------------------------------------------------------ reading
    def current(self) -> Edition:
        """Return the newest edition of this process; costs nothing."""
        return self._current

    def refresh(self) -> Edition:
        """Look for changes now and return the newest edition."""
        try:
            if self.registry.revision() != self._current.revision:
                with self._changing:
                    self._catch_up()
        except RegistryError as error:
            self.trouble = str(error)
            raise
        self.trouble = None
        return self._current

    def at(self, revision: int) -> Edition:
        """Return the edition of a revision, an earlier one perhaps.

        Raises `UnknownRevisionError` where the registry's log does not lead there.
        """
        if revision > self._current.revision:
            self.refresh()  # another process may have made the change just now
        current = self._current
        if revision == current.revision:
            return current
        oldest = self.registry.oldest()  # others may have pruned the log since it was made
        if revision < oldest:
            raise UnknownRevisionError(revision, oldest, current.revision)
        return self._old.at(revision)

    def healthy(self) -> bool:
        """Return whether the last look at the registry went well and the thread still looks."""
        alive = not self._polling.died()
        return alive and self.trouble is None

    def _reach(
        self,
        revision: int,
        log: Sequence[ClassEvent] = (),
        prepared: tuple[Edition, Edition] | None = None,
    ) -> Edition:
        """Return an edition at `revision`, the change that was just written, or later.

        Where nobody came between, what is written is known without asking again: as `log`, or as
        the edition that was prepared from another one.
        """
        with self._changing:
            known = self._current
            if prepared is not None and known is prepared[0] and known.revision == revision - 1:
                self._current = prepared[1]
            elif log and known.revision == revision - 1:
                self._current = known.follow(log) or self._load()
            elif known.revision < revision:
                self._catch_up()
        return self._current

    # ------------------------------------------------------------------ following the registry
    def _catch_up(self) -> None:
        """Put the newest edition in place; the lock for changes is held."""
        known = self._current
        log = self.registry.events_after(known.revision)
        if log and log[0].revision == known.revision + 1:
            with self._readable():
                followed = known.follow(log)
            self._current = followed or self._load()
        elif log or self.registry.revision() != known.revision:
            # The log has a gap or goes back: it was pruned, or the database was restored.
            self._old.forget()
            self._current = self._load()

    def _load(self) -> Edition:
        state = self.registry.state()
        with self._readable():
            return Edition.load(self._base, state)

    def _load_at(self, revision: int) -> Edition:
        state = self.registry.state_at(revision)
        with self._readable():
            return Edition.load(self._base, state)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say that the registry is damaged where its classes do not fit the model."""
        try:
            yield
        except DataError as error:
            logger.error("the class registry %s: %s", self.registry.place, error)
            raise RegistryError("corrupt", self.registry.place) from error

    # ------------------------------------------------------------------ the thread
    def start(self) -> Self:
        """Begin to follow what other processes change."""
        self._polling.start()
        return self

    def close(self) -> None:
        """Stop following and close the registry."""
        self._polling.stop()
        self.registry.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_details: object) -> None:
        self.close()

    def _not_followed(self) -> None:
        self.trouble = "the class registry could not be followed; the log says why"


def _saved_entries(model: GZSLClassifier) -> dict[str, ClassEntry]:
    """Return the added classes that a model folder itself holds."""
    rows = model._added_attributes.array
    names = map(str, model.unseen_classes_.tolist())
    return {name: ClassEntry(name, row) for name, row in zip(names, rows, strict=True)}
