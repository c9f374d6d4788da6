"""One training as `hgkt train` runs it: what is read, what is fitted, what is on disk meanwhile."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from hgkt._typing import Progress
from hgkt.cli._common import note, one_bar, progress_bar
from hgkt.cli._gathering import GatheredRun, TrainedOn
from hgkt.cli._photos import STAGES, PhotoOptions
from hgkt.cli.methods import FitOptions
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset, ShardedData
    from hgkt.estimators import GZSLClassifier
    from hgkt.evaluation.selection import Fitted
    from hgkt.photos import Photos


@dataclass
class TrainingRun:
    """Reads, fits, and knows what an interrupted run left.

    Parameters
    ----------
    photos : PhotoOptions
        The photographs, if it is photographs.
    options : FitOptions
        Method, selection and, without photographs, the data set.
    files : dict
        Where a network writes while it is trained; empty for other methods.
    cache : Path
        Where the features of photographs are kept.
    gathered : GatheredRun, optional
        How shards are read, if it is shards.
    """

    photos: PhotoOptions
    options: FitOptions
    files: dict[str, Path | None]
    cache: Path
    gathered: GatheredRun | None = None
    resumed: bool = field(default=False, init=False)
    read: Photos | None = field(default=None, init=False)

    @property
    def checkpoint(self) -> Path | None:
        """Where a network keeps its state."""
        return self.files.get("checkpoint")

    def train(self) -> tuple[TrainedOn, Fitted]:
        """Read the data and fit."""
        from hgkt.evaluation.selection import fit_dataset

        if self.gathered is not None:
            with progress_bar() as bar, _interrupt_between_steps(bar) as progress:
                return self.gathered.train(progress, self._estimator)
        options = self.options
        of_photos = self.photos.images is not None
        with (
            one_bar(STAGES) if of_photos else progress_bar() as bar,
            _interrupt_between_steps(bar) as progress,
        ):
            dataset = self._read_photos(progress) if of_photos else options.load()
            fitted = fit_dataset(
                self._estimator(dataset),
                dataset,
                select="auto" if of_photos and options.select is None else bool(options.select),
                calibrate=options.calibration,
                balance="classes" if of_photos else "groups",
                n_folds=options.folds,
                random_state=options.seed,
                progress=progress,
            )
        return TrainedOn.rows_of(dataset), fitted

    def _read_photos(self, progress: Progress) -> GZSLDataset:
        if (self.cache / "rows.jsonl").is_file():
            note(f"features that are in {self.cache} are not extracted again")
        self.read = self.photos.read(self.cache, str(self.options.device), progress)
        return self.read.dataset

    def _estimator(self, dataset: GZSLDataset | ShardedData) -> GZSLClassifier:
        estimator: Any = self.options.estimator(dataset)
        if self.files:
            estimator.write_to(**self.files)
        self.resumed = self.checkpoint is not None and self.checkpoint.exists()
        if self.resumed:
            note(f"resuming from {self.checkpoint}")
        return estimator

    def kept(self) -> str:
        """Say what of an interrupted run is on disk."""
        sums = None if self.gathered is None else self.gathered.checkpoint
        for path in (self.checkpoint, sums, self.cache if self.photos.images is not None else None):
            if path is not None and path.exists():
                return f"{path} holds the state: run the same command again to resume"
        return "nothing was saved"

    def clear(self, keep_checkpoint: bool) -> None:
        """Delete what is needed no more once the model is saved."""
        if self.checkpoint is not None and not keep_checkpoint:
            self.checkpoint.unlink(missing_ok=True)
        if self.photos.images is not None and self.photos.cache is None:
            shutil.rmtree(self.cache, ignore_errors=True)

    def shard_report(self) -> dict[str, Any]:
        """Return what JSON says about shards."""
        return {} if self.gathered is None else {"gathered": self.gathered.report()}

    def photo_report(self) -> dict[str, Any]:
        """Return what JSON says about photographs."""
        if self.read is None:
            return {}
        about = self.read.dataset.about
        return {
            "backbone": about["backbone"]["name"],
            "attribute_kinds": about["attribute_kinds"],
            "attribute_names": about["attribute_names"],
            "n_from_cache": self.read.n_resumed,
            "n_cut": self.read.n_cut,
            "unreadable": [{"file": e.id, "reason": reason} for e, reason in self.read.unreadable],
        }


def training_files(
    estimator: GZSLClassifier, out_path: Path, checkpoint: Path | None, tensorboard: Path | None
) -> dict[str, Path | None]:
    """Return where training writes, for methods that train in steps.

    `checkpoint` is None where it is one of shards.
    """
    if hasattr(estimator, "write_to"):
        beside = out_path.resolve().with_name(f"{out_path.resolve().name}.checkpoint")
        return {"checkpoint": checkpoint or beside, "tensorboard": tensorboard}
    for name, value in (("checkpoint", checkpoint), ("tensorboard", tensorboard)):
        if value is not None:
            raise DataError(
                f"--{name} is for methods that train a network in steps (--preset paper)"
                + (" and for folders that are read in shards" if name == "checkpoint" else "")
            )
    return {}


@contextmanager
def _interrupt_between_steps(progress: Progress) -> Iterator[Progress]:
    """Yield `progress`, which also raises a KeyboardInterrupt that came while steps were taken.

    Between two reports of the stage "train" the first Ctrl-C waits for the next report, where
    weights and moments belong together and are saved; a second one does not wait. At any other
    time Ctrl-C interrupts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield progress  # only the main thread can handle signals
        return
    training = pending = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal pending
        if pending or not training:
            raise KeyboardInterrupt
        pending = True

    def report(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        nonlocal training
        progress(stage, done, total, values)
        training = stage == "train" and done < total
        if pending:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield report
    finally:
        signal.signal(signal.SIGINT, previous)
