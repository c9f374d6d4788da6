"""Added classes as the registry keeps them, and what can be wrong with a change of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_class_name
from hgkt.exceptions import DataError, HGKTError


class ClassExistsError(HGKTError, ValueError):
    """A class was to be added under a name that is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"class {name!r} is there already")
        self.name = name


class UnknownClassError(HGKTError, ValueError):
    """A class was asked for or to be changed that is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no class {name!r}")
        self.name = name


class ClassLearnedError(HGKTError, ValueError):
    """A class was to be removed or edited that the model learned from instances."""

    def __init__(self, name: str, change: str = "removed") -> None:
        super().__init__(f"class {name!r} was learned from instances and cannot be {change}")
        self.name = name


class NoGrowthError(HGKTError, ValueError):
    """Examples were sent to a model that cannot take them in."""


class UnknownRevisionError(HGKTError, ValueError):
    """A revision was asked for that the log does not lead to.

    Parameters
    ----------
    revision : int
        What was asked for.
    oldest, newest : int
        The first and the last revision that can be had.
    """

    def __init__(self, revision: int, oldest: int, newest: int) -> None:
        self.pruned = 0 <= revision < oldest
        reason = (
            f"the log was pruned and reaches back to revision {oldest}"
            if self.pruned
            else f"the newest is {newest}"
        )
        super().__init__(f"revision {revision} cannot be had; {reason}")


@dataclass(frozen=True)
class ClassEntry:
    """One added class.

    Parameters
    ----------
    name : str
        Up to 200 characters, without control characters; a label that is a number as text.
    attributes : ndarray of shape (n_attributes,)
        Attribute vector, float64; empty where the class is only named.
    text : str, optional
        The description that it was made from.
    added_at : str
        Time in ISO 8601, UTC; filled in by the registry.
    place : int
        By which classes are ordered; filled in by the registry.
    """

    name: str
    attributes: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    text: str | None = None
    added_at: str = ""
    place: int = field(repr=False, default=0)

    def same_as(self, other: ClassEntry) -> bool:
        """Return whether two entries agree in everything, bit by bit."""
        return (
            (self.name, self.text, self.added_at, self.place)
            == (other.name, other.text, other.added_at, other.place)
        ) and self.attributes.tobytes() == other.attributes.tobytes()


def utc_now() -> str:
    """Return the time as the registry writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def check_entries(entries: Sequence[ClassEntry]) -> None:
    """Refuse entries that no database could hold, or one name twice."""
    names = set()
    for entry in entries:
        check_class_name(entry.name)
        if entry.name in names:
            raise DataError(f"class {entry.name!r} was given twice")
        names.add(entry.name)
        if entry.attributes.ndim != 1 or not np.isfinite(entry.attributes).all():
            raise DataError(
                f"the attributes of class {entry.name!r} must be a vector of finite numbers"
            )
        if entry.text is not None:
            check_text(entry.text, f"the text of class {entry.name!r}")


def check_text(text: str, what: str) -> None:
    """Refuse text that no database could hold."""
    if any(character == "\0" or unicodedata.category(character) == "Cs" for character in text):
        raise DataError(f"{what} is not valid Unicode text")
