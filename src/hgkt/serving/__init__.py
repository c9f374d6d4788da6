"""The service: predictions and a growing set of classes over HTTP, with a page to try them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgkt.serving.app import create_app, create_app_from_environment
    from hgkt.serving.registry import ClassRegistry
    from hgkt.serving.settings import ServiceSettings, read_api_keys
    from hgkt.serving.snapshots import Snapshot, SnapshotStore, open_store

# Imported on first use: they need FastAPI and SQLAlchemy, which an installation may lack.
_HOMES = {
    "ClassRegistry": "hgkt.serving.registry",
    "ServiceSettings": "hgkt.serving.settings",
    "Snapshot": "hgkt.serving.snapshots",
    "SnapshotStore": "hgkt.serving.snapshots",
    "create_app": "hgkt.serving.app",
    "create_app_from_environment": "hgkt.serving.app",
    "open_store": "hgkt.serving.snapshots",
    "read_api_keys": "hgkt.serving.settings",
}

__all__ = [
    "ClassRegistry",
    "ServiceSettings",
    "Snapshot",
    "SnapshotStore",
    "create_app",
    "create_app_from_environment",
    "open_store",
    "read_api_keys",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hgkt.serving' has no attribute {name!r}")
