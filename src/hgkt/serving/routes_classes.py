"""Routes that list, show, add and remove classes."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt.language import ClassDescription
from hgkt.serving.entries import UnknownClassError
from hgkt.serving.problems import Problem, documented
from hgkt.serving.registry import RegistryError
from hgkt.serving.schemas_classes import (
    ClassDetail,
    ClassesAdded,
    ClassesRemoved,
    ClassList,
    ClassSummary,
    Kind,
    NewClasses,
    Relative,
    Source,
)
from hgkt.serving.security import require_key
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.snapshots import Snapshot, SnapshotStore

N_SOURCES = 8
N_RELATIVES = 5
_KEY = 401
_STORAGE = (503, 507)


def build_router(store: SnapshotStore, settings: ServiceSettings) -> APIRouter:
    """Return the routes under ``/v1/classes``.

    Parameters
    ----------
    store : SnapshotStore
        The served model.
    settings : ServiceSettings
        Keys and limits.
    """
    router = APIRouter(prefix="/v1/classes", tags=["classes"])
    guarded = [Depends(require_key(settings))]
    key = (_KEY,) if settings.api_keys else ()

    @router.get("", summary="List classes", responses=documented(422))
    def list_classes(
        query: Annotated[
            str, Query(max_length=200, description="Part of the name, in any case.")
        ] = "",
        kind: Annotated[Kind, Query(description="Which classes.")] = "all",
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> ClassList:
        return find_classes(store.current(), query, kind, offset, limit)

    @router.post(
        "",
        status_code=201,
        summary="Add classes, all or none",
        dependencies=guarded,
        responses=documented(400, *key, 409, 413, 422, *_STORAGE),
    )
    def add_classes(body: NewClasses) -> ClassesAdded:
        if len(body.classes) > settings.max_classes:
            raise Problem(
                413,
                f"{len(body.classes)} classes were sent; at most {settings.max_classes} are taken "
                "in one request",
            )
        given = [
            ClassDescription(item.name, item.vector, item.attributes, item.text)
            for item in body.classes
        ]
        now = store.add(given)
        names = [str(now.label(item.name)) for item in body.classes]
        return ClassesAdded(revision=now.revision, added=names, n_classes=len(now.columns()))

    @router.get("/{name:path}", summary="Show one class", responses=documented(404, 422))
    def show_class(name: str) -> ClassDetail:
        try:
            return describe_class(store.current(), name)
        except UnknownClassError:
            # Another worker may have added it just now.
            with contextlib.suppress(RegistryError):
                return describe_class(store.refresh(), name)
            raise

    @router.delete(
        "/{name:path}",
        summary="Remove a class that was added",
        dependencies=guarded,
        responses=documented(*key, 404, 409, 422, *_STORAGE),
    )
    def remove_class(name: str) -> ClassesRemoved:
        now = store.remove([name])
        return ClassesRemoved(
            revision=now.revision, removed=[str(now.label(name))], n_classes=len(now.columns())
        )

    return router


def find_classes(now: Snapshot, query: str, kind: Kind, offset: int, limit: int) -> ClassList:
    """Return one page of the classes whose name holds `query`.

    Parameters
    ----------
    now : Snapshot
        The classes.
    query : str
        Part of a name; upper and lower case are the same.
    kind : {"all", "seen", "added"}
        Which classes.
    offset, limit : int
        Where the page begins, and its length.
    """
    n_seen, n_classes = len(now.model.seen_classes_), len(now.model.classes_)
    first = n_seen if kind == "added" else 0
    last = n_seen if kind == "seen" else n_classes
    places = range(first, last)
    wanted = query.casefold()
    if wanted:
        folded = now.cached(
            "folded names", lambda: [str(label).casefold() for label in now.columns()]
        )
        matching: Any = [place for place in places if wanted in folded[place]]
    else:
        matching = places
    return ClassList(
        revision=now.revision,
        n_classes=n_classes,
        n_matching=len(matching),
        classes=[summarise(now, place) for place in matching[offset : offset + limit]],
    )


def summarise(now: Snapshot, place: int) -> ClassSummary:
    """Return one line of a list.

    Parameters
    ----------
    now : Snapshot
        The classes.
    place : int
        Position of the class in ``classes_``.
    """
    label = now.model.classes_[place : place + 1].tolist()[0]
    return ClassSummary(
        name=str(label),
        seen=place < len(now.model.seen_classes_),
        text=now.texts.get(label),
        added_at=now.added_at.get(label),
    )


def describe_class(now: Snapshot, name: str) -> ClassDetail:
    """Return everything about a class.

    Parameters
    ----------
    now : Snapshot
        The classes.
    name : str
        Its name.
    """
    label = now.find(name)
    place = now.columns()[label]
    rows = now.cached("attributes", lambda: now.model.class_attributes_)
    return ClassDetail(
        **summarise(now, place).model_dump(),
        vector=rows[place].tolist(),
        attributes=named_attributes(now.model, rows[place]),
        sources=class_sources(now.model, label),
        relatives=class_relatives(now, place),
    )


def named_attributes(model: Any, row: NDArray[np.float64]) -> dict[str, float] | None:
    """Return attributes by name; None where the model has no names for its numbers.

    Parameters
    ----------
    model : GZSLClassifier
        The model.
    row : ndarray of shape (n_attributes,)
        An attribute vector; parts that were made of text have no names.
    """
    about = getattr(model, "about_", {})
    names = about.get("attribute_names") or []
    blocks = about.get("attribute_blocks") or [len(row)]
    kinds = about.get("attribute_kinds") or ["att"] * len(blocks)
    if len(kinds) != len(blocks):
        return None
    plain = np.repeat([kind != "text" for kind in kinds], blocks)
    if not names or len(plain) != len(row) or int(plain.sum()) != len(names):
        return None
    return dict(zip(map(str, names), row[plain].tolist(), strict=True))


def class_sources(model: Any, label: Any) -> list[Source]:
    """Return the seen classes that a class is made of, the strongest first.

    Parameters
    ----------
    model : GZSLClassifier
        The model; one that cannot explain gives none.
    label : str or number
        The class.
    """
    if not hasattr(model, "explain_class"):
        return []
    return [
        Source(label=str(source.label), weight=source.weight)
        for source in model.explain_class(label).sources[:N_SOURCES]
    ]


def class_relatives(now: Snapshot, place: int) -> list[Relative]:
    """Return the classes of the most similar attributes.

    Parameters
    ----------
    now : Snapshot
        The classes.
    place : int
        Position of the class in ``classes_``.
    """
    with np.errstate(over="ignore"):  # a class of enormous numbers is related to none
        unit = now.cached("unit attributes", lambda: unit_rows(now.model.class_attributes_))
    labels = now.cached("labels", lambda: now.model.classes_.tolist())
    similarities = unit @ unit[place]
    similarities[place] = -np.inf
    count = min(N_RELATIVES, len(labels) - 1)
    order = np.argsort(-similarities, kind="stable")[:count].tolist()
    return [Relative(label=str(labels[c]), similarity=float(similarities[c])) for c in order]
