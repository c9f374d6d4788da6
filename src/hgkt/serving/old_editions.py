"""Editions of earlier revisions, for whoever asks what was answered then."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from hgkt.serving.editions import Edition

KEPT = 4
"""How many earlier editions are kept; one of a model with grown classes has its own matrices."""


class OldEditions:
    """The editions that were asked for last.

    Parameters
    ----------
    make : callable
        Makes the edition of a revision.
    """

    def __init__(self, make: Callable[[int], Edition]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._known: OrderedDict[int, Edition] = OrderedDict()

    def at(self, revision: int) -> Edition:
        """Return the edition of a revision; one is made at a time."""
        with self._lock:
            edition = self._known.pop(revision, None) or self._make(revision)
            self._known[revision] = edition
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
            return edition

    def forget(self) -> None:
        """Forget all: another history is there."""
        with self._lock:
            self._known.clear()
