"""Several models side by side: which there are, and which one is current."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from hgkt.estimators import METHODS
from hgkt.serving.adoption import adopt_classes
from hgkt.serving.events import Origin
from hgkt.serving.json_bodies import JSON, read_json, schema_of
from hgkt.serving.migration import Source
from hgkt.serving.model_facts import ModelFacts
from hgkt.serving.problems import documented
from hgkt.serving.security import require_key
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.side_by_side import ModelSwitch

Old = Annotated[
    str,
    Meta(
        max_length=64,
        description="A model whose classes are taken over first, all or none; what is there stays.",
    ),
]


class NewAlias(Struct, forbid_unknown_fields=True):
    """The model that shall be current."""

    model: Annotated[str, Meta(min_length=1, max_length=64, examples=["v2"])]
    adopt: Old | None = None


class ModelSummary(BaseModel):
    """One of the models."""

    name: str
    identity: str = Field(description="A digest of what it learned; its classes go by that.")
    method: str
    n_classes: int
    n_seen_classes: int
    n_added_classes: int
    revision: int
    current: bool = Field(description="Whether the alias names it.")
    path: str = Field(description="Before the path of a request that is for this model alone.")


class ModelList(BaseModel):
    """The models of this service."""

    alias: str = Field(description="The name that stands for the current model.")
    current: str
    models: list[ModelSummary]


class AliasAnswer(BaseModel):
    """Which model is current."""

    alias: str
    model: str
    previous: str = Field(description="The model that was current before; it may be the same.")
    adopted: list[str] = Field(description="Classes that were taken over.")


_BODY = {"requestBody": {"required": True, "content": {JSON: {"schema": schema_of(NewAlias)}}}}


async def _sent(request: Request) -> NewAlias:
    return await read_json(request, NewAlias, 16)


_SENT = Depends(_sent)  # it comes behind the key, a body before it


def build_router(switch: ModelSwitch, settings: ServiceSettings) -> APIRouter:
    """Return the routes ``/v1/models`` and ``/v1/alias``."""
    router = APIRouter(prefix="/v1", tags=["models"])
    key = (401,) if settings.api_keys else ()
    by = Depends(require_key(settings))

    @router.get("/models")
    def list_models() -> ModelList:
        """List the models, and say which one is current."""
        current = switch.current
        return ModelList(
            alias=switch.store.alias,
            current=current,
            models=[summarise(switch, name, name == current) for name in switch.apps],
        )

    @router.put(
        "/alias",
        summary="Make a model the current one",
        dependencies=[by],
        responses=documented(400, *key, 404, 413, 415, 422, 503, 507),
        openapi_extra=_BODY,
    )
    def put_alias(body: NewAlias = _SENT, who: str | None = by) -> AliasAnswer:
        """Requests under way end on the model they began with; later ones go to this one."""
        for name in (body.model, body.adopt):
            if name is not None and name not in switch.apps:
                raise switch.no_such(name)
        adopted = [] if body.adopt is None else adopt(switch, body.adopt, body.model, who)
        previous = switch.current
        change = switch.switch(body.model, who)
        return AliasAnswer(
            alias=switch.store.alias,
            model=change.model_name,
            previous=previous,
            adopted=adopted,
        )

    return router


def adopt(switch: ModelSwitch, old: str, new: str, who: str | None) -> list[str]:
    """Have one model take over the classes of another; return which."""
    before, after = switch.served[old], switch.served[new]
    source = Source(
        before.registry.model_id, before.registry.state(), ModelFacts.of(before._base, old)
    )
    origin = Origin(who, f"adopted from {source.title}")
    migration, _ = adopt_classes(source, after, ModelFacts.of(after._base, new), origin=origin)
    after.refresh()
    return [entry.name for entry in migration.moving]


def summarise(switch: ModelSwitch, name: str, current: bool) -> ModelSummary:
    """Return what the list says of a model."""
    edition = switch.served[name].current()
    method = type(edition.model)
    return ModelSummary(
        name=name,
        identity=switch.identity(name),
        method=METHODS.name_of(method) or method.__name__,
        n_classes=len(edition.names),
        n_seen_classes=edition.n_seen,
        n_added_classes=len(edition.names) - edition.n_seen,
        revision=edition.revision,
        current=current,
        path=f"/models/{name}",
    )
