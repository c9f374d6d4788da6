"""What is said about the classes of raw items: words, numbers, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import refuse_twins
from hgkt.data import GZSLDataset
from hgkt.data.attributes import AttributeFile, read_attribute_file
from hgkt.data.tables import PARENT, check_named, has_attributes, parse_classes, read_table
from hgkt.estimators.taxonomy import check_parents
from hgkt.exceptions import DataError
from hgkt.language.class_lists import ClassList, class_list, describe_classes
from hgkt.language.describer import DESCRIPTIONS, described_by
from hgkt.language.encoder import Encoder, class_words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ReadItems:
    """Features of raw items and vectors of their classes.

    Parameters
    ----------
    dataset : GZSLDataset
        The items are train rows, unless a manifest says otherwise; a class without any is in
        ``described_classes``.
    items : tuple of str
        The file or the text of each row.
    unreadable : tuple of (str, str)
        Items that were left out, each with the sentence that says why.
    n_resumed : int
        How many features were in the cache already.
    n_cut : int
        How many texts and descriptions were longer than the encoder reads.
    passed_over : dict of str to int
        How many files of the folder are no items, by suffix.
    parents : dict of str to str
        The groups of classes, where the table of classes has some.
    """

    dataset: GZSLDataset
    items: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    n_resumed: int = 0
    n_cut: int = 0
    passed_over: dict[str, int] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)


def gather_classes(classes: Any, labels: Sequence[str], where: str) -> ClassList | AttributeFile:
    """Bring together the classes that have items and what is said about classes.

    Parameters
    ----------
    classes : path, mapping, DataFrame or None
        A table (.csv, .parquet) or DataFrame with ``name`` and ``description``, numbers, or both;
        a mapping from name to text, to several texts, or to a vector. None: names say it all.
    labels : sequence of str
        Classes of the items.
    where : str
        Where the items are, for messages.

    Returns
    -------
    ClassList or AttributeFile
        Texts that are to be encoded, or vectors that are ready. Every one of `labels` is in it;
        further classes are those without items.

    Examples
    --------
    >>> gather_classes({"okapi": "with striped legs"}, ["horse"], "photos").texts
    {'okapi': ['with striped legs'], 'horse': ['']}
    """
    if classes is None:
        return ClassList(where, {label: [""] for label in labels})
    source, frame, made = _table_of(classes)
    if made.get("encoder"):
        return _with_all(read_attribute_file(source), labels, where, source)
    frame = _without_groups(frame, labels)
    if not has_attributes(frame):
        listed = class_list(frame, source)
        _check_spelling(listed.texts, labels, where, source)
        texts = {**listed.texts, **{n: [""] for n in labels if n not in listed.texts}}
        return ClassList(source, texts)
    if _has_words(frame):
        listed = class_list(frame, source, frame)
        _check_complete(list(listed.texts), labels, where, source)
        return listed
    names, values, columns = parse_classes(frame, Path(source))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{source} has class {twice!r} twice; one row per class is expected")
    file = AttributeFile(names, values, (values.shape[1],), ("att",), None, columns)
    return _with_all(file, labels, where, source)


def read_parents(classes: Any) -> dict[str, str]:
    """Return the groups that a table of classes states in a column ``parent``.

    Parameters
    ----------
    classes : path, mapping, DataFrame or None
        As `gather_classes` takes it. A row may be that of a group, which has no items of its own.
        A class with its own name as its parent is in no group.

    Returns
    -------
    dict of str to str
        The parent of each class, and of each group, that has one.

    Examples
    --------
    >>> import pandas as pd
    >>> table = {"name": ["gala", "apple", "leek"], "parent": ["apple", "fruit", None]}
    >>> read_parents(pd.DataFrame(table))
    {'gala': 'apple', 'apple': 'fruit'}
    """
    if classes is None or isinstance(classes, Mapping):
        return {}
    source, frame, _ = _table_of(classes)
    if PARENT not in frame:
        return {}
    found: dict[str, str] = {}
    for name, parent in zip(frame["name"], frame[PARENT], strict=True):
        if parent == name or (isinstance(parent, str) and not parent.strip()) or parent != parent:
            continue
        if parent is not None and found.setdefault(name, parent) != parent:
            raise DataError(f"{source} has class {name!r} in {found[name]!r} and in {parent!r}")
    try:
        checked = check_parents(found)
        refuse_twins({*frame["name"].astype(str), *checked.values()})
        return checked
    except DataError as error:
        raise DataError(f"{source}: {error}") from None


def _table_of(classes: Any) -> tuple[str, pd.DataFrame, dict[str, Any]]:
    """Return what to call a table of classes, the table, and what made its vectors."""
    if isinstance(classes, str | Path):
        source, (frame, made) = str(classes), read_table(Path(classes))
    else:
        source, frame, made = "the table of classes", _as_frame(classes), {}
    check_named(frame, Path(source))
    return source, frame, made


def _without_groups(frame: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Leave out the rows of groups: parents that have no items of their own."""
    if PARENT not in frame:
        return frame
    others = frame["name"] != frame[PARENT]
    groups = set(frame.loc[others, PARENT].dropna()) - set(labels)
    return frame[~frame["name"].isin(groups)].drop(columns=PARENT).reset_index(drop=True)


def describe_with(
    classes: ClassList | AttributeFile,
    load: Callable[[], Encoder],
    progress: Progress | None = None,
) -> tuple[AttributeFile, int]:
    """Return class vectors, and how many sentences were longer than the encoder reads.

    Parameters
    ----------
    classes : ClassList or AttributeFile
        As `gather_classes` returns them.
    load : callable
        Returns the encoder; vectors that are ready need none.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.
    """
    if isinstance(classes, AttributeFile):
        return classes, 0
    described = describe_classes(classes, load(), progress)
    return described.file, described.n_cut


def _as_frame(classes: Any) -> pd.DataFrame:
    import pandas as pd

    if isinstance(classes, pd.DataFrame):
        named = classes if "name" in classes else classes.rename_axis("name").reset_index()
        return named.assign(name=named["name"].astype(str))
    if not isinstance(classes, Mapping):
        raise DataError(
            "classes must be a table (a path or a DataFrame) or a mapping from name to text or "
            f"vector; got {type(classes).__name__}"
        )
    rows: list[tuple[str, Any]] = []
    for name, value in classes.items():
        several = isinstance(value, list | tuple) and value and isinstance(value[0], str)
        rows += [(str(name), text) for text in (value if several else [value])]
    are_words = [value is None or isinstance(value, str) for _, value in rows]
    if any(are_words) and not all(are_words):
        name = rows[are_words.index(False)][0]
        raise DataError(
            f"class {name!r} has a vector where others have texts; give one kind for all classes"
        )
    column = "description" if all(are_words) else "attributes"
    return pd.DataFrame(rows, columns=["name", column])


def _has_words(frame: pd.DataFrame) -> bool:
    if "description" not in frame:
        return False
    return any(isinstance(text, str) and text.strip() for text in frame["description"])


def _with_all(file: AttributeFile, labels: Sequence[str], where: str, source: str) -> AttributeFile:
    _check_complete(file.names, labels, where, source)
    if not np.isfinite(file.attributes).all():
        row = int(np.flatnonzero(~np.isfinite(file.attributes).all(axis=1))[0])
        raise DataError(f"{source}: class {file.names[row]!r} lacks a number")
    return file


def _check_complete(names: Sequence[str], labels: Sequence[str], where: str, source: str) -> None:
    """Refuse a class with items but without the numbers that all others have."""
    for label in labels:
        if label not in names:
            raise DataError(
                f"class {label!r} of {where} has no row in {source}; one row per class is expected"
            )


def _check_spelling(
    texts: Mapping[str, Any], labels: Sequence[str], where: str, source: str
) -> None:
    """Refuse a class that is spelt in two ways; it would become two classes."""
    alone = {class_words(label).casefold(): label for label in labels if label not in texts}
    for name in texts:
        other = alone.get(class_words(name).casefold())
        if other is not None and name not in labels:
            raise DataError(
                f"{source} calls a class {name!r} that is {other!r} in {where}; spell it alike"
            )


def item_dataset(
    name: str,
    features: NDArray[np.float32],
    labels: Sequence[str],
    classes: Sequence[str],
    gathered: ClassList | AttributeFile,
    vectors: AttributeFile,
    about: dict[str, Any],
    **more: Any,
) -> GZSLDataset:
    """Return items and the vectors of their classes as a data set.

    Parameters
    ----------
    name : str
        Of the data set.
    features : ndarray of shape (n, D)
    labels : sequence of str of length n
        The class of each item.
    classes : sequence of str
        The classes of the items; those that have a vector only come after them.
    gathered : ClassList or AttributeFile
        What is said about the classes: a model keeps the texts to show them.
    vectors : AttributeFile
        What the classes are.
    about : dict
        What made the features.
    **more
        Splits and other fields of `GZSLDataset`.
    """
    names = tuple(dict.fromkeys([*classes, *vectors.names]))
    code = {name: position for position, name in enumerate(names)}
    row_of = {name: row for row, name in enumerate(vectors.names)}
    texts = gathered.texts if isinstance(gathered, ClassList) else {}
    descriptions = described_by(dict(zip(vectors.names, vectors.attributes, strict=True)), texts)
    return GZSLDataset(
        name=name,
        features=features,
        labels=np.array([code[label] for label in labels], dtype=np.intp),
        class_names=names,
        class_attributes=vectors.attributes[[row_of[name] for name in names]],
        attribute_names=vectors.attribute_names if vectors.encoder is None else None,
        about={
            **about,
            "attributes": "+".join(vectors.kinds),
            "attribute_blocks": list(vectors.blocks),
            "attribute_kinds": list(vectors.kinds),
            "attribute_names": vectors.attribute_names and list(vectors.attribute_names),
            **({"encoder": vectors.encoder} if vectors.encoder else {}),
            **({DESCRIPTIONS: descriptions} if descriptions else {}),
        },
        **more,
    ).validate()
