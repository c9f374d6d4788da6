"""Class attributes in a file of their own: read, written, and joined to any data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._files import atomic_file, escape_frame
from hgkt._validation import label_text
from hgkt.data.dataset import GZSLDataset
from hgkt.data.tables import PARENT, SUFFIXES, parse_classes, read_table, write_classes
from hgkt.exceptions import DataError

TEXT = "text"


@dataclass(frozen=True, eq=False)
class AttributeFile:
    """Class vectors of a file and what they were made with.

    Parameters
    ----------
    names : tuple of str
        Names of the classes.
    attributes : ndarray of shape (n_classes, n_attributes)
        Their vectors.
    blocks : tuple of int
        Widths of the parts of a vector.
    kinds : tuple of str
        What each part is; "text" came from a sentence encoder.
    encoder : dict or None
        Record of that encoder.
    attribute_names : tuple of str or None
        What the numbers that are not text mean.
    """

    names: tuple[str, ...]
    attributes: NDArray[np.float32]
    blocks: tuple[int, ...]
    kinds: tuple[str, ...]
    encoder: dict[str, Any] | None = None
    attribute_names: tuple[str, ...] | None = None

    def origin(self) -> dict[str, Any]:
        """Return how the vectors were made, as files and ``about`` keep it."""
        return {
            "attribute_blocks": list(self.blocks),
            "attribute_kinds": list(self.kinds),
            "attribute_names": self.attribute_names and list(self.attribute_names),
            **({"encoder": self.encoder} if self.encoder else {}),
        }


@dataclass(frozen=True, eq=False)
class _Part:
    """One block of an attribute vector, for the classes of a data set."""

    values: NDArray[Any]
    kind: str
    names: tuple[str, ...] | None


def read_attribute_file(path: str | Path, columns: Sequence[str] | None = None) -> AttributeFile:
    """Read class vectors from a table with ``name`` and a list column or numeric columns.

    Parameters
    ----------
    path : path
        A .parquet or .csv file. Only Parquet can say which encoder made it.
    columns : sequence of str, optional
        Attribute columns to take, in this order and no others, where the table has them all.

    Returns
    -------
    AttributeFile
    """
    path = Path(path)
    return attribute_file(*read_table(path), path, columns)


def attribute_file(
    frame: pd.DataFrame,
    origin: dict[str, Any],
    path: Path,
    columns: Sequence[str] | None = None,
) -> AttributeFile:
    """Return the class vectors of a table that has been read; see `read_attribute_file`.

    Parameters
    ----------
    frame, origin : DataFrame, dict
        What `read_table` returned.
    path : Path
        Where they come from, for messages.
    columns : sequence of str, optional
        Attribute columns to take.
    """
    if columns and {"name", *columns} <= set(map(str, frame.columns)):
        frame = frame[["name", *columns]]
    names, attributes, attribute_names = parse_classes(frame, path)
    if columns and attribute_names and set(columns) == set(attribute_names):
        attributes = attributes[:, [attribute_names.index(name) for name in columns]]
        attribute_names = tuple(columns)
    if not names:
        raise DataError(f"{path} holds no class")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{path} has class {label_text(twice)} twice; one row per class is expected"
        )
    _check_origin(origin, path)
    blocks = tuple(origin.get("attribute_blocks", [attributes.shape[1]]))
    kinds = tuple(origin.get("attribute_kinds", ["file"]))
    if sum(blocks) != attributes.shape[1] or len(blocks) != len(kinds):
        raise DataError(
            f"{path} contradicts itself: its parts {list(blocks)} of kinds {list(kinds)} are not "
            f"{attributes.shape[1]} numbers"
        )
    attribute_names = origin.get("attribute_names") or attribute_names
    return AttributeFile(
        names,
        attributes,
        blocks,
        kinds,
        origin.get("encoder"),
        None if attribute_names is None else tuple(map(str, attribute_names)),
    )


def _check_origin(origin: dict[str, Any], path: Path) -> None:
    """Refuse what a file says about its vectors where hgkt cannot have written it."""
    lists = {"attribute_blocks": int, "attribute_kinds": str, "attribute_names": str}
    for key, kind in lists.items():
        value = origin.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise DataError(f"{path} says {str(value)[:60]!r} of its {key}; a list is expected")
    if not isinstance(origin.get("encoder", {}), dict):
        raise DataError(f"{path} does not say which encoder made its vectors")


def write_attribute_file(
    path: str | Path,
    file: AttributeFile,
    descriptions: Sequence[str] | None = None,
    seen: Sequence[bool] | None = None,
    parents: Mapping[str, str] | None = None,
) -> Path:
    """Write class vectors as Parquet, with what they were made with in the file's metadata.

    The file appears whole or not at all.

    Parameters
    ----------
    path : path
        The .parquet file.
    file : AttributeFile
        What to write.
    descriptions : sequence of str, optional
        A text for each class.
    seen : sequence of bool, optional
        Which classes are meant to be seen in training, where the file is to say so.
    parents : mapping of str to str, optional
        The group of each class that is in one.

    Returns
    -------
    Path

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> file = AttributeFile(("horse",), np.array([[0.5, 1.0]], np.float32), (2,), ("file",))
    >>> with TemporaryDirectory() as folder:
    ...     read_attribute_file(write_attribute_file(f"{folder}/a.parquet", file)).names
    ('horse',)
    """
    path = Path(path)
    if path.suffix != ".parquet":
        raise DataError(f"{path} must end in .parquet: only that format can say who made it")
    texts = descriptions or [""] * len(file.names)
    with atomic_file(path) as scratch:
        frame = _names_frame(file, seen, parents)
        frame.insert(1, "description", list(texts))
        write_classes(scratch, frame, file.attributes, file.origin())
    return path


def write_attribute_csv(
    path: str | Path,
    file: AttributeFile,
    seen: Sequence[bool] | None = None,
    parents: Mapping[str, str] | None = None,
) -> Path:
    """Write class vectors as CSV, one column per attribute; it cannot say who made them.

    Parameters
    ----------
    path, file, seen, parents
        See `write_attribute_file`.
    """
    names = file.attribute_names or [f"a{number}" for number in range(file.attributes.shape[1])]
    values = pd.DataFrame(file.attributes, columns=list(names))
    frame = pd.concat([_names_frame(file, seen, parents), values], axis=1)
    with atomic_file(path) as scratch:
        escape_frame(frame).to_csv(scratch, index=False)
    return Path(path)


def _names_frame(
    file: AttributeFile, seen: Sequence[bool] | None, parents: Mapping[str, str] | None
) -> pd.DataFrame:
    """Return a table of the classes without their vectors."""
    frame = pd.DataFrame({"name": list(file.names)}, dtype=str)
    if seen is not None:
        frame["seen"] = np.asarray(seen, dtype=bool)
    if parents:
        frame[PARENT] = [parents.get(name) for name in file.names]
    return frame


def split_kinds(attributes: str) -> list[str]:
    """Split ``"att+names.parquet"`` at the plus signs; a file whose name has one stays whole.

    Examples
    --------
    >>> split_kinds("att + names.parquet")
    ['att', 'names.parquet']
    """
    if is_file(attributes) and Path(attributes).is_file():
        return [attributes]
    return [kind.strip() for kind in attributes.split("+")]


def is_file(kind: str) -> bool:
    """Say whether an attribute kind is a file of class vectors."""
    return Path(kind).suffix in SUFFIXES


def join_attributes(
    dataset: GZSLDataset, kinds: Sequence[str], folder: Path | None = None
) -> GZSLDataset:
    """Give a data set the attributes of files, alone or beside its own.

    Parameters
    ----------
    dataset : GZSLDataset
        The data set, with those of its own attributes that `kinds` names.
    kinds : sequence of str
        In order: files, and the data set's own kinds. Where there are several parts, each is
        scaled to length one, class by class.
    folder : Path, optional
        Where files are looked for that are not in the working folder.

    Returns
    -------
    GZSLDataset
        ``about`` has ``attributes``, ``attribute_blocks``, ``attribute_kinds``,
        ``attribute_names`` (of what is not text) and, where there is text, ``encoder``.
    """
    own = iter(_own_parts(dataset, [kind for kind in kinds if not is_file(kind)]))
    parts: list[_Part] = []
    encoder: dict[str, Any] | None = None
    for kind in kinds:
        if not is_file(kind):
            parts += next(own)
            found = dataset.about.get("encoder")
        else:
            file = read_attribute_file(_located(kind, folder))
            parts += _parts(file, dataset.class_names, kind)
            found = file.encoder
        if found and encoder and found["identity"] != encoder["identity"]:
            raise DataError(
                f"attributes {'+'.join(kinds)!r} were made by two encoders, {encoder['name']!r} "
                f"and {found['name']!r}; one is expected"
            )
        encoder = encoder or found
    values = [unit_rows(p.values) for p in parts] if len(parts) > 1 else [parts[0].values]
    plain = [part for part in parts if part.kind != TEXT]
    names = None
    if plain and all(part.names is not None for part in plain):
        names = [name for part in plain for name in part.names or ()]
    about = {
        **{key: value for key, value in dataset.about.items() if key != "encoder"},
        "attributes": "+".join(kinds),
        "attribute_blocks": [part.values.shape[1] for part in parts],
        "attribute_kinds": [part.kind for part in parts],
        "attribute_names": names,
        **({"encoder": encoder} if encoder else {}),
    }
    return replace(
        dataset,
        class_attributes=np.hstack(values),
        attribute_names=tuple(names) if names and len(plain) == len(parts) else None,
        about=about,
    )


def _own_parts(dataset: GZSLDataset, kinds: Sequence[str]) -> list[list[_Part]]:
    """Return for each own kind its parts: one of a benchmark's folder, else all there are."""
    about, names = dataset.about, dataset.class_names
    blocks = about.get("attribute_blocks") or [dataset.class_attributes.shape[1]]
    one_each = len(kinds) == len(blocks) and about.get("layout") == "xlsa17"
    if kinds and not one_each and list(kinds) != ["att"]:
        raise DataError(
            f"data set {dataset.name!r} has one kind of attributes of its own, 'att'; "
            f"got {'+'.join(kinds)!r}"
        )
    made = about.get("attribute_kinds") or (kinds if one_each else ["att"] * len(blocks))
    attributes, words = dataset.class_attributes, dataset.attribute_names
    file = AttributeFile(names, attributes, tuple(blocks), tuple(made), None, words)
    parts = _parts(file, names, dataset.name)
    return [[part] for part in parts] if one_each else [parts]


def _parts(file: AttributeFile, class_names: Sequence[str], where: str) -> list[_Part]:
    """Return the blocks of class vectors, for some classes."""
    position = {name: row for row, name in enumerate(file.names)}
    for name in class_names:
        if name not in position:
            raise DataError(f"class {name!r} has no row in {where}")
    rows = file.attributes[[position[name] for name in class_names]].astype(np.float64)
    columns = np.split(rows, np.cumsum(file.blocks)[:-1], axis=1)
    names = file.attribute_names or ()
    parts, start = [], 0
    for values, kind in zip(columns, file.kinds, strict=True):
        width = 0 if kind == TEXT else values.shape[1]
        own = names[start : start + width]
        parts.append(_Part(values, kind, own if width and len(own) == width else None))
        start += width
    return parts


def _located(kind: str, folder: Path | None) -> Path:
    path = Path(kind).expanduser()
    if path.is_file():
        return path
    if folder is not None and (folder / path).is_file():
        return folder / path
    beside = f" or in {folder}" if folder is not None else ""
    raise DataError(f"the attribute file {kind} is not here{beside}")
