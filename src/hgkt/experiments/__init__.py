"""The paper's experiments: cells, engines, tables, figures and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgkt._lazy import attach

if TYPE_CHECKING:
    from hgkt.experiments.blocks import Experiment
    from hgkt.experiments.discovery import discover
    from hgkt.experiments.plan import EXPERIMENTS, TASKS, Cell, CellResult, Context, DataSpec
    from hgkt.experiments.run import reproduce, run_cells
    from hgkt.experiments.store import ResultStore

__all__ = [
    "EXPERIMENTS", "TASKS", "Cell", "CellResult", "Context", "DataSpec", "Experiment",
    "ResultStore", "discover", "reproduce", "run_cells",
]  # fmt: skip
_HOMES = {"Experiment": "blocks", "ResultStore": "store", "discover": "discovery"}
_HOMES |= dict.fromkeys(["reproduce", "run_cells"], "run")

__getattr__, __dir__ = attach(
    __name__, {name: f"{__name__}.{_HOMES.get(name, 'plan')}" for name in __all__}
)
