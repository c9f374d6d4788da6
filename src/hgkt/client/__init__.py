"""A client of the service: a model that runs elsewhere, used like one that runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.client.service import (
        ClassChange,
        ClassInfo,
        Client,
        LoggedChange,
        RankedRows,
        RetryPolicy,
        SureRows,
    )

__all__ = [
    "ClassChange",
    "ClassInfo",
    "Client",
    "LoggedChange",
    "RankedRows",
    "RetryPolicy",
    "SureRows",
]

_HOMES = dict.fromkeys(__all__, "hgkt.client.service")
__getattr__, __dir__ = attach(__name__, _HOMES)
