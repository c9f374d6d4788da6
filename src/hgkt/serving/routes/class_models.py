"""Classes as requests and answers have them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Header, Query
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from hgkt._validation import MAX_NAME
from hgkt.language import ClassDescription
from hgkt.serving.editions import ClassKind
from hgkt.serving.events import MAX_REASON

MAX_TEXT = 20_000
# ---------------------------------------------------------------------- what is sent
Kind = Literal["all", "seen", "added"]
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_NAME,
        # No control characters; what is not valid Unicode is refused as text.
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="Name of the class; a label that is a number is written as text.",
        examples=["zebra"],
    ),
]
Text = Annotated[
    str,
    Meta(
        max_length=MAX_TEXT,
        pattern=r"^[^\x00]*$",
        description="What the class looks like, in a sentence.",
    ),
]
Vector = Annotated[
    list[float],
    Meta(min_length=1, description="All attributes, or all that are not made of text."),
]
Named = Annotated[
    dict[str, float],
    Meta(description="Attributes by name; others are 0.", examples=[{"stripes": 1.0}]),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A name of the client's own for this request, such as a UUID. The same request "
        "sent again with the same key changes nothing and gets the first answer, for a day.",
    ),
]

Reason = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_REASON,
        pattern=r"^[^\x00]*$",
        description="Why, for the log.",
        examples=["the first photographs came in"],
    ),
]
ReasonQuery = Annotated[
    str | None,
    Query(alias="reason", min_length=1, max_length=MAX_REASON, description="Why, for the log."),
]


# Structs of msgspec, not models of pydantic: that stops at the first mistake, where pydantic
# makes a list of a million.
class NewClass(Struct, forbid_unknown_fields=True):
    """A class to add, described by numbers, by named attributes, by text, or by several."""

    name: Name
    vector: Vector | None = None
    attributes: Named | None = None
    text: Text | None = None

    def __post_init__(self) -> None:
        if self.vector is None and self.attributes is None and self.text is None:
            raise ValueError("a class needs one of vector, attributes and text")


class NewClasses(Struct, forbid_unknown_fields=True):
    """Classes to add: all of them are added, or none."""

    classes: Annotated[list[NewClass], Meta(min_length=1)]
    reason: Reason | None = None

    def descriptions(self) -> list[ClassDescription]:
        """Return the classes as a describer takes them."""
        return [
            ClassDescription(item.name, item.vector, item.attributes, item.text)
            for item in self.classes
        ]


class ClassEdit(Struct, forbid_unknown_fields=True):
    """What a class is to be: another name, another description, or both."""

    name: Name | None = None
    vector: Vector | None = None
    attributes: Named | None = None
    text: Text | None = None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if self.name is None and not self.describes:
            raise ValueError("one of name, vector, attributes and text is expected")

    @property
    def describes(self) -> bool:
        """Whether the class is described anew."""
        return not (self.vector is None and self.attributes is None and self.text is None)

    def description(self, name: str) -> ClassDescription | None:
        """Return the new description as a describer takes it; None where the old one stays."""
        if not self.describes:
            return None
        return ClassDescription(name, self.vector, self.attributes, self.text)


# ---------------------------------------------------------------------- what answers look like
class ClassSummary(BaseModel):
    """One class in a list."""

    name: str
    seen: bool = Field(description="Whether the class was learned from instances.")
    kind: ClassKind = Field(
        description="By what it is known: `described`, an added class without examples; `grown`, "
        "an added class with examples; `learned`, a class of the model's training."
    )
    n_examples: int = Field(description="How many examples it has grown by here.")
    text: str | None = Field(description="The text that it was described by.")
    added_at: str | None = Field(description="When it was added, ISO 8601 in UTC.")


class ClassList(BaseModel):
    """Classes, in the model's order or the newest first."""

    revision: int = Field(description="Number of changes to the classes so far.")
    n_classes: int
    n_matching: int = Field(description="How many fit query and kind, on all pages together.")
    classes: list[ClassSummary]


class Source(BaseModel):
    """A seen class from which a class is made."""

    label: str
    weight: float


class Relative(BaseModel):
    """A class of like attributes."""

    label: str
    similarity: float = Field(description="Cosine of the two attribute vectors.")


class ClassDetail(ClassSummary):
    """Everything that is known about a class."""

    vector: list[float]
    attributes: dict[str, float] | None = Field(
        description="Attributes by name; null where the model has no names."
    )
    sources: list[Source] = Field(description="The strongest first; empty without explanations.")
    relatives: list[Relative] = Field(description="The nearest first.")


class ClassesAdded(BaseModel):
    """Classes were added and are on disk."""

    revision: int
    added: list[str]
    n_classes: int
    warnings: list[str] = Field(
        description="What is doubtful about them, such as a class described like another."
    )


class ClassesRemoved(BaseModel):
    """A class was removed."""

    revision: int
    removed: list[str]
    n_classes: int


class ClassEdited(BaseModel):
    """A class was edited, and that is on disk."""

    revision: int
    name: str = Field(description="What it is called now.")
    n_classes: int
    warnings: list[str] = Field(
        description="What is doubtful about it, such as a class described like another."
    )


class ClassGrown(BaseModel):
    """Examples of a class were taken in; their sums are on disk."""

    revision: int
    name: str
    n_examples: int = Field(description="How many examples it has grown by here, these included.")
    n_classes: int
