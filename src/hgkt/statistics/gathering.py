"""Sum many shards: in a fixed tree, by any engine, with every partial sum kept on disk.

Shards are divided, in their order, into at most `leaves` blocks. A worker sums a whole block and
writes one file; eight files are summed to one, until one is left: 1 + ⌈log₈ leaves⌉ levels. The
tree is a matter of the shards alone, and so is the order of every addition: the result is the same
to the bit whatever the number of workers, and whatever was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, batches
from hgkt._files import check_writable, sha256
from hgkt._processes import passing_folder
from hgkt._typing import Progress
from hgkt.engines import Engine, map_tasks
from hgkt.exceptions import DataError
from hgkt.statistics.gathered import FORMAT, SAMPLE_ROWS, Folds, GatheredStatistics

LEAVES = 32
FAN_IN = 8
_SAVE_SECONDS = 30.0  # how much work of a worker an interruption may cost, at most


class RowSource(Protocol):
    """A shard: rows with the names of their classes, always the same in the same batches."""

    @property
    def name(self) -> str:
        """What the shard is called; other shards have other names."""
        ...

    def digest(self) -> str:
        """Return another text when the shard has changed."""
        ...

    def batches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield features (n, D) and labels (n,)."""
        ...


@dataclass(frozen=True)
class Recipe:
    """What is summed; the parameters are those of `GatheredStatistics`."""

    feature_maps: tuple[FeatureMap, ...] = ("sqrt+l2",)
    folds: Folds = ()
    squares: bool = False
    sample: int = SAMPLE_ROWS
    seed: int = 0

    def empty(self) -> GatheredStatistics:
        """Return statistics of no rows."""
        return GatheredStatistics(**vars(self))

    def digest(self) -> str:
        """Return another text for another recipe."""
        return sha256(repr((FORMAT, self)))


@dataclass(frozen=True)
class Node:
    """A partial sum: of a block of shards, or of other partial sums.

    Parameters
    ----------
    key : str
        Digest of the recipe and of everything below: the name of its file.
    shards : tuple of (digest, RowSource)
        Those of a leaf, in their order.
    children : tuple of Node
        Those of any other.
    """

    key: str
    shards: tuple[tuple[str, RowSource], ...] = ()
    children: tuple[Node, ...] = ()

    def path(self, folder: Path) -> Path:
        """Return the file of this sum."""
        return folder / f"{self.key[:32]}.safetensors"


@dataclass(frozen=True)
class _Task:
    """What a worker is sent."""

    node: Node
    recipe: Recipe
    folder: Path

    def __str__(self) -> str:
        first = self.node
        while first.children:
            first = first.children[0]
        return f"the partial sum that begins with {first.shards[0][1].name}"


def plan_tree(
    shards: Sequence[RowSource], recipe: Recipe, leaves: int = LEAVES
) -> list[list[Node]]:
    """Return the levels of the tree, leaves first; the last has one node.

    Parameters
    ----------
    shards : sequence of RowSource
        In their order.
    recipe : Recipe
        What is summed.
    leaves : int
        How many blocks there are at most, and so how many workers find work.
    """
    what = recipe.digest()
    named = [(shard.digest(), shard) for shard in shards]
    size = -(-len(named) // leaves)
    level = [
        Node(sha256("|".join([what, *(digest for digest, _ in block)])), block)
        for block in (tuple(named[part]) for part in batches(len(named), size))
    ]
    levels = [level]
    while len(level) > 1:
        level = [
            Node(sha256("|".join(child.key for child in group)), children=group)
            for group in (tuple(level[part]) for part in batches(len(level), FAN_IN))
        ]
        levels.append(level)
    return levels


def gather_shards(
    shards: Sequence[RowSource],
    recipe: Recipe,
    *,
    engine: Engine,
    checkpoint: str | Path | None = None,
    leaves: int = LEAVES,
    progress: Progress | None = None,
) -> GatheredStatistics:
    """Sum shards by an engine; what `checkpoint` holds already is not read again.

    Parameters
    ----------
    shards : sequence of RowSource
        The data; each can be pickled.
    recipe : Recipe
        What is summed.
    engine : Engine
        Where partial sums are made.
    checkpoint : path, optional
        Folder of partial sums, which all workers must see. Killed at any moment, the same call
        goes on with what is missing; a shard that has changed is read again.
    leaves : int
        How many blocks the shards are divided into, at most.
    progress : callable, optional
        Called as ``progress("gather", done, total, values)``, in shards.
    """
    if not shards:
        raise DataError("there are no shards to gather; at least one is expected")
    levels = plan_tree(shards, recipe, leaves)
    root = levels[-1][0]
    if checkpoint is None and engine.n_workers == 1:
        return _sum(root, recipe, None, _Counter(progress, len(shards)))
    if checkpoint is not None:
        check_writable(checkpoint)
    place = passing_folder("hgkt-sums-") if checkpoint is None else nullcontext(Path(checkpoint))
    with place as folder:
        counter = _Counter(progress, len(shards))
        for number, level in enumerate(levels):
            missing = [node for node in level if not node.path(folder).is_file()]
            if number == 0:
                counter.step(sum(len(n.shards) for n in level if n not in missing))
            if root.path(folder).is_file():
                continue
            tasks = [_Task(node, recipe, folder) for node in missing]
            for task, _ in map_tasks(engine, _make_file, tasks):
                counter.step(len(task.node.shards))
        return _sum(root, recipe, folder, _Counter(None, 0))


def _make_file(task: _Task) -> str:
    """Make one partial sum in a worker; what travels back is the path of its file."""
    _sum(task.node, task.recipe, task.folder, _Counter(None, 0))
    return str(task.node.path(task.folder))


class _Counter:
    """Counts shards and tells of them."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self, n_shards: int = 1) -> None:
        self.done += n_shards
        if self.progress is not None and n_shards:
            self.progress("gather", self.done, self.total, {})


def _sum(node: Node, recipe: Recipe, folder: Path | None, counter: _Counter) -> GatheredStatistics:
    """Return a partial sum, from its file or from what is below it; then its file is there."""
    found = None if folder is None else _loaded(node.path(folder))
    if found is not None:
        return found
    if node.children:
        first, *others = node.children
        statistics = _sum(first, recipe, folder, counter)
        for child in others:
            statistics.merge(_sum(child, recipe, folder, counter))
    else:
        statistics = _sum_leaf(node, recipe, folder, counter)
    if folder is not None:
        statistics.save(node.path(folder))
    return statistics


def _sum_leaf(
    node: Node, recipe: Recipe, folder: Path | None, counter: _Counter
) -> GatheredStatistics:
    """Sum the shards of a block one after another, saving what there is now and then."""
    part = None if folder is None else node.path(folder).with_suffix(".part")
    digests = [digest for digest, _ in node.shards]
    statistics = None if part is None else _loaded(part)
    if statistics is None or list(statistics.sources) != digests[: len(statistics.sources)]:
        statistics = recipe.empty()
    saved = time.monotonic()
    for digest, shard in node.shards[len(statistics.sources) :]:
        add_shard(statistics, shard)
        statistics.sources[digest] = shard.name
        counter.step()
        last = digest == digests[-1]
        if part is not None and not last and time.monotonic() - saved > _SAVE_SECONDS:
            statistics.save(part)
            saved = time.monotonic()
    if part is not None:
        part.unlink(missing_ok=True)
    return statistics


def add_shard(statistics: GatheredStatistics, shard: RowSource) -> None:
    """Take in all rows of a shard; what is wrong with them is said with the shard's name."""
    n_rows = 0
    for X, labels in shard.batches():
        statistics.update(X, labels, name=f"{shard.name} from row {n_rows}")
        n_rows += len(labels)


def gather_batches(
    batches: Iterable[tuple[Any, Any]], recipe: Recipe, progress: Progress | None = None
) -> GatheredStatistics:
    """Sum batches of features and labels one after another, in this process.

    Parameters
    ----------
    batches : iterable of (features (n, D), labels (n,))
        Read once.
    recipe : Recipe
        What is summed.
    progress : callable, optional
        Called as ``progress("gather", done, done, {})``, in batches.
    """
    statistics = recipe.empty()
    for number, batch in enumerate(batches):
        try:
            X, labels = batch
        except (TypeError, ValueError):
            raise DataError(
                f"batch {number} is no pair of features and labels; got {type(batch).__name__}"
            ) from None
        statistics.update(X, labels, name=f"batch {number}")
        if progress is not None:
            progress("gather", number + 1, number + 1, {})
    return statistics


def _loaded(path: Path) -> GatheredStatistics | None:
    """Read a partial sum; None where it is not there, or damaged."""
    if not path.is_file():
        return None
    try:
        return GatheredStatistics.load(path)
    except DataError:
        return None
