"""Registries for tests, whose changes are asked for by name."""

from __future__ import annotations

from typing import Any

from hgkt.serving.events import (
    ClassEvent,
    FolderClasses,
    add_events,
    edit_events,
    remove_events,
    rollback_events,
)
from hgkt.serving.registry import ClassRegistry


class Registry(ClassRegistry):
    """A registry without a model; every change returns the revision that it made."""

    def write(self, make: Any, saved: Any = None, learned: Any = (), **asked: Any) -> int:
        self.folder = FolderClasses(frozenset(learned), saved or {})
        found = self.change(lambda table: (make(table, self.folder), []), **asked)
        return found.revision

    def add(self, entries: Any, **asked: Any) -> int:
        return self.write(lambda table, folder: add_events(table, folder, entries), **asked)

    def grow(self, sums: Any, **asked: Any) -> int:
        return self.write(lambda table, folder: add_events(table, folder, [], sums), **asked)

    def remove(self, names: Any, **asked: Any) -> int:
        return self.write(lambda table, folder: remove_events(table, folder, names), **asked)

    def edit(self, wanted: Any, **asked: Any) -> int:
        return self.write(lambda table, folder: edit_events(table, folder, wanted), **asked)

    def rollback(self, revision: int, **asked: Any) -> int:
        then = self.table_at(revision)
        return self.write(lambda table, _: rollback_events(table, then), **asked)

    def whole_log(self) -> list[ClassEvent]:
        self.table_at(self.revision())  # which checks every line
        return self.events(limit=10**9)
