"""Classes: list, show, check, add, edit, rename and remove."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Depends, Header, Query
from msgspec import Meta, Struct
from prometheus_client import Counter
from pydantic import BaseModel, Field

from hgkt._validation import MAX_NAME, label_of
from hgkt.calibration import Costs
from hgkt.estimators.class_check import ClassCheck, Loss, Rival, TellingAttribute
from hgkt.language import ClassDescription
from hgkt.serving.auth import require_key
from hgkt.serving.class_facts import class_relatives, class_sources, named_attributes
from hgkt.serving.database import RegistryError
from hgkt.serving.edition import ClassKind, Edition
from hgkt.serving.events import MAX_REASON, ClassExistsError, Origin, UnknownClassError
from hgkt.serving.live_model import ServedModel
from hgkt.serving.registry import KeyedRequest, Receipt
from hgkt.serving.routes import Service
from hgkt.serving.routes.bodies import FEW_VALUES, json_body, refuse_many, sent

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
    list[float], Meta(min_length=1, description="All attributes, or all that are not made of text.")
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
class Described(Struct, forbid_unknown_fields=True, kw_only=True):
    """By what a class is described: numbers, named attributes, a text, or several of them."""

    vector: Vector | None = None
    attributes: Named | None = None
    text: Text | None = None

    def describes(self) -> bool:
        """Return whether anything of it was given."""
        return not (self.vector is None and self.attributes is None and self.text is None)

    def description(self, name: str) -> ClassDescription:
        """Return the class as a describer takes it."""
        return ClassDescription(name, self.vector, self.attributes, self.text)


class NewClass(Described, kw_only=True):
    """A class to add, described by numbers, by named attributes, by text, or by several."""

    name: Name

    def __post_init__(self) -> None:
        if not self.describes():
            raise ValueError("a class needs one of vector, attributes and text")


class NewClasses(Struct, forbid_unknown_fields=True):
    """Classes to add: all of them are added, or none."""

    classes: Annotated[list[NewClass], Meta(min_length=1)]
    reason: Reason | None = None

    def descriptions(self) -> list[ClassDescription]:
        """Return the classes as a describer takes them."""
        return [item.description(item.name) for item in self.classes]


class ClassEdit(Described, kw_only=True):
    """What a class is to be: another name, another description, or both."""

    name: Name | None = None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if self.name is None and not self.describes():
            raise ValueError("one of name, vector, attributes and text is expected")


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


class ClassesChanged(BaseModel):
    """Classes were changed, and that is on disk."""

    revision: int
    names: list[str] = Field(description="The classes, by the names that they have now.")
    n_classes: int
    warnings: list[str] = Field(
        validation_alias="doubts",
        description="What is doubtful about them, such as a class described like another.",
    )
    n_examples: int = Field(description="How many examples a class that grew has grown by here.")


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


class ClassesAdded(ClassesChanged):
    """Classes were added, and that is on disk."""

    costs: AddingCosts | None = Field(description="Null where no folds said anything.")


class CheckedClass(BaseModel, coerce_numbers_to_str=True):
    """What would become of one class. Shares and accuracies are fractions of one."""

    name: str
    empty: bool = Field(description="Whether the attributes are all zero.")
    duplicates: list[str] = Field(description="Known classes with the same attributes.")
    rivals: list[Rival]
    losses: list[Loss]
    accuracy: float | None
    accuracy_range: list[float] | None
    n_held_out: int
    rank_correlation: float | None
    variance: float | None
    distance: float | None
    attributes: list[TellingAttribute]
    costs: AddingCosts | None = Field(description="Of one more class; null where not known.")
    reasons: list[str] = Field(description="Why something is not known.")
    sentences: list[str]

    @classmethod
    def of(cls, check: ClassCheck) -> Self:
        """Write a check; a label that is a number is its text."""
        found = check.to_dict() | {"costs": AddingCosts.of(check.costs)}
        for part in (*found["rivals"], *found["losses"]):
            part["label"] = str(part["label"])
        return cls(**found)


class ChecksDone(BaseModel):
    """What would become of classes, each as if it were added alone."""

    revision: int
    classes: list[CheckedClass]


# ---------------------------------------------------------------------- changes
@dataclass(frozen=True)
class Change:
    """One request that changes classes: by whom, and under which idempotency key.

    Parameters
    ----------
    service : Service
        What is changed.
    who, key : str, optional
        Id of the API key, and the idempotency key.
    """

    service: Service
    who: str | None
    key: str | None

    def request(self, *content: str) -> KeyedRequest | None:
        """Return the request as it is known again; None without an idempotency key."""
        return None if self.key is None else KeyedRequest.of(self.key, *content)

    async def make(
        self,
        request: KeyedRequest | None,
        reason: str | None,
        work: Callable[..., Receipt],
        counter: Counter | None = None,
        count: int = 1,
    ) -> Receipt:
        """Make a change after those before it, once for its key, and return what it did.

        Parameters
        ----------
        request : KeyedRequest, optional
            What `request` returned.
        reason : str, optional
            Why, for the log.
        work : callable
            Makes the change; it takes what `Asked` holds.
        counter, count : Counter, int
            What it adds to what is counted.
        """

        def once() -> Receipt:
            receipt = self.service.served.receipt(request)
            if receipt is None:
                receipt = work(request=request, origin=Origin(self.who, reason))
                if counter is not None:
                    counter.inc(count)
            return receipt

        return await self.service.queues.changes.run(once)


def change_of(service: Service) -> Any:
    """Return the dependency that lets a request change classes, where its key may."""
    by: Any = Depends(require_key(service.settings))

    def change(who: str | None = by, idempotency_key: IdempotencyKey = None) -> Change:
        return Change(service, who, idempotency_key)

    return Depends(change)


# ---------------------------------------------------------------------- routes
def build_router(service: Service) -> APIRouter:
    """Return the routes under ``/v1/classes``, but for examples."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    served, settings, metrics = service.served, service.settings, service.metrics
    n_attributes = served.base.class_attributes_.shape[1]
    changing = change_of(service)

    edited = sent(ClassEdit, FEW_VALUES + n_attributes)
    described = sent(NewClasses, FEW_VALUES + settings.max_classes * n_attributes)

    @router.get("")
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
        """List classes."""
        edition = served.current()
        found = find_columns(edition, query, kind, newest_first)
        return ClassList(
            revision=edition.revision,
            n_classes=len(edition.names),
            n_matching=len(found),
            classes=[summarise(edition, column) for column in found[offset : offset + limit]],
        )

    @router.post("/check", openapi_extra=json_body(NewClasses))
    async def check_classes(body: NewClasses = described) -> ChecksDone:
        """Say what would become of classes; nothing is changed."""
        refuse_many(len(body.classes), settings.max_checked, "classes")
        return await service.queues.costly.run(check_added, served, body.descriptions())

    @router.post("", status_code=201, openapi_extra=json_body(NewClasses))
    async def add_classes(change: Change = changing, body: NewClasses = described) -> ClassesAdded:
        """Add classes, all or none."""
        refuse_many(len(body.classes), settings.max_classes, "classes")
        given = body.descriptions()
        request = change.request("add", repr(given))
        work = partial(served.add, given)
        receipt = await change.make(request, body.reason, work, metrics.added, len(given))
        n_added = receipt.n_classes - len(served.current().learned)
        costs = served.base.costs(n_added - len(receipt.names), n_added)
        return ClassesAdded(**vars(receipt), costs=AddingCosts.of(costs))

    @router.get("/{name:path}")
    def show_class(name: str) -> ClassDetail:
        """Show one class."""
        try:
            return describe(served.current(), name)
        except UnknownClassError:
            # Another worker may have added it just now.
            with contextlib.suppress(RegistryError):
                return describe(served.refresh(), name)
            raise

    @router.patch("/{name:path}", response_model=ClassesChanged, openapi_extra=json_body(ClassEdit))
    async def edit_class(name: str, change: Change = changing, body: ClassEdit = edited) -> Receipt:
        """Describe an added class anew, rename it, or both."""
        request = change.request("edit", f"{name} {body!r}")
        description = body.description(name) if body.describes() else None
        work = partial(served.edit, name, description, body.name)
        return await change.make(request, body.reason, work, metrics.edited)

    @router.delete("/{name:path}", response_model=ClassesChanged)
    async def remove_class(
        name: str, change: Change = changing, why: ReasonQuery = None
    ) -> Receipt:
        """Remove a class that was added."""
        work = partial(served.remove, [name])
        return await change.make(change.request("remove", name), why, work, metrics.removed)

    return router


def check_added(served: ServedModel, given: Sequence[ClassDescription]) -> ChecksDone:
    """Say what would become of classes, each as if it were added alone."""
    edition = served.current()
    labels = [label_of(edition.model, item.name) for item in given]
    for label in map(str, labels):
        if label in edition.columns:
            raise ClassExistsError(label)
    found = map(edition.model.check_class, served.vectors(given), labels)
    return ChecksDone(
        revision=edition.revision, classes=[CheckedClass.of(check) for check in found]
    )


def find_columns(edition: Edition, query: str, kind: Kind, newest_first: bool) -> list[int]:
    """Return the columns of the classes of one kind whose name holds `query`, in any case.

    They are in the model's order, or those that were added come first, the latest before others.
    """
    chosen = edition.order
    if kind != "all":
        chosen = chosen[(edition.seen if kind == "seen" else edition.added)[chosen]]
    wanted = query.casefold()
    columns = [column for column in chosen.tolist() if wanted in edition.folded_names[column]]
    if not newest_first:
        return columns
    # Of classes that came at the same time the later one is first: the sort keeps their order.
    added = [column for column in reversed(columns) if edition.added[column]]
    added.sort(key=lambda column: edition.entry(edition.names[column]).added_at, reverse=True)
    return added + [column for column in columns if not edition.added[column]]


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
    relatives = class_relatives(edition, column)
    return ClassDetail(
        **vars(summarise(edition, column)),
        vector=row.tolist(),
        attributes=named_attributes(edition.model, row),
        sources=[Source(**vars(source)) for source in class_sources(edition, column)],
        relatives=[Relative(label=label, similarity=cosine) for label, cosine in relatives],
    )
