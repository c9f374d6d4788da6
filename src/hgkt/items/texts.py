"""Texts: a classifier that reads them, and a table of them as a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._arrays import batches, torch_device
from hgkt._files import reading, sha256
from hgkt._journal import Journal, MemoryRows
from hgkt._typing import Progress
from hgkt.data.tables import check_column, read_frame
from hgkt.exceptions import DataError
from hgkt.items.base import ItemClassifier
from hgkt.items.tables import ReadItems, class_vectors, item_dataset, read_classes
from hgkt.language.encoder import TEXT_TEMPLATE, Encoder, load_encoder

_JSON_LINES = (".jsonl", ".ndjson")
_STEP = 256  # texts that an interrupt loses at most


class TextClassifier(ItemClassifier):
    """A fitted model, and the sentence encoder that it was made with.

    Made by `train_on_texts`, or by `load` from a model folder that was trained on texts.

    Parameters
    ----------
    classifier : GZSLClassifier
        The model; ``about_`` says what its features and attributes were made with.
    device : {"auto", "cpu", "cuda"}
        Where texts are encoded.

    Examples
    --------
    >>> model = TextClassifier.load("text-model")  # doctest: +SKIP
    >>> model.predict(["I lost my card", "what is the time"])  # doctest: +SKIP
    array(['report lost card', 'time'], dtype='<U16')
    >>> model.add_classes({"freeze account": "stop all payments at once"})  # doctest: +SKIP
    """

    _needed = "text_encoder"
    _unfit = (
        "this model does not know an encoder of texts that it was trained on, so it cannot read "
        "texts"
    )

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that makes features of texts, loaded on first use."""
        own, device = self.about["text_encoder"], torch_device(self._device)
        if device == "cpu" and self.about.get("encoder") == own:
            return self.describer.encoder  # it is the same, and loaded once
        return load_encoder(own, device)

    def features(self, items: Any) -> NDArray[np.float32]:
        """Return the features of texts.

        Parameters
        ----------
        items : str or iterable of str
            One text counts as a list of one; an empty one is refused.

        Returns
        -------
        ndarray of shape (n_texts, n_features), float32
        """
        if not isinstance(items, Iterable):
            raise DataError(f"texts must be strings; got {type(items).__name__}")
        return self.encoder.encode([items] if isinstance(items, str) else list(items)).astype("f4")


def read_text_table(path: str | Path) -> pd.DataFrame:
    """Read a table with a column ``text``: .csv, .parquet, or JSON lines (.jsonl).

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    DataFrame
    """
    path = Path(path)
    if path.suffix.lower() in _JSON_LINES:
        expected = "one JSON object with a text per line"
        with reading(path, "JSON lines"):
            frame = pd.read_json(path, lines=True, dtype=False)
    else:
        expected, frame = "the texts", read_frame(path)
    check_column(frame, path, "text", expected)
    return frame


def read_texts(
    texts: str | Path | pd.DataFrame | Sequence[str],
    labels: Sequence[str] | None = None,
    classes: Any = None,
    *,
    encoder: str = "minilm",
    template: str | Sequence[str] | None = None,
    device: str = "auto",
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> ReadItems:
    """Describe the classes of texts and encode both, in one space.

    Parameters
    ----------
    texts : path, DataFrame or sequence of str
        The texts; a table has columns ``text`` and ``class``.
    labels : sequence of str, optional
        The class of each text, where `texts` is no table.
    classes : path, mapping or DataFrame, optional
        What the classes are; see `train_on_texts`.
    encoder : str
        Sentence encoder.
    template : str or sequence of str, optional
        How name and description become a sentence; of several the vectors are averaged.
    device : {"auto", "cpu", "cuda"}
        Where to encode.
    cache : path, optional
        Folder that keeps encoded texts: what is there already is not encoded again. It holds
        digests of the texts, not the texts.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.

    Returns
    -------
    ReadItems
    """
    where, frame = _labelled(texts, labels)
    kept, unreadable = _readable(frame)
    sentences, names = tuple(kept["text"]), kept["class"].tolist()
    if not sentences:
        raise DataError(f"{where} holds no text to train on")
    class_info = read_classes(classes, sorted(set(names)), where)
    # One encoder for both: a text and the name of its class are then vectors of one space.
    model = load_encoder(encoder, torch_device(device), template or TEXT_TEMPLATE)
    vectors, n_cut = class_vectors(class_info, lambda: model, progress)
    features, n_resumed = _encode(sentences, model, cache, progress)
    made = vectors.encoder or {}
    about = {
        "features": Path(str(model.record["name"])).name,
        "layout": "texts",
        "text_encoder": dict(model.record),
        "shares_space": made.get("identity") == model.record["identity"],
    }
    dataset = item_dataset(Path(where).stem, features, names, class_info, vectors, about)
    n_cut += sum(model.is_cut(sentences))
    return ReadItems(dataset, sentences, unreadable, n_resumed, n_cut, parents=class_info.parents)


def _labelled(texts: Any, labels: Sequence[str] | None) -> tuple[str, pd.DataFrame]:
    """Return what to call the texts in messages, and a table with columns text and class."""
    if isinstance(texts, str | Path | pd.DataFrame):
        if labels is not None:
            raise DataError("labels go with a sequence of texts; a table has a column class")
        where = "the table of texts" if isinstance(texts, pd.DataFrame) else str(texts)
        frame = texts if isinstance(texts, pd.DataFrame) else read_text_table(texts)
        for column in ("text", "class"):
            check_column(frame, Path(where), column, "a text and its class per row")
        return where, frame
    texts = list(texts)
    if labels is None or len(labels) != len(texts):
        count = "none" if labels is None else len(labels)
        raise DataError(f"{len(texts)} texts need as many labels; got {count}")
    return "texts", pd.DataFrame({"text": texts, "class": list(labels)})


def _readable(frame: pd.DataFrame) -> tuple[pd.DataFrame, tuple[tuple[str, str], ...]]:
    """Return the rows that have a text and a class, and why the others are left out."""
    pairs = frame[["text", "class"]]
    given = pairs.map(lambda value: isinstance(value, str) and bool(value.strip()))
    kept = given.all(axis=1)
    reasons = [
        (f"row {row}", f"row {row} has no {'class' if given['text'].iloc[row] else 'text'}")
        for row in np.flatnonzero(~kept).tolist()
    ]
    return frame[kept], tuple(reasons)


def _encode(
    texts: Sequence[str], encoder: Encoder, cache: str | Path | None, progress: Progress | None
) -> tuple[NDArray[np.float32], int]:
    """Return the features (n, D) of texts, and how many were in the cache."""
    keys = [(sha256(text),) for text in texts]
    identity = {"encoder": encoder.record["identity"]}
    journal = None if cache is None else Journal(cache, identity, encoder.n_dimensions)
    with nullcontext(MemoryRows()) if journal is None else journal as store:
        n_resumed = sum(key in store for key in keys)
        # Each text once; those of one length go together, and shorter ones are not padded.
        pending = {key: text for key, text in zip(keys, texts, strict=True) if key not in store}
        order = sorted(pending, key=lambda key: len(pending[key]))
        for part in batches(len(order), _STEP):
            if progress is not None:
                done = len(texts) - len(order) + part.start
                progress("texts", done, len(texts), {})
            vectors = encoder.encode([pending[key] for key in order[part]])
            store.append(order[part], vectors.astype(np.float32))
        if progress is not None:
            progress("texts", len(texts), len(texts), {})
        return store.rows(keys), n_resumed
