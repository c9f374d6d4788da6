"""From a list of class names and descriptions to a file of class vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, refuse_twins
from hgkt.data.attributes import TEXT, AttributeFile
from hgkt.data.tables import check_named, parse_classes, parse_seen, read_frame, read_table
from hgkt.exceptions import DataError
from hgkt.language.encoder import Encoder, uses_description


@dataclass(frozen=True, eq=False)
class ClassList:
    """Classes as a table tells them, before anything is encoded.

    Parameters
    ----------
    where : str
        Where they come from, for messages.
    texts : mapping of str to list of str
        The descriptions of each class; an empty one means that the name is all there is.
    numbers : ndarray of shape (n_classes, n_numbers), optional
        Attributes that stand beside the text.
    number_names : tuple of str, optional
        What they mean.
    seen : tuple of bool, optional
        Which classes are meant to be seen in training.
    vectors : AttributeFile, optional
        Vectors of the classes that are ready; then there is nothing to encode.
    parents : mapping of str to str
        The group of each class, and of each group, that lies in one.
    """

    where: str
    texts: Mapping[str, list[str]]
    numbers: NDArray[np.float64] | None = None
    number_names: tuple[str, ...] | None = None
    seen: tuple[bool, ...] | None = None
    vectors: AttributeFile | None = None
    parents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class DescribedClasses:
    """Class vectors made of words, and what they were made of.

    Parameters
    ----------
    file : AttributeFile
        Names, vectors, and the encoder; see `hgkt.data.write_attribute_file`.
    descriptions : tuple of str
        A text for each class; several are joined.
    sentences : tuple of str
        Every sentence that was encoded.
    n_cut : int
        How many of them were longer than the encoder reads.
    """

    file: AttributeFile
    descriptions: tuple[str, ...]
    sentences: tuple[str, ...]
    n_cut: int


def read_class_list(path: str | Path, with_attributes: str | Path | None = None) -> ClassList:
    """Read a table with ``name`` and, optionally, ``description`` and ``seen``.

    Parameters
    ----------
    path : path
        A .csv or .parquet file. Several rows of one class are several sentences.
    with_attributes : path, optional
        A table whose numeric attributes stand beside the text; it may be the same table.

    Returns
    -------
    ClassList
    """
    classes = class_list(read_frame(Path(path)), str(path))
    if with_attributes is None:
        return classes
    frame, origin = read_table(Path(with_attributes))
    if origin.get("encoder"):
        raise DataError(
            f"{with_attributes} was made by a sentence encoder; a table of numbers is expected"
        )
    return with_numbers(classes, frame, str(with_attributes))


def class_list(frame: pd.DataFrame, where: str) -> ClassList:
    """Make a list of the classes of a table that is in memory; see `read_class_list`.

    Parameters
    ----------
    frame : DataFrame
        ``name`` and, optionally, ``description`` and ``seen``.
    where : str
        How to call the table in messages.

    Returns
    -------
    ClassList

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"name": ["zebra", "horse"], "description": ["with stripes", None]})
    >>> class_list(table, "table").texts
    {'zebra': ['with stripes'], 'horse': ['']}
    """
    check_named(frame, Path(where))
    texts: dict[str, list[str]] = {}
    descriptions = frame["description"] if "description" in frame else [""] * len(frame)
    for row, (name, text) in enumerate(zip(frame["name"], descriptions, strict=True)):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"row {row} of {where} has no name")
        texts.setdefault(name, []).append(text.strip() if isinstance(text, str) else "")
    if not texts:
        raise DataError(f"{where} holds no class")
    try:
        refuse_twins(texts)
    except DataError as error:
        raise DataError(f"{where}: {error}") from None
    return ClassList(where, texts, seen=_seen(frame, where))


def with_numbers(classes: ClassList, frame: pd.DataFrame, where: str) -> ClassList:
    """Return a list of classes with the numeric attributes of a table beside the text.

    Parameters
    ----------
    classes : ClassList
        The classes; each needs a row.
    frame : DataFrame
        ``name`` and the numbers; several rows of one class must agree.
    where : str
        How to call the table in messages.
    """
    names, rows, attribute_names = parse_classes(frame, Path(where))
    table: dict[str, Any] = {}
    for name, row in zip(names, rows, strict=True):
        if not np.array_equal(table.setdefault(name, row), row, equal_nan=True):
            raise DataError(f"{where} has class {name!r} twice, with other attributes")
    for name in classes.texts:
        if name not in table:
            raise DataError(f"class {name!r} has no row in {where}")
    numbers = attribute_matrix(table, list(classes.texts))
    return replace(classes, numbers=numbers, number_names=attribute_names)


def describe_classes(
    classes: ClassList, encoder: Encoder, progress: Progress | None = None
) -> DescribedClasses:
    """Encode a list of classes.

    Parameters
    ----------
    classes : ClassList
        The classes. The vectors of several sentences are averaged, and the mean is scaled to
        length one. Numbers come in front of the text; each part is scaled to length one then.
    encoder : Encoder
        What encodes them.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.

    Returns
    -------
    DescribedClasses
    """
    texts, template = classes.texts, encoder.record["template"]
    if any(text for rows in texts.values() for text in rows) and not uses_description(template):
        raise DataError(
            f"{classes.where} has descriptions, but the template {template!r} has no place for "
            "them; add {description} to it"
        )
    sentences = tuple(chain.from_iterable(encoder.sentences(*pair) for pair in texts.items()))
    vectors = encoder.describe(list(texts.items()), progress)
    blocks: tuple[int, ...] = (encoder.n_dimensions,)
    kinds: tuple[str, ...] = (TEXT,)
    if classes.numbers is not None:
        vectors = np.hstack([unit_rows(classes.numbers), vectors])
        blocks, kinds = (classes.numbers.shape[1], *blocks), ("att", *kinds)
    file = AttributeFile(
        tuple(texts), vectors.astype("f4"), blocks, kinds, encoder.record, classes.number_names
    )
    descriptions = tuple(" ".join(filter(None, rows)) for rows in texts.values())
    return DescribedClasses(file, descriptions, sentences, sum(encoder.is_cut(sentences)))


def _seen(frame: pd.DataFrame, where: str) -> tuple[bool, ...] | None:
    """Return a flag per class, in the order of the table; rows of one class must agree."""
    flags = parse_seen(frame, Path(where))
    if flags is None:
        return None
    found: dict[str, bool] = {}
    for name, flag in zip(frame["name"], flags.tolist(), strict=True):
        if found.setdefault(name, flag) != flag:
            raise DataError(f"{where} has class {name!r} once as seen and once as unseen")
    return tuple(found.values())
