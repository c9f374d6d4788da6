"""The paper's experiments: cells, engines, tables, figures and the report."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hgkt.experiments.base import Cell, CellResult, Context, DataSpec
    from hgkt.experiments.blocks import Experiment
    from hgkt.experiments.catalog import EXPERIMENTS
    from hgkt.experiments.discovery import discover
    from hgkt.experiments.engines import run_cells
    from hgkt.experiments.runner import reproduce
    from hgkt.experiments.store import ResultStore
    from hgkt.experiments.tasks import TASKS

_HOMES = {
    "base": ("Cell", "CellResult", "Context", "DataSpec"),
    "blocks": ("Experiment",),
    "catalog": ("EXPERIMENTS",),
    "discovery": ("discover",),
    "engines": ("run_cells",),
    "runner": ("reproduce",),
    "store": ("ResultStore",),
    "tasks": ("TASKS",),
}

__all__ = [
    "EXPERIMENTS", "TASKS", "Cell", "CellResult", "Context", "DataSpec", "Experiment",
    "ResultStore", "discover", "reproduce", "run_cells",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"hgkt.experiments.{home}"), name)
    raise AttributeError(f"module 'hgkt.experiments' has no attribute {name!r}")
