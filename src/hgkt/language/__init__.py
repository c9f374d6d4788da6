"""Words in, class attributes out: sentence encoders and what a model needs of a new class."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgkt.language.class_lists import DescribedClasses, describe_table
    from hgkt.language.describer import ClassDescription, Describer
    from hgkt.language.encoder import Encoder, load_encoder
    from hgkt.language.sentences import DEFAULT_TEMPLATE, class_words, make_sentence

_HOMES = {
    "DEFAULT_TEMPLATE": "hgkt.language.sentences",
    "ClassDescription": "hgkt.language.describer",
    "DescribedClasses": "hgkt.language.class_lists",
    "Describer": "hgkt.language.describer",
    "Encoder": "hgkt.language.encoder",
    "class_words": "hgkt.language.sentences",
    "describe_table": "hgkt.language.class_lists",
    "load_encoder": "hgkt.language.encoder",
    "make_sentence": "hgkt.language.sentences",
}

__all__ = [
    "DEFAULT_TEMPLATE",
    "ClassDescription",
    "DescribedClasses",
    "Describer",
    "Encoder",
    "class_words",
    "describe_table",
    "load_encoder",
    "make_sentence",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hgkt.language' has no attribute {name!r}")
