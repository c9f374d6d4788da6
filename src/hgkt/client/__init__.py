"""A client of the service: a model that runs elsewhere, used like one that runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.client.connection import RetryPolicy
    from hgkt.client.service import (
        ClassChange,
        ClassInfo,
        Client,
        LoggedChange,
        RankedRows,
        SureRows,
    )

_HOMES = {
    "ClassChange": "hgkt.client.service",
    "ClassInfo": "hgkt.client.service",
    "Client": "hgkt.client.service",
    "LoggedChange": "hgkt.client.service",
    "RankedRows": "hgkt.client.service",
    "RetryPolicy": "hgkt.client.connection",
    "SureRows": "hgkt.client.service",
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
