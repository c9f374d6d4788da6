"""Unknown items that are kept: what waits, groups among it, and classes made of them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from msgspec import Meta
from pydantic import BaseModel, Field

from hgkt.serving.auth import require_key
from hgkt.serving.edition import Edition
from hgkt.serving.events import UnknownItemError
from hgkt.serving.inbox import InboxWriter, ItemKind, Waiting, make_class
from hgkt.serving.routes import Service
from hgkt.serving.routes.bodies import FEW_VALUES, json_body, sent
from hgkt.serving.routes.classes import Change, ClassesChanged, Described, Name, Reason, change_of
from hgkt.unknown import MIN_SIZE, Neighbour, find_groups

ItemId = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", description="Name of a kept item.")]


class ClassOfItems(Described, kw_only=True):
    """What some items are: a new class with its description, or one that the model has."""

    name: Name
    items: Annotated[list[ItemId], Meta(min_length=1, max_length=10_000)]
    reason: Reason | None = None


class UnknownItem(BaseModel):
    """An item that looks like no known class."""

    id: str
    kept_at: str = Field(description="When it came, ISO 8601 in UTC.")
    kind: ItemKind = Field(description="`image` or `text` where that is kept as well.")
    novelty: float = Field(description="Share of rows of known classes that look less strange.")
    nearest: str = Field(description="The likeliest known class.")


class UnknownList(BaseModel):
    """Items that wait, the newest first."""

    revision: int
    n_items: int
    days: float = Field(description="How long an item is kept.")
    max_items: int = Field(description="How many are kept at most.")
    keeps_items: bool = Field(description="Whether images and texts are kept as well.")
    items: list[UnknownItem]


class UnknownGroup(BaseModel):
    """Items that lie close together, and may be of one class."""

    items: list[str] = Field(description="Their ids, the most typical first.")
    example: UnknownItem = Field(description="The most typical one.")
    sureness: float = Field(description="0 to 1: how far it lies from what is around it.")
    neighbours: list[Neighbour] = Field(description="Known classes that it is near to.")


class UnknownGroups(BaseModel):
    """Groups, the largest first."""

    revision: int
    n_items: int = Field(description="How many items wait, in groups or not.")
    groups: list[UnknownGroup]


class ClassMade(ClassesChanged):
    """A class was made of items, and that is on disk."""

    before: int = Field(description="The revision to go back to if it was a mistake.")
    n_examples: int = Field(description="How many of the items it learned from.")


class ItemsForgotten(BaseModel):
    """Items were deleted."""

    n_forgotten: int


def build_router(service: Service, writer: InboxWriter) -> APIRouter:
    """Return the routes under ``/v1/unknown``; all of them need a key where there are keys."""
    served, settings, queues = service.served, service.settings, service.queues
    inbox = writer.inbox
    by: Any = Depends(require_key(settings))
    router = APIRouter(prefix="/v1/unknown", tags=["unknown"], dependencies=[by])
    n_attributes = served.base.class_attributes_.shape[1]

    changing, wanted = change_of(service), sent(ClassOfItems, FEW_VALUES + n_attributes)

    @lru_cache(maxsize=1)  # items and classes that have not changed give the same answer
    def waiting_in(edition: Edition, _stamp: Any) -> Waiting:
        return Waiting.of(inbox, edition)

    def waiting_now() -> tuple[Edition, Waiting]:
        """Return what waits, and the edition to which it is unknown."""
        writer.flush()  # who was just told "unknown" finds the item here
        edition = served.current()
        return edition, waiting_in(edition, inbox.stamp())

    @router.get("", summary="List items that look like no known class")
    async def list_items(
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> UnknownList:
        def work() -> UnknownList:
            edition, waiting = waiting_now()
            newest = range(len(waiting.items) - 1, -1, -1)
            return UnknownList(
                revision=edition.revision,
                n_items=len(waiting.items),
                days=settings.unknown_days,
                max_items=settings.max_unknown,
                keeps_items=settings.keep_unknown_items,
                items=[_item(waiting, row) for row in newest[offset : offset + limit]],
            )

        return await queues.costly.run(work)

    @router.get("/groups", summary="Find groups among them")
    async def list_groups(
        min_size: Annotated[
            int, Query(ge=2, le=10_000, description="The fewest items of a group.")
        ] = MIN_SIZE,
    ) -> UnknownGroups:
        def work() -> UnknownGroups:
            edition, waiting = waiting_now()
            features, n_items = waiting.items.features, len(waiting.items)
            groups = find_groups(edition.model, features, min_size) if n_items else []
            found = [
                UnknownGroup(
                    items=[waiting.items.ids[row] for row in group.rows.tolist()],
                    example=_item(waiting, group.example),
                    sureness=group.sureness,
                    neighbours=[replace(one, label=str(one.label)) for one in group.neighbours],
                )
                for group in groups
            ]
            return UnknownGroups(revision=edition.revision, n_items=n_items, groups=found)

        return await queues.costly.run(work)

    @router.post(
        "/classes",
        status_code=201,
        summary="Make a class of some of them, or give them to one",
        openapi_extra=json_body(ClassOfItems),
    )
    async def make_of_items(change: Change = changing, body: ClassOfItems = wanted) -> ClassMade:
        """Let the class learn from the items, and add it unless the model has it; in one change."""
        request = change.request("make", repr(body))
        work = partial(make_class, served, inbox, body.items, body.description(body.name))
        count = len(set(body.items))
        changed = await change.make(request, body.reason, work, service.metrics.examples, count)
        own = {"before": changed.revision - 1, "n_examples": count}
        return ClassMade(**{**vars(changed), **own})

    @router.get(
        "/{name}/content",
        summary="Show the image or the text of one",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}, "text/plain": {}}}},
    )
    def show_content(name: str) -> Response:
        kind, content = inbox.content(name)
        media_type = "text/plain" if kind == "text" else "image/jpeg"
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-store"})

    @router.delete("", summary="Forget all of them")
    def forget_all() -> ItemsForgotten:
        return ItemsForgotten(n_forgotten=inbox.forget())

    @router.delete("/{name}", summary="Forget one of them")
    def forget_one(name: str) -> ItemsForgotten:
        if not (count := inbox.forget(name)):
            raise UnknownItemError(name)
        return ItemsForgotten(n_forgotten=count)

    return router


def _item(waiting: Waiting, row: int) -> UnknownItem:
    said = {"novelty": waiting.novelty[row], "nearest": waiting.nearest[row]}
    return UnknownItem(**vars(waiting.items.items[row]), **said)
