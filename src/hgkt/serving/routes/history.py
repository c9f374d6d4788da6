"""The history of the classes: what was changed, and the way back."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Self

from fastapi import APIRouter, Query
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from hgkt.serving.events import ClassEntry, ClassEvent, EventKind
from hgkt.serving.registry import Receipt
from hgkt.serving.routes import Service
from hgkt.serving.routes.bodies import json_body, sent
from hgkt.serving.routes.classes import Change, ClassesChanged, Reason, change_of

_FEW_VALUES = 100


class RollbackRequest(Struct, forbid_unknown_fields=True):
    """Where to go back to."""

    revision: Annotated[
        int, Meta(ge=0, le=2**62, description="Number of a change; 0 is before all.")
    ]
    reason: Reason | None = None


class ClassThen(BaseModel):
    """A class before or after a change."""

    name: str
    vector: list[float] | None = Field(description="Its attributes; null where they are not told.")
    text: str | None
    n_examples: int = Field(description="How many examples it had grown by.")

    @classmethod
    def of(cls, entry: ClassEntry | None, n_examples: int) -> Self | None:
        """Write an entry of the registry; None where there was no class."""
        if entry is None:
            return None
        vector = entry.attributes.tolist() or None
        return cls(name=entry.name, vector=vector, text=entry.text, n_examples=n_examples)


class EventLine(BaseModel):
    """What one change did to one class."""

    revision: int
    kind: EventKind
    created_at: str = Field(description="When, ISO 8601 in UTC.")
    who: str | None = Field(description="Id of the API key; null without keys.")
    reason: str | None = Field(description="Why, as the client said it.")
    target: int | None = Field(description="The revision that a rollback went back to.")
    before: ClassThen | None = Field(description="The class before; null where there was none.")
    after: ClassThen | None = Field(description="The class afterwards; null where it is gone.")

    @classmethod
    def of(cls, event: ClassEvent) -> Self:
        """Write a line of the log."""
        grew = event.kind == "grow"
        before = ClassThen.of(event.entry if grew else event.before, event.n_before)
        after = ClassThen.of(event.entry if grew or event.present else None, event.n_examples)
        return cls(**{**vars(event), **vars(event.origin), "before": before, "after": after})


class EventList(BaseModel):
    """Lines of the log, in order."""

    revision: int = Field(description="Number of changes so far.")
    events: list[EventLine]


def build_router(service: Service) -> APIRouter:
    """Return the routes ``/v1/events`` and ``/v1/rollback``."""
    router = APIRouter(prefix="/v1", tags=["history"])
    registry = service.served.registry
    changing, wanted = change_of(service), sent(RollbackRequest, _FEW_VALUES)

    @router.get("/events")
    def list_events(
        after: Annotated[
            int, Query(ge=0, le=2**62, description="The last revision that is known.")
        ] = 0,
        limit: Annotated[
            int, Query(ge=1, le=1000, description="The most lines; a change comes whole, though.")
        ] = 100,
        name: Annotated[
            str | None, Query(max_length=200, description="Only a class that has or had this name.")
        ] = None,
    ) -> EventList:
        """List what was changed, in order."""
        lines = [EventLine.of(event) for event in registry.events(after, limit, name)]
        return EventList(revision=registry.revision(), events=lines)

    @router.post(
        "/rollback", response_model=ClassesChanged, openapi_extra=json_body(RollbackRequest)
    )
    async def rollback(change: Change = changing, body: RollbackRequest = wanted) -> Receipt:
        """Make the classes what they were at a revision.

        Every class that differs is changed back, by a change of its own in the log.
        """
        request = change.request("rollback", str(body.revision))
        work = partial(service.served.rollback, body.revision)
        return await change.make(request, body.reason, work, service.metrics.rollbacks)

    return router
