"""From a list of class names and descriptions to a file of class vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, refuse_twins
from hgkt.data.attributes import TEXT, AttributeFile
from hgkt.data.tables import check_named, parse_classes, parse_seen, read_table
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
    path = Path(path)
    frame, _ = read_table(path)
    numbers = None if with_attributes is None else read_table(Path(with_attributes))
    if numbers is not None and numbers[1].get("encoder"):
        raise DataError(
            f"{with_attributes} was made by a sentence encoder; a table of numbers is expected"
        )
    return class_list(
        frame, str(path), None if numbers is None else numbers[0], str(with_attributes)
    )


def class_list(
    frame: pd.DataFrame,
    where: str,
    numbers: pd.DataFrame | None = None,
    numbers_where: str | None = None,
) -> ClassList:
    """Make a list of the classes of a table that is in memory; see `read_class_list`.

    Parameters
    ----------
    frame : DataFrame
        ``name`` and, optionally, ``description`` and ``seen``.
    where : str
        How to call the table in messages.
    numbers : DataFrame, optional
        A table whose numeric attributes stand beside the text; it may be the same.
    numbers_where : str, optional
        How to call that one.

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
    seen = _seen(frame, where)
    if numbers is None:
        return ClassList(where, texts, seen=seen)
    values, names = _numbers(numbers, numbers_where or where, list(texts))
    return ClassList(where, texts, values, names, seen)


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
    sentences = tuple(
        sentence for name, rows in texts.items() for sentence in encoder.sentences(name, rows)
    )
    vectors = encoder.describe(list(texts.items()), progress)
    blocks: tuple[int, ...] = (encoder.n_dimensions,)
    kinds: tuple[str, ...] = (TEXT,)
    if classes.numbers is not None:
        vectors = np.hstack([unit_rows(classes.numbers), vectors])
        blocks, kinds = (classes.numbers.shape[1], *blocks), ("att", *kinds)
    return DescribedClasses(
        AttributeFile(
            tuple(texts),
            vectors.astype(np.float32),
            blocks,
            kinds,
            encoder.record,
            classes.number_names,
        ),
        tuple(" ".join(text for text in rows if text) for rows in texts.values()),
        sentences,
        sum(encoder.is_cut(sentences)),
    )


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


def _numbers(
    frame: pd.DataFrame, where: str, classes: list[str]
) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Return the numeric attributes of some classes, and their names where known."""
    names, rows, attribute_names = parse_classes(frame, Path(where))
    table: dict[str, Any] = {}
    for name, row in zip(names, rows, strict=True):
        if not np.array_equal(table.setdefault(name, row), row, equal_nan=True):
            raise DataError(f"{where} has class {name!r} twice, with other attributes")
    for name in classes:
        if name not in table:
            raise DataError(f"class {name!r} has no row in {where}")
    return attribute_matrix(table, classes), attribute_names
