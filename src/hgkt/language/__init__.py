"""Words in, class attributes out: sentence encoders and what a model needs of a new class.

No encoder's library is imported before an encoder is loaded.
"""

from hgkt.language.class_lists import ClassList, DescribedClasses, describe_classes, read_class_list
from hgkt.language.describer import ClassDescription, Describer, description_of, keep_descriptions
from hgkt.language.encoder import Encoder, class_words, load_encoder, make_sentence

__all__ = [
    "ClassDescription",
    "ClassList",
    "DescribedClasses",
    "Describer",
    "Encoder",
    "class_words",
    "describe_classes",
    "description_of",
    "keep_descriptions",
    "load_encoder",
    "make_sentence",
    "read_class_list",
]
