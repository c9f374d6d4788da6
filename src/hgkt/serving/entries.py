"""What the class registry holds: entries, the log's events, and the errors they can cause."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError, HGKTError

MAX_NAME = 200


class ClassExistsError(HGKTError, ValueError):
    """A class was to be added under a name that is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"class {name!r} is there already")
        self.name = name


class UnknownClassError(HGKTError, ValueError):
    """A class was asked for or to be removed that is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no class {name!r}")
        self.name = name


class ClassLearnedError(HGKTError, ValueError):
    """A class was to be removed that the model learned from instances."""

    def __init__(self, name: str) -> None:
        super().__init__(f"class {name!r} was learned from instances and cannot be removed")
        self.name = name


@dataclass(frozen=True)
class ClassEntry:
    """One added class.

    Parameters
    ----------
    name : str
        Up to 200 characters, without control characters; a label that is a number as text.
    attributes : ndarray of shape (n_attributes,)
        Attribute vector, float64.
    text : str, optional
        The description that it was made from.
    added_at : str
        Time in ISO 8601, UTC; filled in by the registry.
    """

    name: str
    attributes: NDArray[np.float64] = field(repr=False)
    text: str | None = None
    added_at: str = ""


@dataclass(frozen=True)
class ClassEvent:
    """One line of the registry's log.

    Parameters
    ----------
    revision : int
        The change that it belongs to.
    kind : {"add", "remove"}
        What happened.
    entry : ClassEntry
        The class; its attributes are empty where it was removed.
    """

    revision: int
    kind: str
    entry: ClassEntry


@dataclass(frozen=True)
class RegistryState:
    """What is there at one moment.

    Parameters
    ----------
    revision : int
        Number of changes so far.
    entries : tuple of ClassEntry
        Added classes, in the order they came.
    removed : frozenset of str
        Classes of the model folder that were removed.
    """

    revision: int
    entries: tuple[ClassEntry, ...]
    removed: frozenset[str]


def utc_now() -> str:
    """Return the time as the registry writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def check_name(name: str) -> None:
    """Refuse a class name that cannot be stored, shown or put into an address.

    Examples
    --------
    >>> check_name("Grey-cheeked thrush / Bicknell's")
    >>> check_name("")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: a class name has 1 to 200 characters; got 0
    """
    if not 1 <= len(name) <= MAX_NAME:
        raise DataError(f"a class name has 1 to {MAX_NAME} characters; got {len(name)}")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise DataError(f"class {name!r} has a control character in its name")


def check_entries(entries: Sequence[ClassEntry]) -> None:
    """Refuse entries that no database could hold, or one name twice."""
    names = set()
    for entry in entries:
        check_name(entry.name)
        if entry.name in names:
            raise DataError(f"class {entry.name!r} was given twice")
        names.add(entry.name)
        if entry.attributes.ndim != 1 or not np.isfinite(entry.attributes).all():
            raise DataError(
                f"the attributes of class {entry.name!r} must be a vector of finite numbers"
            )
        if entry.text is not None and any(
            character == "\0" or unicodedata.category(character) == "Cs" for character in entry.text
        ):
            raise DataError(f"the text of class {entry.name!r} is not valid Unicode text")
