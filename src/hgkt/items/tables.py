"""What is said about the classes of raw items: words, numbers, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import refuse_twins
from hgkt.data import GZSLDataset
from hgkt.data.attributes import AttributeFile, attribute_file
from hgkt.data.dataset import SPLITS
from hgkt.data.tables import PARENT, check_named, has_attributes, parse_parents, read_table
from hgkt.estimators.taxonomy import check_parents
from hgkt.exceptions import DataError
from hgkt.language.class_lists import ClassList, class_list, describe_classes, with_numbers
from hgkt.language.describer import DESCRIPTIONS, as_texts, described_by
from hgkt.language.encoder import Encoder, class_words


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
    parents: Mapping[str, str] = field(default_factory=dict)


def read_classes(classes: Any, labels: Sequence[str], where: str) -> ClassList:
    """Return the classes that have items and those that are only described, and what they are.

    Parameters
    ----------
    classes : path, mapping, DataFrame or None
        A table (.csv, .parquet) or DataFrame with ``name`` and ``description``, numbers, or both,
        and maybe ``parent``; a mapping from name to text, to several texts, or to a vector. None:
        names say it all.
    labels : sequence of str
        Classes of the items.
    where : str
        Where the items are, for messages.

    Returns
    -------
    ClassList
        Every one of `labels` is in it; further classes are those without items.

    Examples
    --------
    >>> read_classes({"okapi": "with striped legs"}, ["horse"], "photos").texts
    {'okapi': ['with striped legs'], 'horse': ['']}
    """
    if classes is None:
        return ClassList(where, {label: [""] for label in labels})
    source, frame, origin = _table_of(classes)
    parents = _parents(frame, source)
    frame = _without_groups(frame, labels)
    has_numbers = has_attributes(frame)
    if origin.get("encoder") or (has_numbers and not _has_words(frame)):
        made = origin if origin.get("encoder") else {"attribute_kinds": ["att"]}
        vectors = attribute_file(frame, made, Path(source))
        _check_rows(vectors.names, labels, where, source)
        for row in np.flatnonzero(~np.isfinite(vectors.attributes).all(axis=1))[:1]:
            raise DataError(f"{source}: class {vectors.names[row]!r} lacks a number")
        return ClassList(source, {}, vectors=vectors, parents=parents)
    listed = class_list(frame, source)
    bare = [label for label in labels if label not in listed.texts]
    if has_numbers:
        _check_rows(listed.texts, labels, where, source)
        listed = with_numbers(listed, frame, source)
    _check_spelling(set(listed.texts).difference(labels), bare, where, source)
    texts = {**listed.texts, **{label: [""] for label in bare}}
    return replace(listed, texts=texts, parents=parents)


def read_parents(classes: Any) -> dict[str, str]:
    """Return the groups that a table of classes states in a column ``parent``.

    Parameters
    ----------
    classes : path, mapping or DataFrame
        As `read_classes` takes it. A row may be that of a group, which has no items of its own.
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
    source, frame, _ = _table_of(classes)
    return _parents(frame, source)


def _parents(frame: pd.DataFrame, source: str) -> dict[str, str]:
    try:
        checked = check_parents(parse_parents(frame, Path(source)))
        if checked:
            refuse_twins({*frame["name"].astype(str), *checked.values()})
    except DataError as error:
        raise DataError(f"{source}: {error}") from None
    return checked


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


def class_vectors(
    classes: ClassList, load: Callable[[], Encoder], progress: Progress | None = None
) -> tuple[AttributeFile, int]:
    """Return class vectors, and how many sentences were longer than the encoder reads.

    Parameters
    ----------
    classes : ClassList
        As `read_classes` returns it.
    load : callable
        Returns the encoder; vectors that are ready need none.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.
    """
    if classes.vectors is not None:
        return classes.vectors, 0
    described = describe_classes(classes, load(), progress)
    return described.file, described.n_cut


def _as_frame(classes: Any) -> pd.DataFrame:
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
        rows += [(str(name), text) for text in as_texts(value) or [value]]
    are_words = [value is None or isinstance(value, str) for _, value in rows]
    if any(are_words) and not all(are_words):
        name = rows[are_words.index(False)][0]
        raise DataError(
            f"class {name!r} has a vector where others have texts; give one kind for all classes"
        )
    column = "description" if all(are_words) else "attributes"
    return pd.DataFrame(rows, columns=["name", column])


def _has_words(frame: pd.DataFrame) -> bool:
    texts = frame.get("description", ())
    return any(isinstance(text, str) and text.strip() for text in texts)


def _check_rows(names: Container[str], labels: Sequence[str], where: str, source: str) -> None:
    """Refuse a class with items that is not among the names of a table."""
    for label in labels:
        if label not in names:
            raise DataError(
                f"class {label!r} of {where} has no row in {source}; one row per class is expected"
            )


def _check_spelling(names: Iterable[str], labels: Sequence[str], where: str, source: str) -> None:
    """Refuse a class that is spelt in two ways; it would become two classes."""
    words = {class_words(label).casefold(): label for label in labels}
    for name in names:
        other = words.get(class_words(name).casefold())
        if other is not None:
            raise DataError(
                f"{source} calls a class {name!r} that is {other!r} in {where}; spell it alike"
            )


def item_dataset(
    name: str,
    features: NDArray[np.float32],
    labels: Sequence[str],
    class_info: ClassList,
    vectors: AttributeFile,
    about: dict[str, Any],
    splits: Sequence[str] = (),
    image_files: tuple[str, ...] | None = None,
) -> GZSLDataset:
    """Return items and the vectors of their classes as a data set.

    Parameters
    ----------
    name : str
        Of the data set.
    features : ndarray of shape (n, D)
    labels : sequence of str of length n
        The class of each item; classes without one come after those that have one.
    class_info : ClassList
        What is said about the classes: a model keeps the texts to show them.
    vectors : AttributeFile
        What the classes are.
    about : dict
        What made the features.
    splits : sequence of str of length n, optional
        The part of the split that each item is in; where none is in any, all are there to train on.
    image_files : tuple of str, optional
        The file of each item.
    """
    # Where no item is in any part, all are there to train on.
    split_of = np.array(splits if any(splits) else ["train"] * len(labels))
    parts: dict[str, Any] = {part: np.flatnonzero(split_of == part) for part in SPLITS}
    if not len(parts["train"]):
        raise DataError(f"data set {name!r} has nothing to train on: no item is in train")
    names = tuple(dict.fromkeys([*sorted(set(labels)), *vectors.names]))
    code = {name: position for position, name in enumerate(names)}
    rows = dict(zip(vectors.names, vectors.attributes, strict=True))
    descriptions = described_by(rows, class_info.texts)
    made = {**about, "attributes": "+".join(vectors.kinds), **vectors.origin()}
    if descriptions:
        made[DESCRIPTIONS] = descriptions
    return GZSLDataset(
        name=name,
        features=features,
        labels=np.array([code[label] for label in labels], dtype=np.intp),
        class_names=names,
        class_attributes=np.array([rows[name] for name in names]),
        attribute_names=vectors.attribute_names if vectors.encoder is None else None,
        about=made,
        **parts,
        image_files=image_files,
    ).validate()
