"""What is known of how a model reads classes and instances: kept beside its classes.

The registry outlives the folders of its models, and to carry classes to another model one must
know what their numbers mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._plain import plain
from hgkt.estimators import METHODS, GZSLClassifier
from hgkt.exceptions import DataError
from hgkt.language.encoder import encoder_difference
from hgkt.serving.editions import made_with

TEXT = "text"


@dataclass(frozen=True)
class ModelFacts:
    """How a model reads classes and instances.

    Parameters
    ----------
    name : str
        What it was called when it was served last.
    method : str
        The method that learned it.
    n_features, n_attributes : int
        Widths of instances and of classes.
    attribute_names : tuple of str
        Names of the attributes that are not made of text; empty where there are none.
    attribute_blocks : tuple of int
        Widths of the parts of an attribute vector.
    attribute_kinds : tuple of str
        What each part is; "text" is made by the encoder.
    encoder, backbone : mapping, optional
        Records of the sentence encoder and of what made the features.
    features : str, optional
        Name of the feature file, where the data set had several.

    Examples
    --------
    >>> facts = ModelFacts("birds", "hgkt", 8, 3, ("black", "red"), (2, 1), ("att", "text"))
    >>> facts.plain_part(np.array([0.25, 0.5, 1.0])), facts.n_plain
    (array([0.25, 0.5 ]), 2)
    >>> ModelFacts.from_json(facts.to_json()) == facts
    True
    """

    name: str
    method: str
    n_features: int
    n_attributes: int
    attribute_names: tuple[str, ...] = ()
    attribute_blocks: tuple[int, ...] = ()
    attribute_kinds: tuple[str, ...] = ()
    encoder: Mapping[str, Any] | None = None
    backbone: Mapping[str, Any] | None = None
    features: str | None = None

    @classmethod
    def of(cls, model: GZSLClassifier, name: str) -> Self:
        """Return what a loaded model says of itself."""
        about = plain(made_with(model))
        width = model.class_attributes_.shape[1]
        blocks = tuple(int(one) for one in about.get("attribute_blocks") or [width])
        kinds = tuple(map(str, about.get("attribute_kinds") or ["att"] * len(blocks)))
        names = tuple(map(str, about.get("attribute_names") or ()))
        n_plain = sum(w for w, kind in zip(blocks, kinds, strict=False) if kind != TEXT)
        return cls(
            name=name,
            method=METHODS.name_of(type(model)) or type(model).__name__,
            n_features=model.n_features_in_,
            n_attributes=width,
            attribute_names=names if len(names) == n_plain else (),
            attribute_blocks=blocks,
            attribute_kinds=kinds,
            encoder=about.get("encoder"),
            backbone=about.get("backbone"),
            features=about.get("features"),
        )

    def to_json(self) -> str:
        """Return the facts as text, the same for the same facts."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; what a later release keeps besides is left out."""
        try:
            found = {k: v for k, v in json.loads(text).items() if k in cls.__dataclass_fields__}
            lists = ("attribute_names", "attribute_blocks", "attribute_kinds")
            return cls(**found | {name: tuple(found[name]) for name in lists})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError("what the registry keeps of a model cannot be read") from None

    # ------------------------------------------------------------------ attributes
    @property
    def plain_kinds(self) -> list[tuple[str, int]]:
        """Kind and width of the parts that are not made of text."""
        parts = zip(self.attribute_kinds, self.attribute_blocks, strict=True)
        return [(kind, width) for kind, width in parts if kind != TEXT]

    @property
    def n_plain(self) -> int:
        """How many attributes are not made of text."""
        return sum(width for _, width in self.plain_kinds)

    def plain_part(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what of an attribute vector (n_attributes,) is not made of text."""
        is_plain = [kind != TEXT for kind in self.attribute_kinds]
        return vector[np.repeat(is_plain, self.attribute_blocks)]

    def same_attributes(self, other: ModelFacts) -> bool:
        """Return whether an attribute vector means the same to both models, number by number."""
        if (self.attribute_blocks, self.attribute_kinds) != (
            other.attribute_blocks,
            other.attribute_kinds,
        ):
            return False
        names = _folded(self.attribute_names), _folded(other.attribute_names)
        if all(names) and names[0] != names[1]:
            return False
        if TEXT not in self.attribute_kinds:
            return True
        if self.encoder is None or other.encoder is None:
            return self.encoder is other.encoder
        return encoder_difference(other.encoder, self.encoder) is None

    # ------------------------------------------------------------------ features
    def feature_difference(self, other: ModelFacts) -> str | None:
        """Say in a clause how the features of another model differ, or return None."""
        if self.n_features != other.n_features:
            return f"have {other.n_features} features, and the model reads {self.n_features}"
        if _weights(self.backbone) != _weights(other.backbone):
            return "are features of another backbone"
        if self.features and other.features and self.features != other.features:
            return f"are features {other.features!r}, and the model reads {self.features!r}"
        return None


def _folded(names: tuple[str, ...]) -> list[str]:
    return [name.strip().lower() for name in names]


def _weights(backbone: Mapping[str, Any] | None) -> Any:
    """Return what two records of the same backbone have in common."""
    if backbone is None:
        return None
    return {key: backbone.get(key) for key in ("name", "sha256", "preprocessing")}
