"""The words of an experiment: data, cell, result, and the blocks that a report is made of.

An experiment plans *cells* (one piece of work each, named by what goes into it), an engine runs
those that the store does not hold yet, and the experiment turns results into *blocks*.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._plain import plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from hgkt.data import GZSLDataset


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
        """Load the data set."""
        from hgkt.data import load_dataset

        options = {"features": self.features, "attributes": self.attributes}
        return load_dataset(self.location, **{k: v for k, v in options.items() if v})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Cell:
    """One piece of work. Two experiments that need the same cell share its result.

    Parameters
    ----------
    task : str
        A name of `hgkt.experiments.tasks.TASKS`: what is done.
    data : DataSpec
        On which data.
    method : str
        Registered method, or empty where the task needs none.
    preset : str
        Preset of hgkt ("default", "paper"); empty: the method as it stands.
    params : mapping
        Parameters set by hand.
    seed : int
        Seed of folds and of the method.
    options : mapping
        What else the task takes: ``select``, ``calibrate``, ``n_folds``, ...

    Examples
    --------
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), method="eszsl")
    >>> cell.key == Cell("evaluate", DataSpec("digits", "digits"), method="eszsl").key
    True
    >>> len(cell.key)
    16
    """

    task: str
    data: DataSpec
    method: str = ""
    preset: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Sixteen hexadecimal digits of everything that goes in; where the folder lies does not."""
        asked = plain(asdict(self))
        del asked["data"]["location"]
        text = json.dumps(asked, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """What a progress display shows: task, method, data, seed."""
        method = f"{self.method} ({self.preset})" if self.preset else self.method
        changed = ", ".join(f"{name}={value}" for name, value in self.params.items())
        words = [self.task, method, changed, self.data.name, f"seed {self.seed}"]
        return " · ".join(word for word in words if word)


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
    versions, machine : dict
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
        Methods wanted, in the order of tables; HGKT appears as "hgkt" (both presets are meant).
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


@dataclass(frozen=True)
class Value:
    """A number of a table and where it comes from.

    Parameters
    ----------
    text : str
        What is shown.
    number : float or None
        The mean behind it.
    std : float or None
        Its standard deviation over seeds.
    published : float or None
        The paper's number.
    best : bool
        Whether to set it in bold.
    keys : tuple of str
        Keys of the cells it was made from: the report links them to their records.
    failed : str
        Why there is no number.
    """

    text: str
    number: float | None = None
    std: float | None = None
    published: float | None = None
    best: bool = False
    keys: tuple[str, ...] = ()
    failed: str = ""


@dataclass(frozen=True)
class TableBlock:
    """A table: column heads and rows of values (or plain strings)."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value | str]]
    note: str = ""


@dataclass(frozen=True)
class FigureBlock:
    """A figure, the numbers it draws, and the cells they come from."""

    name: str
    title: str
    figure: Figure
    data: pd.DataFrame
    note: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextBlock:
    """A paragraph."""

    text: str


Block = TableBlock | FigureBlock | TextBlock


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper, or one of ours beyond it.

    Parameters
    ----------
    title : str
        Heading in the report.
    about : str
        What is measured and what the paper says; one paragraph.
    plan : callable
        ``plan(context) -> list of Cell``.
    render : callable
        ``render(context, results) -> list of Block``; copes with failed and absent cells.
    """

    title: str
    about: str
    plan: Callable[[Context], list[Cell]]
    render: Callable[[Context, Results], list[Block]]


def mean_std(numbers: Sequence[float]) -> tuple[float, float | None]:
    """Return mean and standard deviation (ddof 1); None for a single number."""
    values = np.asarray(numbers, dtype=np.float64)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None
