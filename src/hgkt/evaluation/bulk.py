"""Any number of rows: gathered into statistics, or predicted from Parquet to Parquet.

`gather` reads a folder, shards or batches once; `predict_shards` writes one file per shard.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap
from hgkt._files import atomic_file, check_writable, file_sha256, sha256
from hgkt._typing import Progress
from hgkt._validation import UNKNOWN, check_features, check_number
from hgkt.calibration.folds import ClassFolds, class_folds, default_folds
from hgkt.data import ShardedData, open_shards
from hgkt.data.shards import SHARD_ROWS, ParquetShard, parquet_shards
from hgkt.engines import map_tasks, open_engine
from hgkt.estimators.model_folder import CONFIG, check_model, load_model
from hgkt.evaluation.confidence import answer_rows, use_device
from hgkt.exceptions import DataError
from hgkt.statistics.gathered import SAMPLE_ROWS, GatheredStatistics
from hgkt.statistics.gathering import LEAVES, Recipe, gather_batches, gather_shards

if TYPE_CHECKING:
    import pyarrow as pa

    from hgkt.estimators import GZSLClassifier

_KEY = b"hgkt.prediction"
AUTO = "auto"
_CLASS, _TRUTH = "class", "truth"


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
    n_folds = default_folds(len(names))
    return _frozen(class_folds(names, n_folds, None, seed))


def _frozen(folds: ClassFolds) -> ClassFolds:
    return tuple((tuple(train), tuple(val)) for train, val in folds)


# ------------------------------------------------------------------ predictions
@dataclass(frozen=True)
class BulkOptions:
    """What is asked of every row; see `predict_shards`."""

    among: str | tuple[Any, ...] = "all"
    top_k: int = 1
    reject: float | None = None
    coverage: float | None = None


@dataclass(frozen=True)
class ShardReport:
    """What one file of predictions holds; the file says it of itself.

    Parameters
    ----------
    key : str
        Digest of the rows, the model and the options.
    n_rows : int
        Rows.
    n_of, n_right : dict of str to int
        Rows of each class, and those predicted right, where the rows have a class.
    """

    key: str
    n_rows: int
    n_of: dict[str, int]
    n_right: dict[str, int]


@dataclass(frozen=True)
class BulkReport:
    """What `predict_shards` did.

    Parameters
    ----------
    out : Path
        Folder of the predictions.
    n_rows : int
        Rows that are predicted now.
    n_made, n_there : int
        Files written by this call, and files that were there already.
    left_alone : tuple of str
        Other Parquet files in the folder: of rows that are gone, or not predictions at all.
    n_of, n_right : dict of str to int
        Rows of each class, and those predicted right, where the rows have a class.
    """

    out: Path
    n_rows: int
    n_made: int
    n_there: int
    left_alone: tuple[str, ...] = ()
    n_of: dict[str, int] = field(default_factory=dict)
    n_right: dict[str, int] = field(default_factory=dict)

    @property
    def per_class(self) -> dict[str, float]:
        """Percentage predicted right of each class; empty where rows have no class."""
        right = self.n_right
        return {name: 100.0 * right.get(name, 0) / n for name, n in sorted(self.n_of.items())}


def predict_shards(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    among: str | Sequence[Any] = "all",
    top_k: int = 1,
    reject: float | None = None,
    coverage: float | None = None,
    engine: str = "local",
    n_workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    shard_rows: int = SHARD_ROWS,
    progress: Progress | None = None,
) -> BulkReport:
    """Predict all rows of Parquet files, each file or range of its row groups to one file.

    Files are written in one step and carry the digest of what they were made from. A call that
    was killed goes on with what is missing; rows, a model or options that have changed are
    predicted again. Columns that are no features are copied, ``class`` under the name ``truth``.

    Parameters
    ----------
    model : path
        Model folder. On a cluster every node must see it, the rows and `out` under these paths.
    source : path
        A Parquet file, or a folder of them in any depth: the features as a list column
        ``features`` or as numeric columns.
    out : path
        Folder of the predictions, with the names that the files have in `source`.
    among : str or sequence, default="all"
        The candidates; see `GZSLClassifier.predict`.
    top_k : int, default=1
        How many classes per row.
    reject, coverage : float, optional
        See `GZSLClassifier.answers`.
    engine : {"local", "ray"}, default="local"
        Processes of this machine, or tasks of a Ray cluster.
    n_workers : int, optional
        Shards at a time; by default one per core.
    address : str, optional
        Of the Ray cluster; by default one is started on this machine.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where workers score rows; "auto": as the model was made. Files that are there stay,
        wherever they were made.
    shard_rows : int, default=65,536
        A file with more rows is divided, at its row groups.
    progress : callable, optional
        Called as ``progress("predict", done, total, {})``, in shards.

    Returns
    -------
    BulkReport
    """
    check_number("top_k", top_k, low=1, integer=True)
    place = Path(source).resolve()
    folder, target = check_model(model).resolve(), Path(out).resolve()
    options = BulkOptions(
        among if isinstance(among, str) else tuple(among), top_k, reject, coverage
    )
    identity = file_sha256(folder / CONFIG)
    shards = find_shards(place, target, shard_rows)
    check_writable(target)
    _check_model(load_once(folder, identity, device), shards[0][0], options)
    tasks = [
        ShardTask(shard, target / name, folder, identity, options, device) for shard, name in shards
    ]
    found = [task.report() for task in tasks]
    earlier = [report for report in found if report is not None]
    todo = [task for task, report in zip(tasks, found, strict=True) if report is None]
    made: list[ShardReport] = []
    if todo:
        with open_engine(engine, n_workers, address, len(todo)) as runner:
            results = map_tasks(
                runner, predict_shard, todo, describe=_name, progress=progress, stage="predict"
            )
            made = [report for _, report in results]
    own = {task.path for task in tasks}
    others = [path for path in sorted(target.rglob("*.parquet")) if path not in own]
    reports = [*earlier, *made]
    return BulkReport(
        Path(out),
        sum(report.n_rows for report in reports),
        len(made),
        len(earlier),
        tuple(path.relative_to(target).as_posix() for path in others),
        dict(sum((Counter(report.n_of) for report in reports), Counter())),
        dict(sum((Counter(report.n_right) for report in reports), Counter())),
    )


def find_shards(source: Path, out: Path, size: int = SHARD_ROWS) -> list[tuple[ParquetShard, str]]:
    """Return the shards of a file or folder, each with the name of its file of predictions."""
    if source.is_file():
        files = {source.name: source}
    elif source.is_dir():
        found = [p for p in sorted(source.rglob("*.parquet")) if p != source / "classes.parquet"]
        files = {p.relative_to(source).as_posix(): p for p in found if out not in p.parents}
    else:
        raise DataError(f"{source} is neither a Parquet file nor a folder of them")
    shards: list[tuple[ParquetShard, str]] = []
    for name, path in files.items():
        parts = parquet_shards(path, name, size, labelled=False)
        stem = name.removesuffix(".parquet")
        for number, shard in enumerate(parts):
            shards.append((shard, f"{stem}-{number:05d}.parquet" if len(parts) > 1 else name))
    if not shards:
        raise DataError(f"{source} has no Parquet files with rows")
    return shards


@dataclass(frozen=True)
class ShardTask:
    """One file of predictions to write."""

    shard: ParquetShard
    path: Path
    model: Path
    identity: str
    options: BulkOptions
    device: str = "auto"

    @property
    def key(self) -> str:
        """Digest of all that the predictions depend on."""
        asked = json.dumps(asdict(self.options), sort_keys=True, default=str)
        return sha256("|".join([self.shard.digest(), self.identity, asked]))

    def report(self) -> ShardReport | None:
        """Return what the file says of itself; None where it is not there or of other rows."""
        import pyarrow as pa
        from pyarrow import parquet

        try:
            metadata = parquet.read_schema(self.path).metadata or {}
            report = ShardReport(**json.loads(metadata[_KEY]))
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return None
        return report if report.key == self.key else None


def predict_shard(task: ShardTask) -> ShardReport:
    """Write the predictions of one shard; runs in a worker."""
    import pyarrow as pa
    from pyarrow import parquet

    key = task.key  # before the rows are read: what changes meanwhile is predicted again
    model = load_once(task.model, task.identity, task.device)
    tables = list(_tables(task, model))
    table = pa.concat_tables(tables, promote_options="permissive")
    n_of, n_right = Counter[str](), Counter[str]()
    if _TRUTH in table.column_names:
        texts = [table[name].cast(pa.string()).to_pylist() for name in (_TRUTH, "label")]
        pairs = [pair for pair in zip(*texts, strict=True) if pair[0] is not None]
        n_of = Counter(truth for truth, _ in pairs)
        n_right = Counter(truth for truth, label in pairs if truth == label)
    report = ShardReport(key, len(table), dict(n_of), dict(n_right))
    table = table.replace_schema_metadata({_KEY: json.dumps(asdict(report))})
    with atomic_file(task.path) as scratch:
        parquet.write_table(table, scratch)
    return report


def _tables(task: ShardTask, model: GZSLClassifier) -> Iterator[pa.Table]:
    import pyarrow as pa

    options = task.options
    among = options.among if isinstance(options.among, str) else list(options.among)
    columns = model.candidates(among)
    start = 0
    for X, others in task.shard.rows():
        check_features(
            X, f"features of {task.shard.name}{f', after row {start},' if start else ''}"
        )
        start += len(X)
        asked = (options.top_k, options.reject, options.coverage)
        answers = answer_rows(model, X, columns, *asked).columns()
        found = {name: _column(values) for name, values in answers.items()}
        for name in others.schema.names:
            copied = _TRUTH if name == _CLASS else name
            if copied in found:
                raise DataError(
                    f"{task.shard.name} has a column {name!r}, which predictions have too; "
                    "give it another name"
                )
            found[copied] = others.column(name)
        yield pa.table(found)


def _column(values: NDArray[Any]) -> pa.Array:
    """Return an Arrow array; among labels that are numbers, unknown is null."""
    import pyarrow as pa

    plain = values.tolist()
    if values.dtype == object and not all(isinstance(value, str) for value in plain):
        plain = [None if value == UNKNOWN else value for value in plain]
    return pa.array(plain)


@lru_cache(maxsize=1)
def load_once(folder: Path, identity: str, device: str = "auto") -> Any:
    """Load a model, once per process, and make sure that it is the one that was asked for."""
    model = load_model(folder)
    use_device(model, device)
    if file_sha256(folder / CONFIG) != identity:
        raise DataError(f"the model in {folder} has changed meanwhile; run it again")
    return model


def _check_model(model: GZSLClassifier, shard: ParquetShard, options: BulkOptions) -> None:
    """Refuse before any worker starts what every one of them would refuse."""
    among = options.among if isinstance(options.among, str) else list(options.among)
    model.candidates(among)
    X, _ = next(shard.rows())
    if X.shape[1] != model.n_features_in_:
        raise DataError(
            f"{shard.name} has {X.shape[1]} features a row; the model expects "
            f"{model.n_features_in_}"
        )
    any_row = np.ones_like(X[:1])
    answer_rows(model, any_row, model.candidates(among), 1, options.reject, options.coverage)


def _name(task: ShardTask) -> str:
    return task.shard.name
