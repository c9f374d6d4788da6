"""The paper's experiments: cells, engines, tables, figures and the report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgkt.experiments.base import Cell, CellResult, Context, DataSpec, Experiment
    from hgkt.experiments.catalog import EXPERIMENTS
    from hgkt.experiments.discovery import discover
    from hgkt.experiments.engines import run_cells
    from hgkt.experiments.runner import reproduce
    from hgkt.experiments.store import ResultStore
    from hgkt.experiments.tasks import TASKS

_HOMES = {
    "EXPERIMENTS": "catalog",
    "TASKS": "tasks",
    "Cell": "base",
    "CellResult": "base",
    "Context": "base",
    "DataSpec": "base",
    "Experiment": "base",
    "ResultStore": "store",
    "discover": "discovery",
    "reproduce": "runner",
    "run_cells": "engines",
}

__all__ = [
    "EXPERIMENTS",
    "TASKS",
    "Cell",
    "CellResult",
    "Context",
    "DataSpec",
    "Experiment",
    "ResultStore",
    "discover",
    "reproduce",
    "run_cells",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"hgkt.experiments.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hgkt.experiments' has no attribute {name!r}")
