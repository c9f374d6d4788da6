"""`hgkt.gather`: from a folder, shards or batches to statistics with class folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgkt._arrays import FeatureMap
from hgkt._typing import Progress
from hgkt._validation import check_number
from hgkt.calibration.folds import ClassFolds, class_folds
from hgkt.closed_form.family import FEW_CLASSES
from hgkt.data import ShardedData, open_shards
from hgkt.engines import open_engine
from hgkt.exceptions import DataError
from hgkt.statistics.gathered import SAMPLE_ROWS, GatheredStatistics
from hgkt.statistics.gathering import LEAVES, Recipe, gather_batches, gather_shards

AUTO = "auto"


def gather(
    source: str | Path | ShardedData | Iterable[tuple[Any, Any]],
    *,
    feature_maps: Sequence[FeatureMap] = ("sqrt+l2",),
    folds: ClassFolds | str | None = AUTO,
    classes: Iterable[Any] | None = None,
    squares: bool = False,
    sample: int = SAMPLE_ROWS,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    leaves: int = LEAVES,
    progress: Progress | None = None,
) -> GatheredStatistics:
    """Read rows of any number once, and return all that closed forms need of them.

    Parameters
    ----------
    source : path, ShardedData or iterable of (features (n, D), labels (n,))
        A folder that `hgkt.data.open_shards` opens, what it returned, or batches, which are read
        once and in this process.
    feature_maps : sequence of map, default=("sqrt+l2",)
        Maps of a feature row; ``model.gather_options(select=True)`` says what a model needs.
    folds : list of (train classes, validation classes), "auto" or None
        Class folds for calibration and selection. "auto": those that the data come with, else
        random ones over the classes that have rows; of batches, over `classes`. None: none.
    classes : iterable, optional
        Names of the classes that will come: random folds are over these. Two sites that name the
        same ones have the same folds.
    squares : bool, default=False
        Whether to sum squares by class, too; GFZSL needs them.
    sample : int, default=20,000
        Rows to keep for validation, at least two of each class.
    seed : int, default=0
        Of random folds and of which rows are kept.
    checkpoint : path, optional
        Folder of partial sums: killed at any moment, the same call goes on with what is missing.
    engine : {"local", "ray"}, default="local"
        Processes of this machine, or tasks of a Ray cluster that sees the same files.
    workers : int, optional
        How many; by default one per core. The result is the same to the bit.
    address : str, optional
        Of the Ray cluster.
    leaves : int, default=32
        How many blocks the shards are divided into, at most: how many workers find work. The
        result is the same to the bit for the same number.
    progress : callable, optional
        Called as ``progress("gather", done, total, {})``, in shards.

    Returns
    -------
    GatheredStatistics

    Examples
    --------
    >>> from hgkt import HGKTClassifier, gather, load_dataset
    >>> data = load_dataset("digits")
    >>> X, y = data.rows("train")
    >>> stats = gather([(X[:600], y[:600]), (X[600:], y[600:])], classes=np.unique(y))
    >>> model = HGKTClassifier().fit_statistics(stats, data.attributes_of(data.seen_classes))
    >>> model.add_classes(data.attributes_of(data.unseen_classes)).predict(X[:2]).tolist()
    ['zero', 'one']
    """
    check_number("leaves", leaves, low=1, integer=True)
    if engine == "ray" and address is not None and checkpoint is None:
        raise DataError(
            "the nodes of a Ray cluster hand partial sums on as files: give a checkpoint, a folder "
            "that all of them see"
        )
    if isinstance(source, str | Path):
        source = open_shards(source)
    if isinstance(source, ShardedData):
        found = _folds(folds, classes, source, seed)
        recipe = Recipe(tuple(feature_maps), found, squares, sample, seed)
        with open_engine(engine, workers, address, len(source.shards)) as runner:
            return gather_shards(
                source.shards,
                recipe,
                engine=runner,
                checkpoint=checkpoint,
                leaves=leaves,
                progress=progress,
            )
    if checkpoint is not None:
        raise DataError(
            "batches are read once and cannot be gathered with a checkpoint; give a folder or "
            "hgkt.data.open_shards(folder)"
        )
    recipe = Recipe(tuple(feature_maps), _folds(folds, classes, None, seed), squares, sample, seed)
    return gather_batches(source, recipe, progress)


def _folds(
    folds: ClassFolds | str | None,
    classes: Iterable[Any] | None,
    source: ShardedData | None,
    seed: int,
) -> ClassFolds:
    """Return the class folds asked for, as tuples: they are part of a digest."""
    if folds is None:
        return ()
    if not isinstance(folds, str):
        return _frozen(folds)
    if folds != AUTO:
        raise DataError(f"folds must be a list of pairs, 'auto' or None; got {folds!r}")
    if source is not None and source.folds and classes is None:
        return _frozen(source.folds)
    if classes is None:
        classes = () if source is None else source.class_counts
    names = np.unique(list(classes))
    if len(names) < 3:
        return ()
    n_folds = 3 if len(names) >= FEW_CLASSES else 6
    return _frozen(class_folds(names, n_folds, None, seed))


def _frozen(folds: ClassFolds) -> ClassFolds:
    return tuple((tuple(train), tuple(val)) for train, val in folds)
