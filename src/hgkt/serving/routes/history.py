"""The history of the classes: what was changed, the way back, and a log that begins later."""

from __future__ import annotations

from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends, Query, Request
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from hgkt.serving.entries import ClassEntry
from hgkt.serving.events import ClassEvent, EventKind, Origin
from hgkt.serving.idempotency import Receipt
from hgkt.serving.json_bodies import JSON, read_json, schema_of
from hgkt.serving.metrics import Metrics
from hgkt.serving.problems import documented
from hgkt.serving.routes.class_models import IdempotencyKey, Reason
from hgkt.serving.routes.classes import STORAGE, keyed
from hgkt.serving.security import require_key
from hgkt.serving.served_model import ServedModel
from hgkt.serving.settings import ServiceSettings

_FEW_VALUES = 100
_Revision = Annotated[int, Meta(ge=0, le=2**62, description="Number of a change; 0 is before all.")]


class RollbackRequest(Struct, forbid_unknown_fields=True):
    """Where to go back to."""

    revision: _Revision
    reason: Reason | None = None


class PruneRequest(Struct, forbid_unknown_fields=True):
    """What of the log is to go."""

    before: Annotated[
        int,
        Meta(
            ge=0,
            le=2**62,
            description="The first revision that can still be had afterwards.",
            examples=[100],
        ),
    ]


class ClassThen(BaseModel):
    """A class before or after a change."""

    name: str
    vector: list[float] | None = Field(description="Its attributes; null where they are not told.")
    text: str | None
    n_examples: int = Field(description="How many examples it had grown by.")


class EventLine(BaseModel):
    """What one change did to one class."""

    revision: int
    kind: EventKind
    created_at: str = Field(description="When, ISO 8601 in UTC.")
    who: str | None = Field(description="Id of the API key; null without keys.")
    reason: str | None = Field(description="Why, as the client said it.")
    target: int | None = Field(description="The revision that a rollback went back to.")
    before: ClassThen | None = Field(description="The class before; null where it was not there.")
    after: ClassThen | None = Field(description="The class afterwards; null where it is gone.")

    @classmethod
    def of(cls, event: ClassEvent) -> Self:
        """Write a line of the log."""
        grew = event.kind == "grow"
        before = event.before if not grew else ClassEntry(event.entry.name)
        after = event.entry if event.there or grew else None
        return cls(
            revision=event.revision,
            kind=event.kind,
            created_at=event.created_at,
            who=event.origin.who,
            reason=event.origin.reason,
            target=event.target,
            before=None if before is None else _then(before, event.n_before),
            after=None if after is None else _then(after, event.n_examples),
        )


class EventList(BaseModel):
    """Lines of the log, in order."""

    revision: int = Field(description="Number of changes so far.")
    oldest: int = Field(description="The first revision that can be had.")
    events: list[EventLine]


class RolledBack(BaseModel):
    """The classes are those of an earlier revision again, and that is on disk."""

    revision: int = Field(description="The number of this change.")
    target: int
    changed: list[str] = Field(description="Classes that differ from before.")
    n_classes: int


class Pruned(BaseModel):
    """The log begins later."""

    oldest: int
    n_removed: int = Field(description="How many lines went.")


def _then(entry: ClassEntry, n_examples: int) -> ClassThen:
    vector = entry.attributes.tolist() or None
    return ClassThen(name=entry.name, vector=vector, text=entry.text, n_examples=n_examples)


def _sent(kind: type) -> Any:
    """Return the dependency that reads a body; it comes behind the key."""

    async def read(request: Request) -> Any:
        return await read_json(request, kind, _FEW_VALUES)

    return Depends(read)


def _body(kind: type) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema_of(kind)}}}}


def build_router(served: ServedModel, settings: ServiceSettings, metrics: Metrics) -> APIRouter:
    """Return the routes ``/v1/events``, ``/v1/events/prune`` and ``/v1/rollback``."""
    router = APIRouter(prefix="/v1", tags=["history"])
    passed = require_key(settings)
    guarded, key = [Depends(passed)], (401,) if settings.api_keys else ()
    registry = served.registry

    by, sent_rollback, sent_prune = Depends(passed), _sent(RollbackRequest), _sent(PruneRequest)

    @router.get("/events", summary="List what was changed", responses=documented(422, 503))
    def list_events(
        after: Annotated[
            int, Query(ge=0, le=2**62, description="The last revision that is known.")
        ] = 0,
        limit: Annotated[
            int,
            Query(ge=1, le=1000, description="The most lines; a change comes whole, though."),
        ] = 100,
        name: Annotated[
            str | None, Query(max_length=200, description="Only a class that has or had this name.")
        ] = None,
    ) -> EventList:
        lines = registry.events(after, limit, name)
        return EventList(
            revision=registry.revision(),
            oldest=registry.oldest(),
            events=[
                EventLine.of(line) for line in lines if line.entry.name or line.target is not None
            ],
        )

    @router.post(
        "/rollback",
        summary="Make the classes what they were at a revision",
        dependencies=guarded,
        responses=documented(400, *key, 404, 410, 413, 415, 422, *STORAGE),
        openapi_extra=_body(RollbackRequest),
    )
    def rollback(
        body: RollbackRequest = sent_rollback,
        idempotency_key: IdempotencyKey = None,
        who: str | None = by,
    ) -> RolledBack:
        request = keyed(idempotency_key, "rollback", str(body.revision))

        def change() -> Receipt:
            edition = served.rollback(body.revision, request, Origin(who, body.reason))
            metrics.rollbacks.inc()
            lines = registry.events(edition.revision - 1, 1)
            names = tuple(line.entry.name for line in lines if line.entry.name)
            return Receipt(edition.revision, names, edition.n_added)

        receipt = change() if request is None else served.once(request, change)
        return RolledBack(
            revision=receipt.revision,
            target=body.revision,
            changed=list(receipt.names),
            n_classes=len(served.current().learned) + receipt.n_added,
        )

    @router.post(
        "/events/prune",
        summary="Have the log begin later",
        dependencies=guarded,
        responses=documented(400, *key, 404, 410, 413, 415, 422, *STORAGE),
        openapi_extra=_body(PruneRequest),
    )
    def prune(body: PruneRequest = sent_prune) -> Pruned:
        """Forget how the classes of a revision came about; classes stay as they are."""
        n_removed = registry.prune(body.before)
        return Pruned(oldest=registry.oldest(), n_removed=n_removed)

    return router
