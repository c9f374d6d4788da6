"""What is served: the model's card, the map of its classes, and instances to try."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

import msgspec
from fastapi import APIRouter, Response
from msgspec import Struct
from pydantic import BaseModel, Field

from hgkt._plain import plain
from hgkt.estimators import METHODS
from hgkt.serving.class_facts import explains, takes_classes
from hgkt.serving.edition import Edition, made_with
from hgkt.serving.problems import Problem
from hgkt.serving.readers import MAX_TEXT_LENGTH, MAX_TEXTS
from hgkt.serving.routes import Service
from hgkt.serving.routes.bodies import JSON, json_content
from hgkt.serving.routes.predict import MAX_EXPLAINED
from hgkt.serving.samples import SampleInstance
from hgkt.serving.settings import KeyGuards

# Where on the machine something lay is nobody's business.
_PRIVATE = ("path", "folder", "root", "file")


# ---------------------------------------------------------------------- what answers look like
class Accepts(BaseModel):
    """What the model reads: descriptions of classes, and instances."""

    vector: bool
    attributes: bool
    text: bool = Field(description="Classes are described by a text.")
    name_alone: bool = Field(description="The name of a class may be all its description.")
    images: bool
    texts: bool = Field(description="Instances are texts.")
    pixels: dict[str, float] | None = Field(
        description="Height, width and maximum where a feature vector is an image."
    )


class ModelCard(BaseModel):
    """What is served."""

    name: str
    method: str
    hgkt_version: str
    n_features: int
    n_attributes: int
    n_classes: int
    n_seen_classes: int = Field(description="Classes of the model's training.")
    n_added_classes: int = Field(description="Classes that were added, grown ones among them.")
    revision: int
    attribute_names: list[str] | None
    attribute_blocks: list[int] | None
    attribute_ranges: list[tuple[float, float]] | None = Field(
        description="Lowest and highest value of each attribute over the seen classes."
    )
    accepts: Accepts
    explains: bool
    can_grow: bool = Field(description="Whether classes can learn from examples.")
    confident: bool = Field(description="Whether it can say how sure an answer is.")
    needs_key: bool
    key_guards: KeyGuards = Field(description="What needs an API key.")
    keeps_unknown: bool = Field(description="Whether rejected items are kept; see `/v1/unknown`.")
    n_samples: int
    limits: dict[str, int] = Field(
        description="The most that one request may carry: `ranked` are rows times classes per row "
        "of an answer, `scores` rows times candidates, `text_length` the characters of one text."
    )
    about: dict[str, Any]
    parameters: dict[str, Any]


class Point(Struct):
    """A class on the map."""

    name: str
    seen: bool
    x: float
    y: float


class MapAnswer(Struct):
    """Classes on two principal components of the seen classes.

    ``explained`` is the share of the seen classes' variance along each axis.
    """

    revision: int
    method: str
    explained: list[float]
    points: list[Point]


class Sample(BaseModel):
    """An instance to try."""

    id: str
    label: str
    seen: bool
    thumbnail: str | None = Field(description="A data URI, or null.")


class SamplesResponse(BaseModel):
    """Instances to try."""

    samples: list[Sample]


class SampleFeatures(BaseModel):
    """One instance with its feature vector."""

    id: str
    label: str
    features: list[float]


# ---------------------------------------------------------------------- routes
def build_router(service: Service, samples: Sequence[SampleInstance]) -> APIRouter:
    """Return the routes that say what is served."""
    router = APIRouter(tags=["model"])
    served, settings = service.served, service.settings
    known = {sample.id: sample for sample in samples}
    of_settings = {
        name.removeprefix("max_"): value for name, value in settings if name.startswith("max_")
    }
    limits = of_settings | {
        "explained_rows": MAX_EXPLAINED,
        "images": service.max_images,
        "texts": MAX_TEXTS,
        "text_length": MAX_TEXT_LENGTH,
    }
    # What the model was trained on never changes.
    rows = served.base.class_attributes_[served.base.seen_mask_]
    ranges = list(zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True))

    @lru_cache(maxsize=1)
    def map_of(edition: Edition) -> bytes:
        plane, names, seen = service.plane, edition.names, edition.seen.tolist()
        places, order = plane.places(edition.model).tolist(), edition.order.tolist()
        points = [Point(names[column], seen[column], *places[column]) for column in order]
        answer = MapAnswer(edition.revision, plane.method, plane.explained.tolist(), points)
        return msgspec.json.encode(answer)

    @router.get("/v1/model")
    def model_card() -> ModelCard:
        """Say what model is served, what it reads and what a request may carry."""
        edition = served.current()
        model, about = edition.model, made_with(edition.model)
        describer, takes = served.describer, takes_classes(model)
        return ModelCard(
            name=settings.name(),
            method=METHODS.name_of(type(model)) or type(model).__name__,
            hgkt_version=version("hgkt"),
            n_features=model.n_features_in_,
            n_attributes=model.class_attributes_.shape[1],
            n_classes=len(edition.names),
            n_seen_classes=len(edition.learned),
            n_added_classes=edition.n_added,
            revision=edition.revision,
            attribute_names=[str(name) for name in about.get("attribute_names") or ()] or None,
            attribute_blocks=about.get("attribute_blocks"),
            attribute_ranges=ranges,
            accepts=Accepts(
                vector=takes,
                attributes=takes and describer.accepts_attributes,
                text=takes and describer.accepts_text,
                name_alone=takes and describer.accepts_name_alone,
                images=not service.reader.obstacle(),
                texts=not service.texts.obstacle(),
                pixels=about.get("pixels"),
            ),
            explains=explains(model),
            can_grow=model.can_grow,
            confident=model.confidence_ is not None,
            needs_key=bool(settings.api_keys),
            key_guards=settings.key_guards(),
            keeps_unknown=settings.keep_unknown is not None,
            n_samples=len(samples),
            limits=limits,
            about=public(plain(about)),
            parameters=public(plain(model.get_params(deep=False))),
        )

    @router.get("/v1/map", responses={200: {"content": json_content(MapAnswer)}})
    def class_map() -> Response:
        """Place the classes on a plane; nothing on it moves when a class is added."""
        return Response(map_of(served.current()), media_type=JSON)

    @router.get("/v1/samples")
    def list_samples() -> SamplesResponse:
        """List instances to try; empty where the service was started without a data set."""
        seen = set(map(str, served.current().model.seen_classes_.tolist()))
        return SamplesResponse(samples=[Sample(**vars(s), seen=s.label in seen) for s in samples])

    @router.get("/v1/samples/{sample_id}")
    def one_sample(sample_id: str) -> SampleFeatures:
        """Return the feature vector of an instance."""
        if sample_id not in known:
            raise Problem(404, f"there is no sample {sample_id[:80]!r}")
        sample = known[sample_id]
        return SampleFeatures(id=sample.id, label=sample.label, features=sample.features.tolist())

    return router


def public(value: Any) -> Any:
    """Return a value of JSON without paths of the machine.

    Examples
    --------
    >>> public({"data": "digits", "root": "/home/me", "gamma": None, "made": ["/tmp/rows.npy"]})
    {'data': 'digits', 'gamma': None, 'made': ['rows.npy']}
    """
    if isinstance(value, dict):
        return {
            key: public(item)
            for key, item in value.items()
            if not any(word in key.lower() for word in _PRIVATE)
        }
    if isinstance(value, list):
        return [public(item) for item in value]
    if isinstance(value, str) and PurePath(value).is_absolute():
        return PurePath(value).name
    return value
