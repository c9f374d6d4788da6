"""The one rule for class names, at every door: Python, files, the command line, the service."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from hgkt.exceptions import DataError

MAX_NAME = 200
UNKNOWN = "<unknown>"
"""What a row is labelled that looks like none of the known classes; no class may have this name."""
_UNSEEN = {
    "Cc": "a control character",
    "Cf": "an invisible character (zero-width or bidirectional)",
    "Cs": "half a character (a lone surrogate)",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def check_class_name(name: Any) -> None:
    """Refuse a name that cannot be stored, shown or told from another; numbers are fine.

    A name has 1 to 200 characters in Unicode's form NFC, does not begin or end with a blank, and
    has no control, bidirectional or zero-width character.

    Examples
    --------
    >>> check_class_name("Grey-cheeked thrush / Bicknell's")
    >>> check_class_name("zebra ")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: class 'zebra ' begins or ends with a blank; leave it out
    """
    if not isinstance(name, str):
        return
    if name == UNKNOWN:
        raise DataError(
            f"no class may be called {UNKNOWN!r}; that is what rejected rows are labelled"
        )
    if not name.strip():
        raise DataError(
            f"a class has the blank name {name[:20]!r}; at least one visible character is expected"
        )
    if len(name) > MAX_NAME:
        raise DataError(f"a class name has 1 to {MAX_NAME} characters; got {len(name)}")
    for character in name if not (name.isascii() and name.isprintable()) else "":
        what = _UNSEEN.get(unicodedata.category(character))
        if what:
            raise DataError(
                f"class {name!r} has {what} in its name, U+{ord(character):04X}; leave it out"
            )
    if name != name.strip():
        raise DataError(f"class {name!r} begins or ends with a blank; leave it out")
    if not unicodedata.is_normalized("NFC", name):
        raise DataError(
            f"class {name!r} is not in Unicode's form NFC; write it as "
            "unicodedata.normalize('NFC', name)"
        )


def twin_key(name: Any) -> Any:
    """Return what two names share that a person would take for the same one.

    Examples
    --------
    >>> twin_key("Polar  Bear") == twin_key("polar bear"), twin_key(7)
    (True, 7)
    """
    if not isinstance(name, str):
        return name
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name)
    return " ".join(plain.casefold().split())


def refuse_twins(names: Iterable[Any]) -> None:
    """Check every name, and refuse two that differ by case, blanks or Unicode form only.

    Examples
    --------
    >>> refuse_twins(["zebra", "Zebra"])
    Traceback (most recent call last):
    hgkt.exceptions.DataError: class 'Zebra' differs from class 'zebra' by case or blanks only
    """
    keys: dict[Any, Any] = {}
    for name in names:
        check_class_name(name)
        refuse_twin(name, keys.setdefault(twin_key(name), name))


def refuse_twin(name: Any, known: Any) -> None:
    """Refuse a name beside one that is the same but for case, blanks or Unicode form."""
    if name != known:
        raise DataError(f"class {name!r} differs from class {known!r} by case or blanks only")
