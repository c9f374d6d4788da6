"""What the tables keep of classes, of their growth and of the log, and the way back."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hgkt.serving import schema
from hgkt.serving.entries import ClassEntry
from hgkt.serving.events import ClassEvent, EventKind, Origin
from hgkt.statistics import ExampleSums

LISTED = tuple(column for column in schema.events.columns if column.name != "sums")
"""The columns of the log that are light: all but the sums."""


def class_row(entry: ClassEntry) -> dict[str, Any]:
    """Return what the table of classes keeps of one."""
    return {
        "name": entry.name,
        "attributes": _octets(entry),
        "text": entry.text,
        "added_at": entry.added_at,
        "place": entry.place or None,
    }


def class_entry(row: Any) -> ClassEntry:
    """Return the class that a row of the table of classes keeps."""
    return ClassEntry(row.name, _numbers(row.attributes), row.text, row.added_at, row.place or 0)


def growth_row(name: str, sums: ExampleSums) -> dict[str, Any]:
    """Return what the table of growth keeps of one class."""
    return {"name": name, "n_examples": sums.n_examples, "sums": sums.to_bytes()}


def event_row(event: ClassEvent) -> dict[str, Any]:
    """Return what the log keeps of one line, but whose it is and its position."""
    entry, before = event.entry, event.before
    sums = None if event.sums is None else event.sums.to_bytes()
    return {
        "revision": event.revision,
        "kind": event.kind,
        "name": entry.name,
        "attributes": _octets(entry) if event.there else None,
        "text": entry.text if event.there else None,
        "created_at": event.created_at,
        "added_at": entry.added_at if event.there else None,
        "place": (entry.place or None) if event.there else None,
        "hides": event.hides,
        "old_name": None if before is None else before.name,
        "old_attributes": None if before is None else _octets(before),
        "old_text": None if before is None else before.text,
        "n_before": event.n_before or None,
        "n_examples": event.n_examples or None,
        "target": event.target,
        "who": event.origin.who,
        "reason": event.origin.reason,
        "sums": sums,
        "sums_digest": None if sums is None else hashlib.sha256(sums).hexdigest(),
    }


def class_event(row: Any) -> ClassEvent:
    """Return the line that a row of the log keeps; its sums where they were read too."""
    there = row.attributes is not None
    added_at = row.added_at or row.created_at
    before = None
    if row.old_name is not None:
        before = ClassEntry(row.old_name, _numbers(row.old_attributes), row.old_text)
    octets = row._mapping.get("sums")
    return ClassEvent(
        row.revision,
        cast("EventKind", row.kind),
        ClassEntry(row.name, _numbers(row.attributes), row.text, added_at, row.place or 0),
        before=before,
        there=there,
        hides=row.hides,
        n_before=row.n_before or 0,
        n_examples=row.n_examples or 0,
        sums=None if octets is None else ExampleSums.from_bytes(octets),
        target=row.target,
        origin=Origin(row.who, row.reason),
        created_at=row.created_at,
    )


def sums_intact(row: Any) -> bool:
    """Return whether the sums of a line are those that were written."""
    octets = row._mapping.get("sums")
    found = None if octets is None else hashlib.sha256(octets).hexdigest()
    return bool(found == row.sums_digest)


def _octets(entry: ClassEntry) -> bytes:
    return np.asarray(entry.attributes, dtype="<f8").tobytes()


def _numbers(octets: bytes | None) -> NDArray[np.float64]:
    return np.frombuffer(octets or b"", dtype="<f8").astype(np.float64)
