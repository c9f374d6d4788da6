"""The service: predictions and a growing set of classes over HTTP, with a page to try them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.serving.app import create_app
    from hgkt.serving.edition import Edition
    from hgkt.serving.live_model import ServedModel
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.settings import ServiceSettings, read_api_keys

# Imported on first use: they need FastAPI and SQLAlchemy, which an installation may lack.
_HOMES = {
    "ClassRegistry": "hgkt.serving.registry",
    "Edition": "hgkt.serving.edition",
    "ServedModel": "hgkt.serving.live_model",
    "ServiceSettings": "hgkt.serving.settings",
    "create_app": "hgkt.serving.app",
    "read_api_keys": "hgkt.serving.settings",
}

__all__ = [
    "ClassRegistry",
    "Edition",
    "ServedModel",
    "ServiceSettings",
    "create_app",
    "read_api_keys",
]

__getattr__, __dir__ = attach(__name__, _HOMES)
