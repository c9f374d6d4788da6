"""A client of the service: a model that runs elsewhere, used like one that runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.client.answers import ClassChange, ClassInfo, RankedRows
    from hgkt.client.connection import RetryPolicy
    from hgkt.client.service import Client

_HOMES = {
    "ClassChange": "hgkt.client.answers",
    "ClassInfo": "hgkt.client.answers",
    "Client": "hgkt.client.service",
    "RankedRows": "hgkt.client.answers",
    "RetryPolicy": "hgkt.client.connection",
}

__all__ = ["ClassChange", "ClassInfo", "Client", "RankedRows", "RetryPolicy"]

__getattr__, __dir__ = attach(__name__, _HOMES)
