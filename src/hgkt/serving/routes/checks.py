"""What would become of classes if they were added; nothing is changed."""

from __future__ import annotations

from typing import Self

from fastapi import APIRouter
from pydantic import BaseModel, Field

from hgkt.estimators.checking import ClassCheck
from hgkt.serving.editions import label_of
from hgkt.serving.entries import ClassExistsError
from hgkt.serving.problems import documented
from hgkt.serving.routes.class_models import NewClasses
from hgkt.serving.routes.classes import CLASSES_BODY, sent_classes
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings


class RivalClass(BaseModel):
    """A known class that the new one would be confused with."""

    label: str
    share: float | None = Field(
        description="Share of the new class's images that would go there; null where not known."
    )
    similarity: float = Field(description="Cosine of the two attribute vectors.")


class LosingClass(BaseModel):
    """A known class that would lose images."""

    label: str
    share: float = Field(description="Share of its images that are right now and would not be.")


class TellingAttribute(BaseModel):
    """An attribute that would help most if it were known better."""

    position: int
    name: str | None
    weight: float


class CheckedClass(BaseModel):
    """What would become of one class. Shares and accuracies are fractions of one."""

    name: str
    empty: bool = Field(description="Whether the attributes are all zero.")
    duplicates: list[str] = Field(description="Known classes with the same attributes.")
    rivals: list[RivalClass] = Field(description="The strongest first.")
    losses: list[LosingClass]
    accuracy: float | None = Field(description="Share of its images that should be recognised.")
    accuracy_range: list[float] | None = Field(
        description="Where the accuracy lies for eight of ten classes."
    )
    n_held_out: int = Field(description="How many held-out classes that is learned from.")
    rank_correlation: float | None = Field(description="Of expected and real accuracy over those.")
    variance: float | None = Field(description="0: its place is known; 1: nothing is known.")
    distance: float | None = Field(
        description="Share of the seen classes that lie nearer to the others."
    )
    attributes: list[TellingAttribute]
    reasons: list[str] = Field(description="Why something is not known.")
    sentences: list[str]

    @classmethod
    def of(cls, check: ClassCheck) -> Self:
        """Write a check; a label that is a number is its text."""
        found = check.to_dict()
        for part in (*found["rivals"], *found["losses"]):
            part["label"] = str(part["label"])
        duplicates = [str(label) for label in found["duplicates"]]
        return cls(**{**found, "name": str(check.name), "duplicates": duplicates})


class ChecksDone(BaseModel):
    """What would become of classes, each as if it were added alone."""

    revision: int
    classes: list[CheckedClass]


def build_router(served: ServedModel, settings: ServiceSettings) -> APIRouter:
    """Return the route ``POST /v1/classes/check``."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    sent = sent_classes(served, settings)

    @router.post(
        "/check",
        summary="Say what would become of classes; nothing is changed",
        responses=documented(400, 409, 413, 415, 422),
        openapi_extra=CLASSES_BODY,
    )
    def check_classes(body: NewClasses = sent) -> ChecksDone:
        edition = served.current()
        given = body.descriptions()
        names = [edition.canonical(item.name) for item in given]
        for item, name in zip(given, names, strict=True):
            if name in edition.columns:
                raise ClassExistsError(item.name)
        vectors = served.vectors(given)
        found = [
            edition.model.check_class(vector, label_of(edition.model, name))
            for name, vector in zip(names, vectors, strict=True)
        ]
        return ChecksDone(
            revision=edition.revision, classes=[CheckedClass.of(check) for check in found]
        )

    return router
