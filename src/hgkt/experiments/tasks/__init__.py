"""What a cell can do. Adding a task is a function of its own and one line here.

A task is called as ``task(cell, dataset)`` in a worker process and returns two dicts: values that
JSON can say, and arrays for figures. It never changes the data set, which other cells share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hgkt._registry import Entry, Registry

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators.base import GZSLClassifier
    from hgkt.experiments.base import Cell

Outputs = tuple[dict[str, Any], dict[str, NDArray[Any]]]
Task = Callable[["Cell", "GZSLDataset"], Outputs]

_TASKS = {
    "evaluate": ("evaluate:evaluate_cell", "choose on validation classes, fit, test: a run record"),
    "statistics": ("evaluate:describe_data", "classes and images, counted and checked"),
    "iterations": ("training:run_iterations", "accuracy along the steps of a network"),
    "training": ("training:run_training", "a network trained exactly or by sampling"),
    "permutation": ("training:run_permutation", "a network with its channels in another order"),
    "embedding": ("embedding:run_embedding", "images and class embeddings in the plane"),
    "classes": ("classes:run_classes", "test rows by true and predicted class"),
    "representatives": (
        "representatives:run_representatives",
        "the representative of each class and the neighbours it is joined to",
    ),
    "barycenters": (
        "barycenters:run_barycenters",
        "exact and entropic barycenters: time, objective, representatives",
    ),
}
TASKS = Registry(
    "task",
    {
        name: Entry(f"hgkt.experiments.tasks.{target}", summary)
        for name, (target, summary) in _TASKS.items()
    },
)

_device: ContextVar[str] = ContextVar("device", default="cpu")


def load_task(name: str) -> Task:
    """Import a task by its registered name, or by a target ``"package.module:function"``.

    Parameters
    ----------
    name : str
        ``Cell.task``.

    Examples
    --------
    >>> load_task("evaluate").__name__
    'evaluate_cell'
    """
    task: Task = Entry(name, "").load() if ":" in name else TASKS.load(name)
    return task


@contextmanager
def use_device(device: str) -> Iterator[None]:
    """Let `build_estimator` take `device` in this block.

    The device is no part of a cell: where a result was computed does not change which one it is.

    Parameters
    ----------
    device : str
        "cpu", "cuda" or "auto".
    """
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def build_estimator(cell: Cell, dataset: GZSLDataset) -> GZSLClassifier:
    """Return the unfitted estimator of a cell: method, preset, parameters, seed, device, blocks.

    Parameters
    ----------
    cell : Cell
        ``params`` wins over everything else.
    dataset : GZSLDataset
        Tells the widths of attribute blocks, where there are several.

    Returns
    -------
    GZSLClassifier

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> digits = DataSpec("digits", "digits")
    >>> cell = Cell("evaluate", digits, "hgkt-network", params={"mu": 0.1}, seed=3)
    >>> model = build_estimator(cell, load_dataset("digits"))
    >>> model.mu, model.random_state
    (0.1, 3)
    """
    from hgkt.estimators.methods import build_method

    blocks = list(dataset.about.get("attribute_blocks") or [])
    model: GZSLClassifier = build_method(
        cell.method,
        cell.preset or None,
        cell.params,
        dataset.name,
        random_state=cell.seed,
        device=_device.get(),
        attribute_blocks=blocks if len(blocks) > 1 else None,
    )
    return model
