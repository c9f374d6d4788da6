"""The service's routes: one module per family of endpoints, with the shapes that it answers in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from hgkt.serving.class_facts import ClassMap
from hgkt.serving.inbox import Inbox, InboxWriter
from hgkt.serving.live_model import ServedModel
from hgkt.serving.metrics import Metrics
from hgkt.serving.readers import MAX_IMAGES, ImageReader, TextReader
from hgkt.serving.settings import ServiceSettings
from hgkt.serving.work_queue import Queues


@dataclass(frozen=True)
class Service:
    """What the routes of a service share.

    Parameters
    ----------
    served : ServedModel
        The model with its classes.
    settings : ServiceSettings
        The limits, and who may do what.
    reader, texts : ImageReader, TextReader
        What reads images, and what reads texts.
    metrics : Metrics
        Where it is counted.
    queues : Queues
        Where work waits.
    unknown : InboxWriter, optional
        What keeps items that look like no known class.
    """

    served: ServedModel
    settings: ServiceSettings
    reader: ImageReader
    texts: TextReader
    metrics: Metrics
    queues: Queues
    unknown: InboxWriter | None = None

    @classmethod
    def of(cls, served: ServedModel, settings: ServiceSettings) -> Self:
        """Make what the routes need of a model and its settings."""
        reader = ImageReader(served.base, settings)
        texts = TextReader(served.base, settings, lambda: served.describer)
        inbox = Inbox.open(settings, served.base)
        unknown = None if inbox is None else InboxWriter(inbox)
        return cls(served, settings, reader, texts, Metrics(), Queues.of(settings), unknown)

    @cached_property
    def plane(self) -> ClassMap:
        """The map of classes: what was learned never changes, so neither does its plane."""
        return ClassMap.of(self.served.base)

    @property
    def max_images(self) -> int:
        """How many images one request may have: each becomes a row."""
        return min(MAX_IMAGES, self.settings.max_rows)
