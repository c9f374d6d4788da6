"""`hgkt train` on shards: rows are never held in memory; most methods need their sums only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt.cli._bulk import AddressOption, EngineOption, Workers
from hgkt.cli.methods import FitOptions
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, ShardedData
    from hgkt.estimators import GZSLClassifier
    from hgkt.evaluation.selection import Fitted


@dataclass(frozen=True)
class GatherOptions:
    """Where the sums of shards are made, and how many rows are kept; one field per option."""

    engine: EngineOption = None
    address: AddressOption = None
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=0,
            metavar="N",
            help="Shards: rows kept to choose and calibrate on.",
            show_default="20000",
        ),
    ] = None

    def gather(self, workers: int | None) -> dict[str, Any]:
        """Return the options of `hgkt.gather`."""
        found = Workers(self.engine, workers, self.address).options()
        found["workers"] = found.pop("n_workers")
        return found if self.sample is None else {**found, "sample": self.sample}


@dataclass(frozen=True)
class TrainedOn:
    """What a model was trained on, as far as the command says it.

    Parameters
    ----------
    name : str
        Name of the data set.
    n_instances : int
        Rows to train on.
    about : dict
        What the model remembers of the data.
    unseen, described : dict of str to ndarray
        Attributes of the classes without rows to train on, and of those without any rows.
    """

    name: str
    n_instances: int
    about: dict[str, Any]
    unseen: dict[str, NDArray[np.float64]]
    described: dict[str, NDArray[np.float64]]

    @classmethod
    def rows_of(cls, dataset: GZSLDataset) -> TrainedOn:
        """Tell of a data set in memory."""
        groups = dataset.unseen_classes, dataset.described_classes
        unseen, described = (dataset.attributes_of(codes) for codes in groups)
        return cls(dataset.name, len(dataset.train), dataset.provenance(), unseen, described)

    @classmethod
    def shards_of(cls, data: ShardedData) -> TrainedOn:
        """Tell of a data set in shards."""
        parts = data.unseen_classes, data.described_classes
        return cls(data.name, sum(data.class_counts.values()), data.provenance(), *parts)


@dataclass
class GatheredRun:
    """A training on shards.

    Parameters
    ----------
    options : FitOptions
        Method, selection and data set.
    gathering : GatherOptions
        Where and how rows are summed.
    workers : int or None
        How many.
    checkpoint : Path or None
        Folder of partial sums.
    """

    options: FitOptions
    gathering: GatherOptions
    workers: int | None
    checkpoint: Path | None
    n_shards: int = 0
    n_kept: int = 0

    def train(
        self, progress: Progress, make: Callable[[ShardedData], GZSLClassifier]
    ) -> tuple[TrainedOn, Fitted]:
        """Read the rows and fit what `make` makes for them."""
        from hgkt.data import open_shards

        options = self.options
        data = open_shards(options.data, options.root, options.features, options.attributes)
        if not data.class_attributes:
            raise DataError(
                f"{options.data} has no table of classes (classes.csv or classes.parquet) beside "
                "its shards; the attributes of each class are expected there"
            )
        self.n_shards = len(data.shards)
        estimator = make(data)
        fit = self._fit_network if hasattr(estimator, "fit_batches") else self._fit_sums
        return TrainedOn.shards_of(data), fit(estimator, data, progress)

    def _fit_sums(self, estimator: GZSLClassifier, data: ShardedData, progress: Progress) -> Fitted:
        """Sum the rows, unless a checkpoint has the sums, and fit."""
        from hgkt.evaluation import fit_gathered, gather

        options = self.options
        statistics = gather(
            data,
            **estimator.gather_options(select=bool(options.select)),
            **self.gathering.gather(self.workers),
            seed=options.seed,
            checkpoint=self.checkpoint,
            progress=progress,
        )
        self.n_kept = len(statistics.rows()[1])
        return fit_gathered(
            estimator,
            statistics,
            _seen(data),
            select=bool(options.select),
            calibrate=options.calibration,
            n_folds=options.folds,
            random_state=options.seed,
            published=bool(data.folds),
            progress=progress,
        )

    def _fit_network(self, estimator: Any, data: ShardedData, progress: Progress) -> Fitted:
        """Train the network on batches, which are read once or twice."""
        from hgkt.evaluation import Fitted

        if self.options.select or self.options.calibrate:
            raise DataError(
                "--select and --calibrate of a network need its rows in memory; leave them out"
            )

        def batches() -> Iterator[Any]:
            for shard in data.shards:
                yield from shard.batches()

        estimator.on_progress(progress).fit_batches(batches, _seen(data))
        return Fitted(estimator.on_progress(None))

    def report(self) -> dict[str, Any]:
        """Return what JSON says about shards."""
        kept = {"n_shards": self.n_shards, "n_rows_kept": self.n_kept}
        return {**kept, "checkpoint": self.checkpoint}


def _seen(data: ShardedData) -> dict[str, NDArray[np.float64]]:
    """Return the attributes of the classes with rows to train on."""
    return {name: data.class_attributes[name] for name in data.class_counts}


def gathered_run(
    options: FitOptions,
    gathering: GatherOptions,
    workers: int | None,
    checkpoint: Path | None,
    estimator: GZSLClassifier,
) -> GatheredRun | None:
    """Return how to train on shards; None where rows are to be read into memory.

    A folder that `load_dataset` cannot read is in shards. Any other is read so where a method
    that learns from sums has a checkpoint, or an option of shards is given.
    """
    from hgkt.data import DATASETS, find_folder, has_shards

    in_steps = hasattr(estimator, "write_to")  # the checkpoint is the network's own
    given = gathering != GatherOptions() or workers is not None
    asked = given or (checkpoint is not None and not in_steps)
    if options.data in DATASETS:
        if given:
            raise DataError(
                "--engine, --workers, --address and --sample are for a folder that is read in "
                f"shards; {options.data!r} is none"
            )
        return None
    one_file = Path(options.data).suffix == ".parquet"
    place = Path(options.data) if one_file else find_folder(options.data, options.root)
    if not (asked or one_file or has_shards(place)):
        return None
    if not hasattr(estimator, "fit_batches"):
        estimator.gather_options()  # a method that needs the rows in memory is refused here
    return GatheredRun(options, gathering, workers, None if in_steps else checkpoint)
