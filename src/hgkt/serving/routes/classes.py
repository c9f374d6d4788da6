"""Classes: list, show, add and remove."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from hgkt._class_names import MAX_NAME
from hgkt.language import ClassDescription
from hgkt.serving.class_facts import class_relatives, class_sources, named_attributes
from hgkt.serving.database import RegistryError
from hgkt.serving.editions import Edition
from hgkt.serving.entries import UnknownClassError
from hgkt.serving.idempotency import KeyedRequest, Receipt
from hgkt.serving.json_bodies import JSON, read_json, schema_of
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.security import require_key
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings

MAX_TEXT = 20_000
_FEW_VALUES = 250_000  # keys and values, and commas in texts, beside the attributes
_STORAGE = (503, 507)


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

    def descriptions(self) -> list[ClassDescription]:
        """Return the classes as a describer takes them."""
        return [
            ClassDescription(item.name, item.vector, item.attributes, item.text)
            for item in self.classes
        ]


# ---------------------------------------------------------------------- what answers look like
class ClassSummary(BaseModel):
    """One class in a list."""

    name: str
    seen: bool = Field(description="Whether the class was learned from instances.")
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


# ---------------------------------------------------------------------- routes
CLASSES_BODY = {
    "requestBody": {"required": True, "content": {JSON: {"schema": schema_of(NewClasses)}}}
}
"""What the API's description says of a body that `sent_classes` reads."""


def sent_classes(served: ServedModel, settings: ServiceSettings) -> Any:
    """Return the dependency that reads `NewClasses`; it comes behind the key, a body before it."""
    n_attributes = served.current().model.class_attributes_.shape[1]
    max_values = _FEW_VALUES + settings.max_classes * n_attributes

    async def new_classes(request: Request) -> NewClasses:
        body = await read_json(request, NewClasses, max_values)
        if len(body.classes) > settings.max_classes:
            raise Problem(
                413,
                f"{len(body.classes)} classes were sent; at most {settings.max_classes} are taken "
                "in one request",
            )
        return body

    return Depends(new_classes)


def build_router(served: ServedModel, settings: ServiceSettings, metrics: Metrics) -> APIRouter:
    """Return the routes under ``/v1/classes``."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    guarded = [Depends(require_key(settings))]
    key = (401,) if settings.api_keys else ()
    sent = sent_classes(served, settings)

    @router.get("", summary="List classes", responses=documented(422))
    def list_classes(
        query: Annotated[
            str, Query(max_length=200, description="Part of the name, in any case.")
        ] = "",
        kind: Annotated[Kind, Query(description="Which classes.")] = "all",
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        newest_first: Annotated[
            bool, Query(description="Added classes before seen ones, the latest first.")
        ] = False,
    ) -> ClassList:
        edition = served.current()
        found = find_columns(edition, query, kind)
        if newest_first:
            found = sort_newest_first(edition, found)
        return ClassList(
            revision=edition.revision,
            n_classes=len(edition.names),
            n_matching=len(found),
            classes=[summarise(edition, column) for column in found[offset : offset + limit]],
        )

    @router.post(
        "",
        status_code=201,
        summary="Add classes, all or none",
        dependencies=guarded,
        responses=documented(400, *key, 409, 413, 415, 422, *_STORAGE),
        openapi_extra=CLASSES_BODY,
    )
    def add_classes(
        body: NewClasses = sent, idempotency_key: IdempotencyKey = None
    ) -> ClassesAdded:
        given = body.descriptions()
        request = keyed(idempotency_key, "add", repr(given))

        def change() -> Receipt:
            edition, doubts = served.add(given, request)
            metrics.added.inc(len(given))
            return receipt_of(edition, [item.name for item in given], doubts)

        receipt = change() if request is None else served.once(request, change)
        return ClassesAdded(
            revision=receipt.revision,
            added=list(receipt.names),
            n_classes=len(served.current().learned) + receipt.n_added,
            warnings=list(receipt.doubts),
        )

    @router.get("/{name:path}", summary="Show one class", responses=documented(404, 422))
    def show_class(name: str) -> ClassDetail:
        try:
            return describe(served.current(), name)
        except UnknownClassError:
            # Another worker may have added it just now.
            with contextlib.suppress(RegistryError):
                return describe(served.refresh(), name)
            raise

    @router.delete(
        "/{name:path}",
        summary="Remove a class that was added",
        dependencies=guarded,
        responses=documented(*key, 404, 409, 422, *_STORAGE),
    )
    def remove_class(name: str, idempotency_key: IdempotencyKey = None) -> ClassesRemoved:
        request = keyed(idempotency_key, "remove", name)

        def change() -> Receipt:
            edition = served.remove([name], request)
            metrics.removed.inc()
            return receipt_of(edition, [name])

        receipt = change() if request is None else served.once(request, change)
        return ClassesRemoved(
            revision=receipt.revision,
            removed=list(receipt.names),
            n_classes=len(served.current().learned) + receipt.n_added,
        )

    return router


def keyed(key: str | None, kind: str, content: str) -> KeyedRequest | None:
    """Return the request of an idempotency key; None without one."""
    return None if key is None else KeyedRequest.of(key, kind, content)


def receipt_of(edition: Edition, names: Sequence[str], doubts: Sequence[str] = ()) -> Receipt:
    """Return what a change did that led to an edition."""
    written = tuple(edition.canonical(name) for name in names)
    return Receipt(edition.revision, written, edition.n_added, tuple(doubts))


def find_columns(edition: Edition, query: str, kind: Kind) -> Sequence[int]:
    """Return the columns of the classes of one kind whose name holds `query`, in any case."""
    first = edition.n_seen if kind == "added" else 0
    last = edition.n_seen if kind == "seen" else len(edition.names)
    columns: list[int] = edition.order[first:last].tolist()
    wanted = query.casefold()
    if not wanted:
        return columns
    return [column for column in columns if wanted in edition.folded_names[column]]


def sort_newest_first(edition: Edition, columns: Sequence[int]) -> list[int]:
    """Sort columns of `find_columns`: what was added last comes first, then seen classes."""
    seen = [column for column in columns if edition.seen[column]]
    added = [column for column in columns if not edition.seen[column]]
    times = edition.added_at
    # Of classes that came at the same time the later one is first: the sort keeps their order.
    added.reverse()
    added.sort(key=lambda column: times.get(edition.names[column], ""), reverse=True)
    return added + seen


def summarise(edition: Edition, column: int) -> ClassSummary:
    """Return one line of a list."""
    name = edition.names[column]
    return ClassSummary(
        name=name,
        seen=bool(edition.seen[column]),
        text=edition.texts.get(name),
        added_at=edition.added_at.get(name),
    )


def describe(edition: Edition, name: str) -> ClassDetail:
    """Return everything about a class."""
    column = edition.find(name)
    row = edition.model.class_attributes_[column]
    return ClassDetail(
        **summarise(edition, column).model_dump(),
        vector=row.tolist(),
        attributes=named_attributes(edition.model, row),
        sources=[Source(**vars(source)) for source in class_sources(edition, column)],
        relatives=[
            Relative(label=label, similarity=similarity)
            for label, similarity in class_relatives(edition, column)
        ],
    )
