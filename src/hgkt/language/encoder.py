"""Sentence encoders: texts in, vectors of length one out, with a record of what made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._typing import Progress
from hgkt.exceptions import DataError
from hgkt.language.sentences import DEFAULT_TEMPLATE, check_template, make_sentence
from hgkt.language.sources import BUNDLED, find_encoder, identity, load_model

_BATCH = 32
_STEP = 8 * _BATCH
_RECORD_KEYS = ("name", "identity", "n_dimensions", "template", "words")


class Encoder:
    """A sentence encoder and the way names and descriptions become sentences.

    Made by `load_encoder`. On one device the same texts give the same vectors up to the seventh
    digit, which depends on the company a text is encoded in and on the number of threads.

    Parameters
    ----------
    model : SentenceTransformer
        The loaded model.
    record : dict
        What it is: ``name``, ``identity`` (SHA-256 over weight and config files),
        ``n_dimensions``, ``normalize``, ``template``, ``words``, ``hgkt``.
    """

    def __init__(self, model: Any, record: Mapping[str, Any]) -> None:
        self._model = model
        self.record: dict[str, Any] = dict(record)
        self._lock = Lock()  # fast tokenizers may not be used by two threads at once

    @property
    def n_dimensions(self) -> int:
        """Length of a vector."""
        return int(self.record["n_dimensions"])

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float64]:
        """Encode texts as they are, without the template.

        Parameters
        ----------
        texts : sequence of str
            What to encode; none may be empty.
        progress : callable, optional
            Called as ``progress(stage, done, total, values)``.

        Returns
        -------
        ndarray of shape (len(texts), n_dimensions)
            Rows of length one.
        """
        texts = [texts] if isinstance(texts, str) else list(texts)
        for position, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise DataError(f"text {position} is empty; words are expected")
        vectors = np.empty((len(texts), self.n_dimensions))
        for start in range(0, len(texts), _STEP):
            part = texts[start : start + _STEP]
            with self._lock:
                vectors[start : start + len(part)] = self._model.encode(
                    part, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
                )
            if progress is not None:
                progress("encode", start + len(part), len(texts), {})
        return unit_rows(vectors)

    def is_cut(self, texts: Sequence[str]) -> list[bool]:
        """Say of each text whether it is longer than the encoder reads; the rest is left out."""
        limit = self._model.max_seq_length
        if limit is None or not len(texts):
            return [False] * len(texts)
        with self._lock:
            tokens = self._model.tokenizer(list(texts), truncation=False, verbose=False)
        return [len(row) > limit for row in tokens["input_ids"]]

    def sentence(self, name: str, description: str = "") -> str:
        """Return the sentence that stands for a class, by the template of the record."""
        return make_sentence(name, description, self.record["template"], self.record["words"])

    def describe(
        self,
        classes: Sequence[tuple[str, Sequence[str]]],
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:
        """Return a vector for each class: the mean over its sentences, scaled to length one.

        Parameters
        ----------
        classes : sequence of (str, sequence of str)
            Name and descriptions; one sentence is made of each description, and of a class
            without any one of its name alone.
        progress : callable, optional
            Called as ``progress(stage, done, total, values)``.

        Returns
        -------
        ndarray of shape (len(classes), n_dimensions)
        """
        parts = [
            [self.sentence(name, text) for text in descriptions or [""]]
            for name, descriptions in classes
        ]
        rows = self.encode([sentence for part in parts for sentence in part], progress)
        starts = np.cumsum([0, *(len(part) for part in parts)])
        means = [rows[a:b].mean(axis=0) for a, b in pairwise(starts)]
        return unit_rows(np.array(means).reshape(len(parts), self.n_dimensions))


def load_encoder(
    name_or_record: str | Mapping[str, Any] = BUNDLED,
    device: str = "cpu",
    template: str | None = None,
    words: bool | None = None,
) -> Encoder:
    """Load a sentence encoder by name, or the very one that a record tells of.

    Parameters
    ----------
    name_or_record : str or mapping
        "minilm" (all-MiniLM-L6-v2, which comes with ``hgkt[language]``), the folder of a
        sentence-transformers model, a hub name, or the record of an encoder: then the files
        found must be those the record was made with.
    device : str
        Where to compute.
    template : str, optional
        How name and description become a sentence; by default that of the record, else
        ``"a photo of a {name}. {description}"``.
    words : bool, optional
        Whether names go through `class_words` first; by default as in the record, else True.

    Returns
    -------
    Encoder

    Examples
    --------
    >>> encoder = load_encoder("minilm")
    >>> encoder.encode(["a red bird", "a crimson bird"]).shape
    (2, 384)
    >>> encoder.sentence("001.Black_footed_Albatross", "It is dark.")
    'a photo of a black footed albatross. It is dark.'
    """
    known: Mapping[str, Any] = {}
    if not isinstance(name_or_record, str):
        known = check_record(name_or_record)
    name = str(known.get("name", name_or_record))
    folder = find_encoder(name)
    found = identity(folder)
    if known and found != known["identity"]:
        raise DataError(
            f"the encoder {name!r} found here ({found[:12]}…) is not the one that was used "
            f"({str(known['identity'])[:12]}…): its weights or settings differ"
        )
    if not known and name != BUNDLED and Path(name).expanduser() == folder:
        name = str(folder.resolve())  # so that it is found from another working folder too
    template = known.get("template", DEFAULT_TEMPLATE) if template is None else template
    model = load_model(folder, device)
    record = {
        "name": name,
        "identity": found,
        "n_dimensions": int(model.get_embedding_dimension()),
        "normalize": True,
        "template": check_template(template),
        "words": bool(known.get("words", True) if words is None else words),
        "hgkt": version("hgkt"),
    }
    return Encoder(model, record)


def check_record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of an encoder, or refuse one that is incomplete."""
    missing = [key for key in _RECORD_KEYS if key not in record]
    if missing:
        raise DataError(f"the record of the encoder lacks {missing[0]!r}; write it anew")
    return record


def encoder_difference(wanted: Mapping[str, Any], given: Mapping[str, Any] | None) -> str | None:
    """Say in a clause how another encoder record differs from the wanted one, or return None.

    Parameters
    ----------
    wanted : mapping
        The record that is expected.
    given : mapping or None
        The record of what came; None where there was no encoder.

    Returns
    -------
    str or None

    Examples
    --------
    >>> record = {"name": "minilm", "identity": "ab", "template": "{name}", "words": True}
    >>> encoder_difference(record, {**record, "template": "a {name}"})
    "were made with the template 'a {name}' instead of '{name}'"
    """
    if given is None:
        return "were made without a sentence encoder"
    if given.get("identity") != wanted["identity"]:
        return f"were made by another encoder ({given.get('name')!r}, not {wanted['name']!r})"
    if given.get("template") != wanted["template"]:
        return (
            f"were made with the template {given.get('template')!r} instead of "
            f"{wanted['template']!r}"
        )
    if given.get("words") != wanted["words"]:
        return f"were made with names {'as words' if given.get('words') else 'left as they are'}"
    return None
