"""Names for things that can be chosen: methods, data sets.

An entry is an import string, so that listing the choices imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module, metadata
from typing import Any

from hgkt.exceptions import HGKTError, UnknownNameError, first_line


@dataclass(frozen=True)
class Entry:
    """One registered name.

    Parameters
    ----------
    target : str
        Where the object is, as ``"package.module:name"``.
    summary : str
        One line for lists and tables.
    reference : str
        Authors, title, venue; empty where there is none.
    family : str
        A heading that groups similar entries.
    shared_space : bool
        Whether a method takes class vectors of the features' space only.
    """

    target: str
    summary: str
    reference: str = ""
    family: str = ""
    shared_space: bool = False

    def load(self) -> Any:
        """Import the module and return the object."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class Registry(Mapping[str, Entry]):
    """Case-insensitive mapping from name to entry whose error lists the choices.

    Parameters
    ----------
    kind : str
        What the names stand for.
    entries : mapping
        The entries.
    shipped : str, optional
        Where a dict of further entries of this package is, as ``"package.module:name"``.
    entry_points : str, optional
        Group of entry points of other packages, each a dict of further entries.

    Both are read on first use.

    Examples
    --------
    >>> shapes = Registry("shape", {"path": Entry("pathlib:PurePath", "a path")})
    >>> shapes.load("PATH").__name__
    'PurePath'
    >>> shapes["square"]
    Traceback (most recent call last):
    hgkt.exceptions.UnknownNameError: unknown shape 'square'; choose from: path
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Entry],
        shipped: str | None = None,
        entry_points: str | None = None,
    ) -> None:
        self.kind = kind
        self._own = dict(entries)
        self._shipped = shipped
        self._group = entry_points

    @cached_property
    def _entries(self) -> dict[str, Entry]:
        """Own entries, and those of the dicts that installed packages name in the group."""
        found = dict(self._own)
        # By its import string, not by metadata: a source checkout has none.
        found |= Entry(self._shipped, "").load() if self._shipped else {}
        for point in metadata.entry_points(group=self._group) if self._group else ():
            for name, entry in _entries_of(point).items():
                found.setdefault(name.lower(), entry)
        return found

    def __getitem__(self, name: str) -> Entry:
        try:
            return self._entries[str(name).lower()]
        except KeyError:
            choices = ", ".join(self._entries)
            raise UnknownNameError(
                f"unknown {self.kind} {name!r}; choose from: {choices}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return str(name).lower() in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, name: str) -> Any:
        """Import and return the object registered under `name`."""
        entry = self[name]
        try:
            return entry.load()
        except HGKTError:  # says already what is missing, such as an extra
            raise
        except (ImportError, AttributeError, ValueError) as error:
            raise UnknownNameError(
                f"{self.kind} {name!r} cannot be imported from {entry.target!r}: "
                f"{first_line(error)}; package.module:Class is expected"
            ) from error

    def name_of(self, kind: type) -> str | None:
        """Return the name under which a class is registered, or None.

        Examples
        --------
        >>> from pathlib import PurePath
        >>> Registry("shape", {"path": Entry("pathlib:PurePath", "a path")}).name_of(PurePath)
        'path'
        """
        target = f"{kind.__module__}:{kind.__qualname__}"
        return next((name for name, entry in self.items() if entry.target == target), None)


def _entries_of(point: metadata.EntryPoint) -> Mapping[str, Entry]:
    """Load the entries that a package names; say in one sentence what is wrong with them."""
    where = f"entry point {point.name!r} of group {point.group} ({point.value})"
    try:
        table = point.load()
    except (ImportError, AttributeError) as error:
        raise UnknownNameError(f"{where} cannot be imported: {first_line(error)}") from error
    if not isinstance(table, Mapping):
        raise UnknownNameError(
            f"{where} is a {type(table).__name__}; a dict from name to hgkt.estimators.Entry is "
            "expected"
        )
    for name, entry in table.items():
        if not isinstance(entry, Entry):
            raise UnknownNameError(
                f"{where}: {name!r} is a {type(entry).__name__}; an hgkt.estimators.Entry is "
                'expected, as Entry("package.module:Class", "one line about it")'
            )
    return table
