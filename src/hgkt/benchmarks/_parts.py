"""A benchmark that takes long, measured part by part into one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hgkt._files import read_json, write_file
from hgkt._plain import json_text
from hgkt._typing import Progress
from hgkt._validation import check_choice
from hgkt.exceptions import DataError

Row = dict[str, Any]


def measure_parts(
    parts: Mapping[str, Callable[[], Row]],
    document: Callable[[list[Row]], dict[str, Any]],
    rows_of: Callable[[dict[str, Any]], list[Row]],
    only: Sequence[str] = (),
    record: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure what a record lacks, write it after each part, and return the whole.

    Parameters
    ----------
    parts : mapping of str to callable
        What measures each part and returns its row, which has the part's name as ``name``.
    document : callable
        Makes the record of the rows there are.
    rows_of : callable
        Returns the rows that a record holds.
    only : sequence of str
        Parts to measure now, again where the record has them; by default those that it lacks.
    record : path, optional
        Where rows are kept. What is there must come from the same machine and versions.
    progress : callable, optional
        Called as ``progress(part, done, total, {})`` before each part and at the end.

    Returns
    -------
    dict
        The record, rows in the order of `parts`.

    Examples
    --------
    >>> parts = {name: lambda name=name: {"name": name} for name in ("a", "b")}
    >>> whole = lambda rows: {"environment": {}, "rows": rows}
    >>> measure_parts(parts, whole, lambda record: record["rows"], only=["b"])["rows"]
    [{'name': 'b'}]
    """
    for name in only:
        check_choice("part", name, tuple(parts))
    rows = {} if record is None else _kept(Path(record), document([]), rows_of)
    wanted = [name for name in parts if (name in only if only else name not in rows)]
    for done, name in enumerate(wanted):
        _tell(progress, name, done, len(wanted))
        rows[name] = parts[name]()
        if record is not None:
            write_file(record, json_text(document(_ordered(parts, rows))))
    _tell(progress, wanted[-1] if wanted else "nothing left", len(wanted), len(wanted))
    return document(_ordered(parts, rows))


def parts_of(keys: Mapping[str, Sequence[str]]) -> Callable[[dict[str, Any]], list[Row]]:
    """Return how to read parts from a record that holds each under keys of its own.

    Examples
    --------
    >>> read = parts_of({"speed": ["rows", "seconds"], "memory": ["peak"]})
    >>> read({"rows": 5, "seconds": 2.0, "notes": []})
    [{'name': 'speed', 'rows': 5, 'seconds': 2.0}]
    """

    def read(record: dict[str, Any]) -> list[Row]:
        return [
            {"name": name, **{key: record[key] for key in own}}
            for name, own in keys.items()
            if all(key in record for key in own)
        ]

    return read


def merged(parts: Sequence[Row]) -> dict[str, Any]:
    """Return what parts hold, without their names: the other way of `parts_of`."""
    return {key: value for part in parts for key, value in part.items() if key != "name"}


def _ordered(parts: Mapping[str, Any], rows: Mapping[str, Row]) -> list[Row]:
    return [rows[name] for name in parts if name in rows]


def _tell(progress: Progress | None, name: str, done: int, total: int) -> None:
    if progress is not None:
        progress(name, done, max(total, 1), {})


def _kept(
    path: Path, now: dict[str, Any], rows_of: Callable[[dict[str, Any]], list[Row]]
) -> dict[str, Row]:
    """Return the rows of a record by name; one that was measured elsewhere is refused."""
    if not path.exists():
        return {}
    found = read_json(path)
    for name in sorted(_surroundings(now) | _surroundings(found)):
        before, after = (_surroundings(document).get(name) for document in (found, now))
        if before != after:
            raise DataError(
                f"{path} was measured with {name} = {before!r}, now it is {after!r}; "
                "choose another file, or measure all parts again"
            )
    return {row["name"]: row for row in rows_of(found)}


def _surroundings(document: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for figures to stand in one record."""
    outer = {name: document.get(name) for name in ("name", "quick", "device")}
    inner = {k: v for k, v in document.get("environment", {}).items() if k != "load"}
    return {**outer, **inner}
