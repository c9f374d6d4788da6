"""Checks of what users hand in: class names, attribute tables, arrays, parameters, extras."""

from __future__ import annotations

import contextlib
import numbers
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt.exceptions import DataError, MissingExtraError

_CHUNK_ROWS = 4096
LONGEST_ROW = 1e18  # its square, and sums of a few, are far below the largest float32
_MOST_SHOWN = 120  # characters of a label in a message
_INSTALLED_AS = {"ot": "POT", "PIL": "pillow"}

MAX_NAME = 200
UNKNOWN = "<unknown>"
"""What a row is labelled that looks like none of the known classes; no class may have this name."""
_GROUPS = frozenset({"all", "seen", "unseen"})
_INVISIBLE = {
    "Cc": "a control character",
    "Cf": "an invisible character (zero-width or bidirectional)",
    "Cs": "half a character (a lone surrogate)",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def check_finite(array: NDArray[Any], what: str) -> None:
    """Refuse NaN and infinity, naming the first row that has one.

    Works in chunks of rows, so that a memory-mapped matrix is never copied whole.

    Examples
    --------
    >>> check_finite(np.array([[0.0, 1.0], [np.nan, 2.0]]), "features")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: features contain NaN in row 1; only finite numbers are accepted
    """
    if array.dtype.kind not in "fc":
        return
    for start in range(0, len(array), _CHUNK_ROWS):
        finite = np.isfinite(array[start : start + _CHUNK_ROWS])
        if finite.all():
            continue
        row = start + int(np.flatnonzero(~finite.reshape(len(finite), -1).all(axis=1))[0])
        kind = "NaN" if np.isnan(array[row]).any() else "infinity (inf)"
        raise DataError(f"{what} contain {kind} in row {row}; only finite numbers are accepted")


def check_features(array: NDArray[Any], what: str) -> None:
    """Refuse rows that are not finite, or too long to be scaled or compared in float32.

    Squares of such numbers overflow: a row divided by an infinite length scores like zeros.

    Examples
    --------
    >>> check_features(np.array([[1.0, 2.0], [3e38, 0.0]]), "features")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: features have a length over 1e+18 in row 1; scale them to \
ordinary numbers
    """
    for start in range(0, len(array), _CHUNK_ROWS):
        rows = np.asarray(array[start : start + _CHUNK_ROWS])
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", rows, rows, dtype=np.result_type(rows, np.float32))
        if not (squares <= LONGEST_ROW**2).all():
            check_finite(array, what)
            row = start + int(np.flatnonzero(~(squares <= LONGEST_ROW**2))[0])
            raise DataError(
                f"{what} have a length over {LONGEST_ROW:g} in row {row}; scale them to ordinary "
                "numbers"
            )


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a parameter value that is not among the choices."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise DataError(f"{name} must be one of {listed}; got {value!r}")


def check_number(
    name: str,
    value: object,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    integer: bool = False,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Refuse a parameter that is no number or lies outside ``[low, high]``, or its open form."""
    kind = numbers.Integral if integer else numbers.Real
    good = isinstance(value, kind) and not isinstance(value, bool | np.bool_)
    if good:
        number = float(value)  # type: ignore[arg-type]
        good = low < number if open_low else low <= number
        good &= number < high if open_high else number <= high
    if not good:
        word = "an integer" if integer else "a number"
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise DataError(f"{name} must be {word} in {left}{low:g}, {high:g}{right}; got {value!r}")


def attribute_table(class_attributes: Any, argument: str = "class_attributes") -> dict[Any, Any]:
    """Turn a mapping or a DataFrame keyed by class into ``{class: vector}``.

    A bare array is refused: inside cross-validation a fold holds fewer classes and the rows of an
    array would slip silently to other classes.

    Examples
    --------
    >>> attribute_table({"horse": [0, 1]})
    {'horse': [0, 1]}
    >>> attribute_table(np.eye(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hgkt.exceptions.DataError: class_attributes must map each class to its attribute vector ...
    """
    if isinstance(class_attributes, Mapping):
        return dict(class_attributes)
    if hasattr(class_attributes, "index") and not hasattr(class_attributes, "columns"):
        raise DataError(
            f"{argument} is one {type(class_attributes).__name__}; a vector per class is expected: "
            "{class: vector}, or a DataFrame indexed by class"
        )
    if hasattr(class_attributes, "index") and hasattr(class_attributes, "to_numpy"):
        if class_attributes.index.has_duplicates:
            twice = class_attributes.index[class_attributes.index.duplicated()][0]
            raise DataError(f"{argument} has class {twice!r} twice; one row per class is expected")
        if "name" in class_attributes.columns:
            raise DataError(
                f"{argument} has its classes in a column 'name'; they are expected in the index: "
                "use frame.set_index('name')"
            )
        return dict(zip(class_attributes.index, class_attributes.to_numpy(), strict=True))
    raise DataError(
        f"{argument} must map each class to its attribute vector (a dict or a DataFrame indexed "
        "by class), because the rows of a bare array do not say which class they belong to; "
        f"got {type(class_attributes).__name__}"
    )


def attribute_matrix(
    table: Mapping[Any, ArrayLike], classes: Sequence[Hashable], n_attributes: int | None = None
) -> NDArray[np.float64]:
    """Stack the vectors of `classes`, in that order, after checking each one.

    Parameters
    ----------
    table : mapping of class to vector
        The attribute vectors.
    classes : sequence
        The classes wanted; each must be in `table`.
    n_attributes : int, optional
        The length expected; by default that of the first vector.

    Returns
    -------
    ndarray of shape (len(classes), n_attributes)

    Examples
    --------
    >>> attribute_matrix({"a": [1, 2], "b": [3, 4]}, ["b", "a"])
    array([[3., 4.],
           [1., 2.]])
    """
    rows = []
    for name in classes:
        if name not in table:
            raise DataError(
                f"class {label_text(name)} has no attributes in class_attributes"
                f"{_hint(name, table)}"
            )
        if np.iscomplexobj(table[name]):
            raise DataError(f"the attributes of class {label_text(name)} are not real numbers")
        try:
            row = np.asarray(table[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"the attributes of class {label_text(name)} are not numbers") from None
        if row.ndim != 1:
            raise DataError(
                f"the attributes of class {label_text(name)} must be a vector; "
                f"got shape {row.shape}"
            )
        n_attributes = len(row) if n_attributes is None else n_attributes
        if len(row) != n_attributes:
            raise DataError(
                f"class {label_text(name)} has {len(row)} attributes; {n_attributes} are expected"
            )
        if not np.isfinite(row).all():
            column = int(np.flatnonzero(~np.isfinite(row))[0])
            raise DataError(
                f"the attributes of class {label_text(name)} contain NaN or infinity at position "
                f"{column}; only finite numbers are accepted"
            )
        rows.append(row)
    if n_attributes == 0:
        raise DataError("attribute vectors are empty; at least one attribute is expected")
    return np.array(rows, dtype=np.float64).reshape(len(rows), n_attributes or 0)


def _hint(name: Hashable, table: Mapping[Any, ArrayLike]) -> str:
    """Say what is probably wrong with a table that has no row for a class."""
    other: Any = name
    with contextlib.suppress(ValueError):
        other = int(name) if isinstance(name, str) else str(name)
    if other in table:
        kinds = "strings" if isinstance(other, str) else "numbers"
        return f"; its keys are {kinds}, the labels are not: use one kind for both"
    return ""


def label_text(label: Any) -> str:
    """Show a class label as a person would write it: ``'horse'``, ``3``."""
    text = repr(label.item() if isinstance(label, np.generic) else label)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def label_of(model: Any, name: str) -> Any:
    """Turn a name, always text, into a label of the kind a model has: a string or a number."""
    kind = model.seen_classes_.dtype.kind
    if kind not in "iuf":
        return name
    try:
        label = float(name) if kind == "f" else int(name)
    except ValueError:
        raise DataError(f"the classes of this model are numbers; got {name!r}") from None
    if not abs(label) < 2**63:  # infinity and NaN neither
        raise DataError(f"the classes of this model are numbers below 2**63; got {name!r}")
    return label


def import_extra(module: str, extra: str) -> ModuleType:
    """Import an optional dependency or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"this needs the package {_INSTALLED_AS.get(package, package)!r}; install it with "
            f"pip install 'hgkt[{extra}]'"
        ) from error


def label_list(classes: Any) -> list[Any]:
    """Turn a sequence of labels into a list of plain strings or numbers."""
    if isinstance(classes, str):
        raise DataError(f"a list of classes is expected; got the string {classes!r}")
    if not isinstance(classes, Iterable):
        raise DataError(f"a list of classes is expected; got {classes!r}")
    return [name.item() if isinstance(name, np.generic) else name for name in classes]


def label_array(names: list[Any], like: NDArray[Any]) -> NDArray[Any]:
    """Make an array of labels of the kind that `like` has."""
    if like.dtype.kind == "O":
        array = np.empty(len(names), dtype=object)
        array[:] = names
        return array
    return np.array(names)


def check_class_name(name: Any) -> None:
    """Refuse a name that cannot be stored, shown or told from another; numbers are fine.

    A name has 1 to 200 characters in Unicode's form NFC, does not begin or end with a blank, and
    has no control, bidirectional or zero-width character. It is none of `all`, `seen` and `unseen`,
    which are groups of classes, and no step of a path.

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
    if name in _GROUPS:
        raise DataError(f"no class may be called {name!r}; that is a group of classes in among")
    if name in (".", ".."):
        raise DataError(
            f"class {name!r} cannot be asked for over HTTP, where such a step in a path is dropped"
        )
    if not name.strip():
        raise DataError(
            f"a class has the blank name {name[:20]!r}; at least one visible character is expected"
        )
    if len(name) > MAX_NAME:
        raise DataError(f"a class name has 1 to {MAX_NAME} characters; got {len(name)}")
    for character in name if not (name.isascii() and name.isprintable()) else "":
        what = _INVISIBLE.get(unicodedata.category(character))
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
