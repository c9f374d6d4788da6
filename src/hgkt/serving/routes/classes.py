"""Classes: list, show, check, add, edit, rename and remove."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Depends, Header, Query, Request
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from hgkt._validation import MAX_NAME
from hgkt.calibration import Costs
from hgkt.estimators.class_check import ClassCheck
from hgkt.language import ClassDescription
from hgkt.serving.auth import require_key
from hgkt.serving.class_facts import class_relatives, class_sources, named_attributes
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import ClassKind, Edition, label_of
from hgkt.serving.events import MAX_REASON, ClassExistsError, Origin, UnknownClassError
from hgkt.serving.live_model import ServedModel
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.registry import KeyedRequest, Receipt
from hgkt.serving.routes.bodies import FEW_VALUES, json_body, read_json
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.work_queue import Queues

STORAGE = (503, 507)
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


class AddingCosts(BaseModel):
    """What added classes cost the learned ones on average, by validation; fractions of one."""

    n_before: int = Field(description="How many added classes there were before.")
    n_after: int
    learned_before: float = Field(description="Mean accuracy over learned classes.")
    learned_after: float
    added: float = Field(description="Mean accuracy over all added classes afterwards.")
    sentence: str

    @classmethod
    def of(cls, costs: Costs | None) -> Self | None:
        """Write costs; None where they are not known."""
        return None if costs is None else cls(**asdict(costs), sentence=costs.sentence())


class ClassesAdded(BaseModel):
    """Classes were added and are on disk."""

    revision: int
    added: list[str]
    n_classes: int
    warnings: list[str] = Field(
        description="What is doubtful about them, such as a class described like another."
    )
    costs: AddingCosts | None = Field(description="Null where no folds said anything.")


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
    costs: AddingCosts | None = Field(description="Of one more class; null where not known.")
    reasons: list[str] = Field(description="Why something is not known.")
    sentences: list[str]

    @classmethod
    def of(cls, check: ClassCheck) -> Self:
        """Write a check; a label that is a number is its text."""
        found = check.to_dict()
        for part in (*found["rivals"], *found["losses"]):
            part["label"] = str(part["label"])
        duplicates = [str(label) for label in found["duplicates"]]
        costs = AddingCosts.of(check.costs)
        more = {"name": str(check.name), "duplicates": duplicates, "costs": costs}
        return cls(**{**found, **more})


class ChecksDone(BaseModel):
    """What would become of classes, each as if it were added alone."""

    revision: int
    classes: list[CheckedClass]


# ---------------------------------------------------------------------- changes
Changer = Callable[
    [str | None, str, str, Callable[[KeyedRequest | None], Receipt]], Awaitable[Receipt]
]


def changer(served: ServedModel, queues: Queues) -> Changer:
    """Return what makes changes one after another, each once for its idempotency key.

    It takes the key or None, what is done, to what, and the function that does it.
    """

    async def run(
        key: str | None,
        kind: str,
        content: str,
        change: Callable[[KeyedRequest | None], Receipt],
    ) -> Receipt:
        request = None if key is None else KeyedRequest.of(key, kind, content)

        def work() -> Receipt:
            if request is None:
                return change(None)
            return served.once(request, lambda: change(request))

        return await queues.changes.run(work)

    return run


def receipt_of(
    edition: Edition, names: Sequence[str], doubts: Sequence[str] = (), n_examples: int = 0
) -> Receipt:
    """Return what a change did that led to an edition."""
    written = tuple(edition.canonical(name) for name in names)
    return Receipt(edition.revision, written, edition.n_added, tuple(doubts), n_examples)


def counted(served: ServedModel, receipt: Receipt) -> dict[str, int]:
    """Return what every answer to a change says: its revision, and how many classes there are."""
    n_classes = len(served.current().learned) + receipt.n_added
    return {"revision": receipt.revision, "n_classes": n_classes}


# ---------------------------------------------------------------------- routes
def build_router(
    served: ServedModel, settings: ServiceSettings, metrics: Metrics, queues: Queues
) -> APIRouter:
    """Return the routes under ``/v1/classes``, but for examples."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    by, key = Depends(require_key(settings)), (401,) if settings.api_keys else ()
    n_attributes = served.base.class_attributes_.shape[1]
    change = changer(served, queues)

    def sent_classes(most: int) -> Any:
        """Return the dependency that reads `NewClasses`; it comes behind the key."""

        async def new_classes(request: Request) -> NewClasses:
            max_values = FEW_VALUES + settings.max_classes * n_attributes
            body = await read_json(request, NewClasses, max_values)
            if len(body.classes) > most:
                raise Problem(
                    413,
                    f"{len(body.classes)} classes were sent; at most {most} are taken in one "
                    "request",
                )
            return body

        return Depends(new_classes)

    async def class_edit(request: Request) -> ClassEdit:
        return await read_json(request, ClassEdit, FEW_VALUES + n_attributes)

    added, checked = sent_classes(settings.max_classes), sent_classes(settings.max_checked)
    edited = Depends(class_edit)

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
        "/check",
        summary="Say what would become of classes; nothing is changed",
        responses=documented(400, 409, 413, 415, 422, 503),
        openapi_extra=json_body(NewClasses),
    )
    async def check_classes(body: NewClasses = checked) -> ChecksDone:
        return await queues.costly.run(check_added, served, body.descriptions())

    @router.post(
        "",
        status_code=201,
        summary="Add classes, all or none",
        dependencies=[by],
        responses=documented(400, *key, 409, 413, 415, 422, *STORAGE),
        openapi_extra=json_body(NewClasses),
    )
    async def add_classes(
        who: str | None = by, body: NewClasses = added, idempotency_key: IdempotencyKey = None
    ) -> ClassesAdded:
        given = body.descriptions()

        def add(request: KeyedRequest | None) -> Receipt:
            edition, doubts = served.add(given, request, Origin(who, body.reason))
            metrics.added.inc(len(given))
            return receipt_of(edition, [item.name for item in given], doubts)

        receipt = await change(idempotency_key, "add", repr(given), add)
        names, warnings = list(receipt.names), list(receipt.doubts)
        costs = served.base.costs(receipt.n_added - len(names), receipt.n_added)
        return ClassesAdded(
            added=names,
            warnings=warnings,
            costs=AddingCosts.of(costs),
            **counted(served, receipt),
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

    @router.patch(
        "/{name:path}",
        summary="Describe an added class anew, rename it, or both",
        dependencies=[by],
        responses=documented(400, *key, 404, 409, 413, 415, 422, *STORAGE),
        openapi_extra=json_body(ClassEdit),
    )
    async def edit_class(
        name: str,
        who: str | None = by,
        body: ClassEdit = edited,
        idempotency_key: IdempotencyKey = None,
    ) -> ClassEdited:
        def edit(request: KeyedRequest | None) -> Receipt:
            given = body.description(name)
            edition, doubts = served.edit(name, given, body.name, request, Origin(who, body.reason))
            metrics.edited.inc()
            return receipt_of(edition, [name if body.name is None else body.name], doubts)

        receipt = await change(idempotency_key, "edit", f"{name} {body!r}", edit)
        warnings = list(receipt.doubts)
        return ClassEdited(name=receipt.names[0], warnings=warnings, **counted(served, receipt))

    @router.delete(
        "/{name:path}",
        summary="Remove a class that was added",
        dependencies=[by],
        responses=documented(*key, 404, 409, 422, *STORAGE),
    )
    async def remove_class(
        name: str,
        idempotency_key: IdempotencyKey = None,
        why: ReasonQuery = None,
        who: str | None = by,
    ) -> ClassesRemoved:
        def remove(request: KeyedRequest | None) -> Receipt:
            edition = served.remove([name], request, Origin(who, why))
            metrics.removed.inc()
            return receipt_of(edition, [name])

        receipt = await change(idempotency_key, "remove", name, remove)
        return ClassesRemoved(removed=list(receipt.names), **counted(served, receipt))

    return router


def check_added(served: ServedModel, given: Sequence[ClassDescription]) -> ChecksDone:
    """Say what would become of classes, each as if it were added alone."""
    edition = served.current()
    names = [edition.canonical(item.name) for item in given]
    for item, name in zip(given, names, strict=True):
        if name in edition.columns:
            raise ClassExistsError(item.name)
    found = [
        edition.model.check_class(vector, label_of(edition.model, name))
        for name, vector in zip(names, served.vectors(given), strict=True)
    ]
    return ChecksDone(
        revision=edition.revision, classes=[CheckedClass.of(check) for check in found]
    )


def find_columns(edition: Edition, query: str, kind: Kind) -> Sequence[int]:
    """Return the columns of the classes of one kind whose name holds `query`, in any case."""
    chosen = edition.order
    if kind != "all":
        chosen = chosen[(edition.seen if kind == "seen" else edition.added)[chosen]]
    columns: list[int] = chosen.tolist()
    wanted = query.casefold()
    if not wanted:
        return columns
    return [column for column in columns if wanted in edition.folded_names[column]]


def sort_newest_first(edition: Edition, columns: Sequence[int]) -> list[int]:
    """Sort columns of `find_columns`: what was added last comes first, then learned classes."""
    learned = [column for column in columns if not edition.added[column]]
    added = [column for column in columns if edition.added[column]]
    # Of classes that came at the same time the later one is first: the sort keeps their order.
    added.reverse()
    added.sort(key=lambda column: edition.entry(edition.names[column]).added_at, reverse=True)
    return added + learned


def summarise(edition: Edition, column: int) -> ClassSummary:
    """Return one line of a list."""
    name = edition.names[column]
    entry = edition.entry(name)
    return ClassSummary(
        name=name,
        seen=bool(edition.seen[column]),
        kind=edition.kind(column),
        n_examples=edition.n_examples.get(name, 0),
        text=entry.text,
        added_at=entry.added_at or None,
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
