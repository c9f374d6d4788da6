"""Classes: list, show, add, edit, rename and remove."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from hgkt.serving.class_facts import class_relatives, class_sources, named_attributes
from hgkt.serving.database import RegistryError
from hgkt.serving.editions import Edition
from hgkt.serving.entries import UnknownClassError
from hgkt.serving.events import Origin
from hgkt.serving.idempotency import KeyedRequest, Receipt
from hgkt.serving.json_bodies import JSON, read_json, schema_of
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import Problem, documented
from hgkt.serving.routes.class_models import (
    ClassDetail,
    ClassEdit,
    ClassEdited,
    ClassesAdded,
    ClassesRemoved,
    ClassList,
    ClassSummary,
    IdempotencyKey,
    Kind,
    NewClasses,
    ReasonQuery,
    Relative,
    Source,
)
from hgkt.serving.security import require_key
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings

STORAGE = (503, 507)
_FEW_VALUES = 250_000  # keys and values, and commas in texts, beside the attributes


CLASSES_BODY = {
    "requestBody": {"required": True, "content": {JSON: {"schema": schema_of(NewClasses)}}}
}
"""What the API's description says of a body that `sent_classes` reads."""
EDIT_BODY = {"requestBody": {"required": True, "content": {JSON: {"schema": schema_of(ClassEdit)}}}}


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


def sent_edit(served: ServedModel) -> Any:
    """Return the dependency that reads a `ClassEdit`."""
    max_values = _FEW_VALUES + served.current().model.class_attributes_.shape[1]

    async def class_edit(request: Request) -> ClassEdit:
        return await read_json(request, ClassEdit, max_values)

    return Depends(class_edit)


def build_router(served: ServedModel, settings: ServiceSettings, metrics: Metrics) -> APIRouter:
    """Return the routes under ``/v1/classes``."""
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    passed = require_key(settings)
    guarded, by = [Depends(passed)], Depends(passed)
    key = (401,) if settings.api_keys else ()
    sent, edited = sent_classes(served, settings), sent_edit(served)

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
        responses=documented(400, *key, 409, 413, 415, 422, *STORAGE),
        openapi_extra=CLASSES_BODY,
    )
    def add_classes(
        body: NewClasses = sent, idempotency_key: IdempotencyKey = None, who: str | None = by
    ) -> ClassesAdded:
        given = body.descriptions()
        request = keyed(idempotency_key, "add", repr(given))

        def change() -> Receipt:
            edition, doubts = served.add(given, request, Origin(who, body.reason))
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

    @router.patch(
        "/{name:path}",
        summary="Describe an added class anew, rename it, or both",
        dependencies=guarded,
        responses=documented(400, *key, 404, 409, 413, 415, 422, *STORAGE),
        openapi_extra=EDIT_BODY,
    )
    def edit_class(
        name: str,
        body: ClassEdit = edited,
        idempotency_key: IdempotencyKey = None,
        who: str | None = by,
    ) -> ClassEdited:
        request = keyed(idempotency_key, "edit", f"{name} {body!r}")

        def change() -> Receipt:
            given = body.description(name)
            edition, doubts = served.edit(name, given, body.name, request, Origin(who, body.reason))
            metrics.edited.inc()
            return receipt_of(edition, [name if body.name is None else body.name], doubts)

        receipt = change() if request is None else served.once(request, change)
        return ClassEdited(
            revision=receipt.revision,
            name=receipt.names[0],
            n_classes=len(served.current().learned) + receipt.n_added,
            warnings=list(receipt.doubts),
        )

    @router.delete(
        "/{name:path}",
        summary="Remove a class that was added",
        dependencies=guarded,
        responses=documented(*key, 404, 409, 422, *STORAGE),
    )
    def remove_class(
        name: str,
        idempotency_key: IdempotencyKey = None,
        why: ReasonQuery = None,
        who: str | None = by,
    ) -> ClassesRemoved:
        request = keyed(idempotency_key, "remove", name)

        def change() -> Receipt:
            edition = served.remove([name], request, Origin(who, why))
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


def receipt_of(
    edition: Edition, names: Sequence[str], doubts: Sequence[str] = (), n_examples: int = 0
) -> Receipt:
    """Return what a change did that led to an edition."""
    written = tuple(edition.canonical(name) for name in names)
    return Receipt(edition.revision, written, edition.n_added, tuple(doubts), n_examples)


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
    times = edition.added_at
    # Of classes that came at the same time the later one is first: the sort keeps their order.
    added.reverse()
    added.sort(key=lambda column: times.get(edition.names[column], ""), reverse=True)
    return added + learned


def summarise(edition: Edition, column: int) -> ClassSummary:
    """Return one line of a list."""
    name = edition.names[column]
    return ClassSummary(
        name=name,
        seen=bool(edition.seen[column]),
        kind=edition.kind(column),
        n_examples=edition.n_examples.get(name, 0),
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
