"""Where tasks run: in this process, in processes of this machine, or on a Ray cluster."""

from hgkt.engines.base import ENGINES, Ended, Engine, map_tasks, open_engine
from hgkt.engines.local import ProcessEngine, SerialEngine

__all__ = [
    "ENGINES",
    "Ended",
    "Engine",
    "ProcessEngine",
    "SerialEngine",
    "map_tasks",
    "open_engine",
]
