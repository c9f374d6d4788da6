"""Texts to feature rows with the encoder that a model was trained on, loaded once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError, HGKTError

if TYPE_CHECKING:
    from hgkt.language import Describer, Encoder

MAX_TEXTS = 64
"""The most texts of one request; a sentence never waits long behind those of another."""
MAX_TEXT_LENGTH = 10_000
"""The longest text, in characters: several times what encoders read."""


class NoTextsError(HGKTError):
    """Texts were sent to a model that cannot read them."""


class TooMuchTextError(HGKTError):
    """A request has too many texts, or one that is too long."""


class TextReader:
    """Turns texts into the features that a model was trained on.

    The encoder is loaded at the first use, once; where the model's classes are described by the
    same one, the two share it.

    Parameters
    ----------
    about : mapping
        What the model was made with.
    n_features : int
        Width of the features that the model reads.
    device : str
        Where to compute.
    describer : callable
        Returns what describes the model's classes.
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        n_features: int,
        device: str,
        describer: Callable[[], Describer],
    ) -> None:
        self._record: dict[str, Any] | None = about.get("text_encoder")
        self._describes = self._record is not None and about.get("encoder") == self._record
        self._n_features, self._device, self._describer = n_features, device, describer
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None
        self._reason = "" if self._record else "this model was not trained on texts"

    def obstacle(self) -> str:
        """Return in one sentence why texts cannot be read here; empty where they can."""
        with self._lock:
            if self._encoder is None and not self._reason:
                self._load()
            return self._reason

    def check(self) -> None:
        """Refuse texts where it is known by now that they cannot be read; loads nothing."""
        if self._reason:
            raise NoTextsError(self._reason)

    def _load(self) -> None:
        try:
            from hgkt._arrays import torch_device
            from hgkt.language import load_encoder

            device = torch_device(self._device)
            if self._describes and device == "cpu":
                encoder = self._describer().encoder
            else:
                encoder = load_encoder(self._record or {}, device)
        except (HGKTError, ImportError) as error:
            self._reason = f"texts cannot be read here: {error}"
            return
        if encoder.n_dimensions != self._n_features:
            self._reason = (
                f"texts cannot be read here: the encoder makes {encoder.n_dimensions} features, "
                f"the model reads {self._n_features}"
            )
            return
        self._encoder = encoder

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the features (n, n_features) of texts that `check_texts` has let through."""
        self.obstacle()
        self.check()
        assert self._encoder is not None
        return self._encoder.encode(texts).astype(np.float32)


def check_texts(texts: str | Sequence[str]) -> list[str]:
    """Return the texts of a request as a list; refuse too many, an empty and a too long one.

    Examples
    --------
    >>> check_texts("I lost my card")
    ['I lost my card']
    """
    found = [texts] if isinstance(texts, str) else list(texts)
    if len(found) > MAX_TEXTS:
        raise TooMuchTextError(
            f"the request has {len(found)} texts; at most {MAX_TEXTS} are accepted at once"
        )
    for position, text in enumerate(found):
        if not text.strip():
            raise DataError(f"text {position} is empty; words are expected")
        if len(text) > MAX_TEXT_LENGTH:
            raise TooMuchTextError(
                f"text {position} has {len(text):,} characters; at most {MAX_TEXT_LENGTH:,} are "
                "accepted"
            )
    return found
