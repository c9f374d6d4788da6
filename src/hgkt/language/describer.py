"""What a model needs of a new class: numbers, attributes by name, or words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import unit_rows
from hgkt._validation import attribute_matrix
from hgkt.exceptions import DataError
from hgkt.language.encoder import (
    Encoder,
    check_record,
    encoder_difference,
    load_encoder,
    uses_description,
)

if TYPE_CHECKING:
    from hgkt.estimators import GZSLClassifier

_LISTED = 30


@dataclass(frozen=True)
class ClassDescription:
    """A class as a user describes it.

    Parameters
    ----------
    name : str
        Its name.
    vector : array-like, optional
        Its attributes as numbers: all of them, or those that are not made of text.
    attributes : mapping of str to float, optional
        Attributes by name; others are 0.
    text : str or sequence of str, optional
        What it looks like; of several texts the mean is taken. A model whose template has no place
        for a description reads the name alone, and takes none.
    """

    name: str
    vector: ArrayLike | None = None
    attributes: Mapping[str, float] | None = None
    text: str | Sequence[str] | None = None

    @classmethod
    def of(cls, name: str, value: Any) -> ClassDescription:
        """Return a description by its kind: a text or several, attributes by name, a vector.

        Examples
        --------
        >>> ClassDescription.of("zebra", {"striped": 1}).attributes
        {'striped': 1}
        """
        if isinstance(value, ClassDescription):
            return value
        if isinstance(value, Mapping):
            return cls(name, attributes=value)
        texts = as_texts(value)
        return cls(name, vector=value) if texts is None else cls(name, text=texts)

    @property
    def texts(self) -> list[str] | None:
        """The texts as a list; None where none was given."""
        if self.text is None:
            return None
        return [self.text] if isinstance(self.text, str) else list(self.text)


def as_texts(value: Any) -> list[str] | None:
    """Return a text, or several, as a list; None of what is no text."""
    if isinstance(value, str):
        return [value]
    several = isinstance(value, list | tuple) and value and isinstance(value[0], str)
    return list(value) if several else None


class Describer:
    """Turn descriptions of classes into the attribute vectors that a model takes.

    Parameters
    ----------
    about : mapping
        What the model was made with (``model.about_``): ``encoder``, ``attribute_blocks``,
        ``attribute_kinds``, ``attribute_names``, ``text_encoder`` and ``shares_space`` are read.
    n_attributes : int
        Length of the model's attribute vectors.

    Attributes
    ----------
    attribute_names : tuple of str
        What the numbers mean; empty where that is not known.
    accepts_attributes : bool
        Whether the model knows its attributes by name.
    accepts_text : bool
        Whether a part of the model's attributes is made of text.

    Examples
    --------
    >>> describer = Describer({"attribute_names": ["black", "hooves", "striped"]}, 3)
    >>> describer.accepts_text, describer.accepts_attributes
    (False, True)
    >>> describer.vectors([ClassDescription("zebra", attributes={"striped": 1, "Hooves": 0.5})])
    array([[0. , 0.5, 1. ]])
    """

    def __init__(self, about: Mapping[str, Any], n_attributes: int) -> None:
        self.n_attributes = n_attributes
        self._record: dict[str, Any] | None = about.get("encoder")
        self._blocks = [int(width) for width in about.get("attribute_blocks") or [n_attributes]]
        kinds = list(about.get("attribute_kinds") or ["att"] * len(self._blocks))
        if sum(self._blocks) != n_attributes or len(kinds) != len(self._blocks):
            raise DataError(
                f"what the model was made with contradicts itself: attribute blocks {self._blocks} "
                f"of kinds {kinds} for {n_attributes} attributes"
            )
        self._is_text = [kind == "text" for kind in kinds]
        pairs = zip(self._blocks, self._is_text, strict=True)
        self._plain_blocks = [width for width, is_text in pairs if not is_text]
        self._n_plain = sum(self._plain_blocks)
        names = tuple(map(str, about.get("attribute_names") or ()))
        self.attribute_names = names if len(names) == self._n_plain else ()
        self.accepts_attributes = bool(self.attribute_names)
        self.accepts_text = self._record is not None and sum(self._is_text) == 1
        # A name lies where the items lie, and says enough.
        self._takes_names = bool(about.get("text_encoder") or about.get("shares_space"))

    @property
    def accepts_name_alone(self) -> bool:
        """Whether a class may be described by nothing but its name."""
        if not self.accepts_text or self._n_plain:
            return False
        return self._takes_names or not self._reads_descriptions

    @property
    def _reads_descriptions(self) -> bool:
        return uses_description(check_record(self._record or {})["template"])

    @cached_property
    def encoder(self) -> Encoder:
        """The model's sentence encoder, loaded on first use."""
        if self._record is None:
            raise DataError("this model was not made with a sentence encoder")
        return load_encoder(self._record)

    def vectors(self, descriptions: Sequence[ClassDescription]) -> NDArray[np.float64]:
        """Return the attribute vectors of new classes.

        Parameters
        ----------
        descriptions : sequence of ClassDescription
            The classes. A full-width ``vector`` is taken as it is by every model. Otherwise a
            model whose attributes are text takes ``text``, one whose attributes are numbers
            ``attributes`` or ``vector``, and one that has both parts takes both; as in the
            training data each part is then scaled to length one.

        Returns
        -------
        ndarray of shape (len(descriptions), n_attributes)
        """
        rows = [self._numbers(description) for description in descriptions]
        texts = [self._texts(*pair) for pair in zip(descriptions, rows, strict=True)]
        texts_of = [(d.name, text) for d, text in zip(descriptions, texts, strict=True) if text]
        encoded = iter(self.encoder.describe(texts_of) if texts_of else ())
        whole = [
            self._joined(row, next(encoded)) if text else row
            for row, text in zip(rows, texts, strict=True)
        ]
        return np.array(whole, dtype=np.float64).reshape(len(whole), self.n_attributes)

    def check_made_with(
        self,
        where: str,
        encoder: Mapping[str, Any] | None,
        blocks: Sequence[int],
        kinds: Sequence[str],
    ) -> None:
        """Refuse vectors from elsewhere that were not made as the model's own were.

        Parameters
        ----------
        where : str
            Where the vectors come from, for the message.
        encoder : mapping or None
            Record of the encoder they were made with.
        blocks, kinds : sequence
            Widths and kinds of their parts.
        """
        if sum(blocks) != self.n_attributes:
            raise DataError(
                f"{where} has {sum(blocks)} attributes per class; the model expects "
                f"{self.n_attributes}"
            )
        advice = "make them with `hgkt describe` as the model's were made"
        if any(self._is_text) and self._record is not None:
            wrong = encoder_difference(check_record(self._record), encoder)
            is_text = [kind == "text" for kind in kinds]
            if wrong is None and (is_text, list(blocks)) != (self._is_text, self._blocks):
                wrong = f"have the parts {list(blocks)}, and the model expects {self._blocks}"
        elif encoder is not None:
            wrong = f"were made by the sentence encoder {encoder.get('name')!r}"
            advice = "this model was trained on other attributes"
        else:
            return
        if wrong is not None:
            raise DataError(f"the vectors in {where} {wrong}; {advice}")

    def _numbers(self, description: ClassDescription) -> NDArray[np.float64] | None:
        """Return the numbers of a class, None where it has none."""
        name, vector = description.name, description.vector
        if description.attributes is not None:
            if vector is not None:
                raise DataError(
                    f"class {name!r} has a vector and attributes by name; give one of them"
                )
            vector = self._named(name, description.attributes)
        if vector is None:
            return None
        row = attribute_matrix({name: vector}, [name])[0]
        widths = {self.n_attributes, *([self._n_plain] if self.accepts_text else [])} - {0}
        if len(row) not in widths:
            expected = " or ".join(map(str, sorted(widths)))
            raise DataError(f"class {name!r} has {len(row)} attributes; {expected} are expected")
        return row

    def _named(self, who: str, attributes: Mapping[str, float]) -> NDArray[np.float64]:
        names = self.attribute_names
        if not names:
            hint = "describe the class with a text" if self.accepts_text else "give all numbers"
            raise DataError(f"class {who!r}: this model knows no attribute names; {hint}")
        columns = {name.lower(): column for column, name in enumerate(names)}
        row = np.zeros(len(names))
        for name, value in attributes.items():
            column = columns.get(str(name).strip().lower())
            if column is None:
                raise DataError(
                    f"class {who!r}: the model has no attribute {name!r}; it has: "
                    f"{_listing(str(name), names)}"
                )
            try:
                row[column] = float(value)
            except (TypeError, ValueError):
                raise DataError(
                    f"class {who!r}: attribute {name!r} has the value {value!r}; a number is "
                    "expected"
                ) from None
        return row

    def _texts(
        self, description: ClassDescription, row: NDArray[np.float64] | None
    ) -> list[str] | None:
        """Return the texts to encode, None where the numbers are all the model takes."""
        texts = description.texts
        is_whole = row is not None and len(row) == self.n_attributes
        if is_whole and texts is None:
            return None
        has_text = any(text.strip() for text in texts or [])
        if not self.accepts_text and texts is None:
            wrong = f"has no attributes; {self.n_attributes} are expected"
        elif not self.accepts_text:
            wrong = (
                "is described by a text, but this model was not trained on texts of one encoder; "
                "give its attributes"
            )
        elif is_whole:
            wrong = "has a full vector and a text; give one of them"
        elif has_text and not self._reads_descriptions:
            wrong = "has a text, but this model reads names only; leave the text empty"
        elif self._reads_descriptions and not (has_text or self._takes_names):
            also = "" if row is None else "also "
            wrong = f"{also}needs a text: this model was trained on sentences"
        elif self._n_plain and row is None:
            wrong = f"has a text only; this model also needs its {self._n_plain} attributes"
        else:
            return texts or [""]
        raise DataError(f"class {description.name!r} {wrong}")

    def _joined(
        self, row: NDArray[np.float64] | None, text: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Put the parts side by side, each of length one where there are several."""
        if row is None:
            return text
        plain = np.split(row, np.cumsum(self._plain_blocks)[:-1])
        numbers = iter([unit_rows(part[None])[0] for part in plain])
        return np.concatenate([text if is_text else next(numbers) for is_text in self._is_text])


def _listing(name: str, names: Sequence[str]) -> str:
    """All names, or the closest ones where there are many."""
    if len(names) <= _LISTED:
        return ", ".join(map(repr, names))
    close = get_close_matches(name, names, n=3, cutoff=0.3) or names[:5]
    return ", ".join(map(repr, close)) + f" … ({len(names)} in all; see `hgkt classes list --json`)"


# ---------------------------------------------------------------------- texts that a model keeps
# For people to read them again. A text is kept by a fingerprint of the vector that was made of it:
# a class that is renamed keeps its text, and one that is described anew does not show what no
# longer holds.
DESCRIPTIONS = "descriptions"
"""Where a model's ``about_`` has them."""


def described_by(
    vectors: Mapping[Any, NDArray[Any]], texts: Mapping[Any, str | Sequence[str]]
) -> dict[str, str]:
    """Return the texts of classes, several of one class joined, by fingerprint of their vectors.

    Parameters
    ----------
    vectors : mapping
        The attribute vector (d,) of each class.
    texts : mapping
        What was said of some of them.

    Examples
    --------
    >>> kept = described_by({"okapi": np.ones(2), "horse": np.zeros(2)}, {"okapi": "striped legs"})
    >>> description_of({"descriptions": kept}, np.ones(2))
    'striped legs'
    >>> description_of({"descriptions": kept}, np.zeros(2)) is None
    True
    """
    said = {
        name: text if isinstance(text, str) else " ".join(part for part in text if part)
        for name, text in texts.items()
    }
    return {_fingerprint(row): said[name] for name, row in vectors.items() if said.get(name)}


def keep_descriptions(
    model: GZSLClassifier, vectors: Mapping[Any, NDArray[Any]], texts: Mapping[Any, Any]
) -> None:
    """Have a model remember the texts of classes that it was given; see `described_by`."""
    about = getattr(model, "about_", {})
    more = described_by(vectors, texts)
    if more:
        model.about_ = {**about, DESCRIPTIONS: {**about.get(DESCRIPTIONS, {}), **more}}


def description_of(about: Mapping[str, Any], vector: NDArray[Any]) -> str | None:
    """Return the text that the vector (d,) of a class was made of; None where none is kept."""
    kept = about.get(DESCRIPTIONS)
    return kept.get(_fingerprint(vector)) if kept else None


def _fingerprint(vector: NDArray[Any]) -> str:
    """Return the same for a vector in single and in double precision."""
    numbers = np.asarray(vector, dtype="<f4") + np.float32(0)  # no negative zeros
    return hashlib.sha256(numbers.tobytes()).hexdigest()[:16]
