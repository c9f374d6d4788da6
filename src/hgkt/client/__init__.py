"""A client of the service: a model that runs elsewhere, used like one that runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.client.answers import (
        ClassChange,
        ClassInfo,
        LoggedChange,
        RankedRows,
        SureRows,
    )
    from hgkt.client.connection import RetryPolicy
    from hgkt.client.service import Client

_HOMES = {
    "ClassChange": "hgkt.client.answers",
    "ClassInfo": "hgkt.client.answers",
    "Client": "hgkt.client.service",
    "LoggedChange": "hgkt.client.answers",
    "RankedRows": "hgkt.client.answers",
    "RetryPolicy": "hgkt.client.connection",
    "SureRows": "hgkt.client.answers",
}

__all__ = [
    "ClassChange",
    "ClassInfo",
    "Client",
    "LoggedChange",
    "RankedRows",
    "RetryPolicy",
    "SureRows",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
