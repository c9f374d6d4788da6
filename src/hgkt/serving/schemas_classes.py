"""What requests and answers about classes look like; the API's description is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hgkt.serving.entries import MAX_NAME

MAX_TEXT = 20_000
MAX_ATTRIBUTES = 100_000
# What a name may not hold: control characters. What is not valid Unicode is refused as text.
_NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$"
_TEXT_PATTERN = r"^[^\x00]*$"


def _bounded(value: Any) -> Any:
    """Refuse an endless mapping before each of its values is looked at."""
    if isinstance(value, dict) and len(value) > MAX_ATTRIBUTES:
        raise ValueError(f"at most {MAX_ATTRIBUTES:,} attributes are expected")
    return value


Kind = Literal["all", "seen", "added"]
Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_NAME,
        pattern=_NAME_PATTERN,
        description="Name of the class; a label that is a number is written as text.",
        examples=["zebra"],
    ),
]
Number = Annotated[float, Field(allow_inf_nan=False)]
# Fail fast: the first wrong number is told, not each of a million.
Vector = Annotated[list[Number], Field(min_length=1, max_length=MAX_ATTRIBUTES, fail_fast=True)]
Named = Annotated[dict[str, Number], BeforeValidator(_bounded)]


class NewClass(BaseModel):
    """A class to add, described by numbers, by named attributes, by text, or by several."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: Name
    vector: Vector | None = Field(
        default=None, description="All attributes, or all that are not made of text."
    )
    attributes: Named | None = Field(
        default=None, description="Attributes by name; others are 0.", examples=[{"stripes": 1.0}]
    )
    text: Annotated[str, Field(max_length=MAX_TEXT, pattern=_TEXT_PATTERN)] | None = Field(
        default=None, description="What the class looks like, in a sentence."
    )

    @model_validator(mode="after")
    def _described(self) -> Self:
        if self.vector is None and self.attributes is None and self.text is None:
            raise ValueError("a class needs one of vector, attributes and text")
        return self


class NewClasses(BaseModel):
    """Classes to add: all of them are added, or none."""

    model_config = ConfigDict(extra="forbid", strict=True)
    classes: list[NewClass] = Field(min_length=1, fail_fast=True)


class ClassSummary(BaseModel):
    """One class in a list."""

    name: str
    seen: bool = Field(description="Whether the class was learned from instances.")
    text: str | None = Field(description="The text that it was described by.")
    added_at: str | None = Field(description="When it was added, ISO 8601 in UTC.")


class ClassList(BaseModel):
    """Classes, in the model's order."""

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


class ClassesRemoved(BaseModel):
    """A class was removed."""

    revision: int
    removed: list[str]
    n_classes: int
