"""The words of a run and what can be run: data, cell, result, context, experiments, tasks.

An experiment plans *cells* (one piece of work each, named by what goes into it), an engine runs
those that the store does not hold yet, and the experiment turns results into *blocks*. A task does
the work of a cell: it is called as ``task(cell, dataset)`` in a worker process and returns two
dicts, values that JSON can say and arrays for figures. It never changes the data set, which other
cells share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hgkt._files import sha256
from hgkt._plain import plain
from hgkt._registry import Entry, Registry
from hgkt.estimators.methods import build_method
from hgkt.exceptions import HGKTError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators.base import GZSLClassifier


@dataclass(frozen=True)
class DataSpec:
    """Where a data set is and which features and attributes are taken.

    Parameters
    ----------
    name : str
        Its name in tables: "CUB", "digits".
    location : str
        What `load_dataset` is given: a registered name or a folder.
    features, attributes : str
        Of an xlsa17 folder; empty where the layout has no choice.
    fingerprint : str
        SHA-256 over split and content; what makes a result belong to this data.
    """

    name: str
    location: str
    features: str = ""
    attributes: str = ""
    fingerprint: str = ""

    def load(self) -> GZSLDataset:
        """Load the data set; `hgkt.experiments.discovery.load_once` keeps it."""
        from hgkt.data import load_dataset

        options = {"features": self.features, "attributes": self.attributes}
        return load_dataset(self.location, **{k: v for k, v in options.items() if v})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cell:
    """One piece of work. Two experiments that need the same cell share its result.

    Parameters
    ----------
    task : str
        A name of `hgkt.experiments.plan.TASKS`: what is done.
    data : DataSpec
        On which data.
    method : str
        Registered method, or empty where the task needs none.
    preset : str
        Preset of hgkt; empty: the method as it stands.
    params : mapping
        Parameters set by hand.
    seed : int
        Seed of folds and of the method.
    options : mapping
        What else the task takes: ``select``, ``calibrate``, ``n_folds``, ...
    needs : sequence of str
        Keys of other cells. The cell runs after them and takes the parameters that they
        selected; those set by hand win.

    Examples
    --------
    >>> digits = DataSpec("digits", "digits")
    >>> cell = Cell("evaluate", digits, method="dem")
    >>> cell.key == Cell("evaluate", digits, method="dem").key, len(cell.key)
    (True, 16)
    >>> picture = Cell("embedding", digits, method="dem", needs=[cell.key])
    """

    task: str
    data: DataSpec
    method: str = ""
    preset: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: Sequence[str] = ()

    @cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits of everything that goes in; where the folder lies does not."""
        asked = plain(asdict(self))
        del asked["data"]["location"]
        if not asked["needs"]:
            del asked["needs"]  # keys are older than needs
        return sha256(json.dumps(asked, sort_keys=True))[:16]

    @property
    def label(self) -> str:
        """What a progress display shows: task, method, data, seed."""
        method = f"{self.method} ({self.preset})" if self.preset else self.method
        changed = ", ".join(f"{name}={value}" for name, value in self.params.items())
        words = [self.task, method, changed, self.data.name, f"seed {self.seed}"]
        return " · ".join(word for word in words if word)

    @property
    def mathematics(self) -> str:
        """Version of the method's mathematics: its class's ``mathematics_version``, or 1.

        A method that computes something else than before counts it up, so that old results are
        never taken for its own.
        """
        kind = _class_of(self.method, self.preset) if self.method else None
        return str(getattr(kind, "mathematics_version", 1))


@lru_cache
def _class_of(method: str, preset: str) -> type | None:
    """Return the class of a method by a preset; None where the cell will fail and say why."""
    try:
        return type(build_method(method, preset or None))
    except HGKTError:
        return None


@dataclass(frozen=True)
class CellResult:
    """What a cell gave, or why it failed.

    Parameters
    ----------
    cell : Cell
        The work.
    values : dict
        What JSON can say; for the task "evaluate" the dict of a `RunRecord`.
    arrays : dict of str to ndarray
        Numbers for figures.
    error : str
        Empty, or one sentence: the cell failed.
    seconds : float
        Run time.
    versions : dict
        Of the packages, and of the method's ``mathematics``.
    machine : dict
        Where it ran.
    """

    cell: Cell
    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is a result."""
        return not self.error


Results = Mapping[str, CellResult]
"""Results by cell key; a cell that has not run is absent."""


@dataclass(frozen=True)
class Context:
    """What a run of the experiments is about.

    Parameters
    ----------
    data : sequence of DataSpec
        The data sets found.
    missing : sequence of str
        Data sets of the paper that were not found.
    methods : sequence of str
        Methods asked for, in the order of tables; where none is named, all that are registered.
    n_seeds : int
        Seeds 0 .. n_seeds-1 for whatever is random.
    quick : bool
        Small grids and few steps: shows that it runs, proves nothing.
    device : str
        Where networks are trained.
    image_root : Path or None
        Folder of the images that `image_files` of a data set name.
    """

    data: Sequence[DataSpec]
    missing: Sequence[str] = ()
    methods: Sequence[str] = ()
    n_seeds: int = 3
    quick: bool = False
    device: str = "cpu"
    image_root: Path | None = None

    def asks(self, method: str) -> bool:
        """Whether a method is asked for, as the work that needs none is."""
        return not self.methods or not method or method in self.methods


_FAMILIES = {
    "tables of the paper": {
        "table-data": ("tables:data_sets", "the data sets in numbers"),
        "table-zsl": ("tables:zsl", "conventional zero-shot accuracy"),
        "table-gzsl": ("tables:gzsl", "generalized: ts, tr and H"),
        "figure-classes": ("comparison:classes", "results and confusions by class"),
        "figure-ranks": ("comparison:ranks", "mean ranks of the methods"),
        "figure-curves": ("comparison:curves", "accuracy at every calibration"),
    },
    "ablations": {
        "ablation-intra": ("ablations:INTRA", "with and without the relation within classes"),
        "ablation-inter": ("ablations:INTER", "with and without the relation between classes"),
        "ablation-selection": ("ablations:SELECTION", "three ways to select representatives"),
        "ablation-mu": ("ablations:MU", "weight μ of the neighbours"),
        "ablation-k": ("ablations:NEIGHBORS", "number of neighbours k"),
        "ablation-barycenter": ("transport:barycenters", "exact ones and Sinkhorn's"),
        "ablation-calibration": ("comparison:calibration", "with and without calibration"),
        "ablation-choices": ("ablations:CHOICES", "what the paper leaves open, choice by choice"),
    },
    "figures": {
        "figure-iterations": ("training:iterations", "accuracy along the training steps"),
        "figure-tsne": ("tsne:embeddings", "features and embeddings in the plane"),
        "figure-representatives": ("representatives:representatives", "images of classes"),
        "figure-confidence": ("confidence:confidence", "how sure answers are, and rightly"),
        "figure-graph": ("representatives:graph", "the graph of the classes"),
    },
}

EXPERIMENTS = Registry(
    "experiment",
    {
        name: Entry(f"hgkt.experiments.{target}", summary, family=family)
        for family, entries in _FAMILIES.items()
        for name, (target, summary) in entries.items()
    },
)


Outputs = tuple[dict[str, Any], dict[str, NDArray[Any]]]
Task = Callable[["Cell", "GZSLDataset"], Outputs]

_TASKS = {
    "evaluate": "tables:evaluate_cell",
    "statistics": "tables:describe_data",
    "iterations": "training:run_iterations",
    "embedding": "tsne:run_embedding",
    "classes": "comparison:run_classes",
    "representatives": "representatives:run_representatives",
    "barycenters": "transport:run_barycenters",
}
TASKS = Registry(
    "task", {name: Entry(f"hgkt.experiments.{target}", "") for name, target in _TASKS.items()}
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
    >>> digits = DataSpec("digits", "digits")
    >>> cell = Cell("evaluate", digits, "hgkt-network", params={"mu": 0.1}, seed=3)
    >>> model = build_estimator(cell, load_dataset("digits"))
    >>> model.mu, model.random_state
    (0.1, 3)
    """
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
