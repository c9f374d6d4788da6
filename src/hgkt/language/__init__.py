"""Words in, class attributes out: sentence encoders and what a model needs of a new class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.language.class_lists import (
        ClassList,
        DescribedClasses,
        describe_classes,
        describe_table,
        read_class_list,
    )
    from hgkt.language.describer import ClassDescription, Describer
    from hgkt.language.descriptions import description_of, keep_descriptions
    from hgkt.language.encoder import (
        DEFAULT_TEMPLATE,
        TEXT_TEMPLATE,
        Encoder,
        class_words,
        load_encoder,
        make_sentence,
    )

_HOMES = {
    "DEFAULT_TEMPLATE": "hgkt.language.encoder",
    "TEXT_TEMPLATE": "hgkt.language.encoder",
    "ClassDescription": "hgkt.language.describer",
    "ClassList": "hgkt.language.class_lists",
    "DescribedClasses": "hgkt.language.class_lists",
    "Describer": "hgkt.language.describer",
    "Encoder": "hgkt.language.encoder",
    "class_words": "hgkt.language.encoder",
    "describe_classes": "hgkt.language.class_lists",
    "describe_table": "hgkt.language.class_lists",
    "description_of": "hgkt.language.descriptions",
    "keep_descriptions": "hgkt.language.descriptions",
    "load_encoder": "hgkt.language.encoder",
    "make_sentence": "hgkt.language.encoder",
    "read_class_list": "hgkt.language.class_lists",
}

__all__ = [
    "DEFAULT_TEMPLATE",
    "TEXT_TEMPLATE",
    "ClassDescription",
    "ClassList",
    "DescribedClasses",
    "Describer",
    "Encoder",
    "class_words",
    "describe_classes",
    "describe_table",
    "description_of",
    "keep_descriptions",
    "load_encoder",
    "make_sentence",
    "read_class_list",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
