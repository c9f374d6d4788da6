"""What is served: the model's card, the map of its classes, and instances to try."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

import anyio.to_thread
import numpy as np
from fastapi import APIRouter, Response

from hgkt.estimators import METHODS
from hgkt.serving.images import ImageReader
from hgkt.serving.maps import ClassMap, map_document
from hgkt.serving.problems import Problem, documented
from hgkt.serving.ranking import about_model, explains, names_of
from hgkt.serving.routes_predict import MAX_EXPLAINED, MAX_IMAGES
from hgkt.serving.samples import SampleInstance
from hgkt.serving.schemas import (
    Accepts,
    Limits,
    MapResponse,
    ModelCard,
    Sample,
    SampleFeatures,
    SamplesResponse,
)
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.snapshots import Snapshot, SnapshotStore

# Where on the machine something lay is nobody's business.
_PRIVATE = ("path", "folder", "root", "file")


@dataclass(frozen=True)
class CardMaker:
    """Makes the model's card.

    Parameters
    ----------
    store : SnapshotStore
        The model and its classes.
    settings : ServiceSettings
        Limits and whether keys are asked for.
    reader : ImageReader
        Knows whether images can be read.
    samples : sequence of SampleInstance
        Instances to try.
    """

    store: SnapshotStore
    settings: ServiceSettings
    reader: ImageReader
    samples: Sequence[SampleInstance]

    def make(self) -> ModelCard:
        """Return the card of the current snapshot."""
        snapshot = self.store.current()
        model = snapshot.model
        about, n_seen = about_model(model), len(model.seen_classes_)
        names = about.get("attribute_names")
        return ModelCard(
            name=self.settings.model.resolve().name,
            method=METHODS.name_of(type(model)) or type(model).__name__,
            hgkt_version=version("hgkt"),
            n_features=int(model.n_features_in_),
            n_attributes=int(model.class_attributes_.shape[1]),
            n_classes=len(model.classes_),
            n_seen_classes=n_seen,
            n_added_classes=len(model.classes_) - n_seen,
            revision=snapshot.revision,
            attribute_names=None if not names else [str(name) for name in names],
            attribute_blocks=about.get("attribute_blocks"),
            attribute_ranges=snapshot.cached("ranges", lambda: _ranges(model), per_model=True),
            accepts=self._accepts(about, explains(model)),
            explains=explains(model),
            needs_key=bool(self.settings.api_keys),
            n_samples=len(self.samples),
            limits=self._limits(),
            about=public(about),
            parameters=public(model.get_params(deep=False)),
        )

    def _accepts(self, about: dict[str, Any], takes_classes: bool) -> Accepts:
        describer = self.store.describer
        return Accepts(
            vector=takes_classes,
            attributes=takes_classes and describer.accepts_attributes,
            text=takes_classes and describer.accepts_text,
            images=not self.reader.obstacle(),
            pixels=about.get("pixels"),
        )

    def _limits(self) -> Limits:
        settings = self.settings
        return Limits(
            rows=settings.max_rows,
            explained_rows=MAX_EXPLAINED,
            classes=settings.max_classes,
            body_bytes=settings.max_body_bytes,
            images=min(MAX_IMAGES, settings.max_rows),
            image_bytes=settings.max_image_bytes,
            image_pixels=settings.max_image_pixels,
        )


def build_router(
    store: SnapshotStore,
    settings: ServiceSettings,
    reader: ImageReader,
    samples: Sequence[SampleInstance],
) -> APIRouter:
    """Return the routes that say what is served.

    Parameters
    ----------
    store : SnapshotStore
        The model and its classes.
    settings : ServiceSettings
        Limits and whether keys are asked for.
    reader : ImageReader
        Knows whether images can be read.
    samples : sequence of SampleInstance
        Instances to try.
    """
    router = APIRouter(tags=["model"])
    maker = CardMaker(store, settings, reader, samples)
    known = {sample.id: sample for sample in samples}
    seen = {str(label) for label in store.current().model.seen_classes_.tolist()}
    listing = _json(
        {
            "samples": [
                Sample(
                    id=sample.id,
                    label=sample.label,
                    seen=sample.label in seen,
                    thumbnail=sample.thumbnail,
                ).model_dump()
                for sample in samples
            ]
        }
    )

    @router.get("/v1/model")
    async def model_card() -> ModelCard:
        """Say what model is served, what it reads and what a request may carry."""
        return await _in_thread(maker.make)

    @router.get("/v1/map", response_class=Response, responses={200: {"model": MapResponse}})
    async def class_map() -> Response:
        """Place the classes on a plane; nothing on it moves when a class is added."""
        content = await _in_thread(lambda: _map(store.current()))
        return Response(content, media_type="application/json")

    @router.get("/v1/samples", response_class=Response, responses={200: {"model": SamplesResponse}})
    async def list_samples() -> Response:
        """List instances to try; empty where the service was started without a data set."""
        return Response(listing, media_type="application/json")

    @router.get("/v1/samples/{sample_id}", responses=documented(404))
    async def one_sample(sample_id: str) -> SampleFeatures:
        """Return the feature vector of an instance."""
        if sample_id not in known:
            raise Problem(404, f"there is no sample {sample_id[:80]!r}")
        sample = known[sample_id]
        return SampleFeatures(id=sample.id, label=sample.label, features=sample.features.tolist())

    return router


def public(value: Any) -> Any:
    """Return what JSON can say of a value, without paths of the machine.

    Examples
    --------
    >>> public({"data": "digits", "root": "/home/me", "gamma": float("nan")})
    {'data': 'digits', 'gamma': None}
    """
    if isinstance(value, dict):
        return {
            str(key): public(item)
            for key, item in value.items()
            if not any(word in str(key).lower() for word in _PRIVATE)
        }
    if isinstance(value, list | tuple):
        return [public(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return public(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, PurePath) or (isinstance(value, str) and PurePath(value).is_absolute()):
        return PurePath(value).name
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _ranges(model: Any) -> list[tuple[float, float]]:
    rows = model.class_attributes_[: len(model.seen_classes_)]
    return list(zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True))


def _map(snapshot: Snapshot) -> bytes:
    model = snapshot.model
    plane = snapshot.cached("plane", lambda: ClassMap.of(model), per_model=True)
    names = snapshot.cached("names", lambda: names_of(model)).names
    return snapshot.cached("map", lambda: map_document(plane, model, names, snapshot.revision))


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


async def _in_thread(work: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(work)
