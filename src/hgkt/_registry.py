"""Names for things that can be chosen: methods, data sets.

An entry is an import string, so that listing the choices imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hgkt.exceptions import UnknownNameError


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
    """

    target: str
    summary: str
    reference: str = ""
    family: str = ""

    def load(self) -> Any:
        """Import the module and return the object."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


class Registry(Mapping[str, Entry]):
    """Case-insensitive mapping from name to entry whose error lists the choices.

    Examples
    --------
    >>> shapes = Registry("shape", {"path": Entry("pathlib:PurePath", "a path")})
    >>> shapes.load("PATH").__name__
    'PurePath'
    >>> shapes["square"]
    Traceback (most recent call last):
    hgkt.exceptions.UnknownNameError: unknown shape 'square'; choose from: path
    """

    def __init__(self, kind: str, entries: Mapping[str, Entry]) -> None:
        self.kind = kind
        self._entries = dict(entries)

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
        return self[name].load()
