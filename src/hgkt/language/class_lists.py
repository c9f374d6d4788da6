"""From a list of class names and descriptions to a file of class vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix
from hgkt.data.attribute_files import TEXT, AttributeFile
from hgkt.data.frames import SUFFIXES, check_named, parse_classes, read_made
from hgkt.exceptions import DataError
from hgkt.language.encoder import Encoder
from hgkt.language.sentences import uses_description

if TYPE_CHECKING:
    import pandas as pd


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


def describe_table(
    path: str | Path,
    encoder: Encoder,
    with_attributes: str | Path | None = None,
    progress: Progress | None = None,
) -> DescribedClasses:
    """Encode the classes of a table with ``name`` and, optionally, ``description``.

    Parameters
    ----------
    path : path
        A .csv or .parquet file. Several rows of one class are several sentences: their vectors
        are averaged, and the mean is scaled to length one.
    encoder : Encoder
        What encodes them.
    with_attributes : path, optional
        A table whose numeric attributes are put in front of the text's; it may be the same
        table. Each part is scaled to length one.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.

    Returns
    -------
    DescribedClasses
    """
    path = Path(path)
    texts = _read_texts(path)
    template = encoder.record["template"]
    if any(text for rows in texts.values() for text in rows) and not uses_description(template):
        raise DataError(
            f"{path} has descriptions, but the template {template!r} has no place for them; add "
            "{description} to it"
        )
    sentences = tuple(encoder.sentence(name, t) for name, rows in texts.items() for t in rows)
    numbers = None if with_attributes is None else _numbers(Path(with_attributes), list(texts))
    vectors = encoder.describe(list(texts.items()), progress)
    blocks: tuple[int, ...] = (encoder.n_dimensions,)
    kinds: tuple[str, ...] = (TEXT,)
    names = None
    if numbers is not None:
        attributes, names = numbers
        vectors = np.hstack([unit_rows(attributes), vectors])
        blocks, kinds = (attributes.shape[1], *blocks), ("att", *kinds)
    return DescribedClasses(
        AttributeFile(
            tuple(texts), vectors.astype(np.float32), blocks, kinds, encoder.record, names
        ),
        tuple(" ".join(text for text in rows if text) for rows in texts.values()),
        sentences,
        sum(encoder.is_cut(sentences)),
    )


def _read_texts(path: Path) -> dict[str, list[str]]:
    """Return the descriptions of each class, in the order of the table."""
    frame, _ = _read(path)
    texts: dict[str, list[str]] = {}
    descriptions = frame["description"] if "description" in frame else [""] * len(frame)
    for row, (name, text) in enumerate(zip(frame["name"], descriptions, strict=True)):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"row {row} of {path} has no name")
        texts.setdefault(name, []).append(text.strip() if isinstance(text, str) else "")
    if not texts:
        raise DataError(f"{path} holds no class")
    return texts


def _read(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path} has the suffix {path.suffix!r}; .csv or .parquet is expected")
    frame, made = read_made(path)
    check_named(frame, path)
    return frame, made


def _numbers(path: Path, wanted: list[str]) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Return the numeric attributes of the wanted classes, and their names where known."""
    frame, made = _read(path)
    if made.get("encoder"):
        raise DataError(f"{path} was made by a sentence encoder; a table of numbers is expected")
    names, rows, attribute_names = parse_classes(frame, path)
    table: dict[str, Any] = {}
    for name, row in zip(names, rows, strict=True):
        if not np.array_equal(table.setdefault(name, row), row, equal_nan=True):
            raise DataError(f"{path} has class {name!r} twice, with other attributes")
    for name in wanted:
        if name not in table:
            raise DataError(f"class {name!r} has no row in {path}")
    return attribute_matrix(table, wanted), attribute_names
