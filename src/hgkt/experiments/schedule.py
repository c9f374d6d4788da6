"""In which order cells run, and how long they will take."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hgkt._plain import plain
from hgkt.experiments._worker import failed
from hgkt.experiments.base import Cell, CellResult

_LATE = 0.2
_TRAINED, _USUAL = 300.0, 60.0
_LOOPS = {"n_steps", "n_epochs", "n_iterations"}


class Schedule:
    """Cells that wait, in order, each for those it needs.

    Parameters
    ----------
    cells : sequence of Cell
        The work.
    results : mapping
        Results by key, to which those of the run are added as they come.

    Examples
    --------
    >>> from hgkt.experiments.base import DataSpec
    >>> digits = DataSpec("digits", "digits")
    >>> main = Cell("evaluate", digits, "dem")
    >>> picture = Cell("embedding", digits, "dem", needs=[main.key])
    >>> results = {}
    >>> schedule = Schedule([picture, main], results)
    >>> schedule.take() is main, schedule.take()
    (True, None)
    >>> results[main.key] = CellResult(main, {"selected": {"ridge": 0.5}})
    >>> schedule.take() is picture, schedule.taken(picture)
    (True, {'ridge': 0.5})
    """

    def __init__(self, cells: Sequence[Cell], results: Mapping[str, CellResult]) -> None:
        self._waiting = list(cells)
        self._planned = {cell.key for cell in cells}
        self.results = results

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Cell | None:
        """Return the next cell that can run, or None while all that wait need others."""
        for cell in self._waiting:
            if all(key in self.results for key in cell.needs):
                self._waiting.remove(cell)
                return cell
        return None

    def taken(self, cell: Cell) -> dict[str, Any]:
        """Return the parameters that a cell takes from those it needs."""
        chosen: dict[str, Any] = {}
        for key in cell.needs:
            chosen |= self.results[key].values.get("selected") or {}
        return chosen

    def hopeless(self) -> Iterator[CellResult]:
        """Yield the failures of cells that cannot run any more, and of those that need them."""
        while found := next(((c, why) for c in self._waiting if (why := self._obstacle(c))), None):
            self._waiting.remove(found[0])
            yield failed(*found)

    def _obstacle(self, cell: Cell) -> str:
        for key in cell.needs:
            need = self.results.get(key)
            if need is not None and not need.ok:
                return f"it needs another cell, which failed: {need.cell.label}: {need.error}"
            if need is None and key not in self._planned:
                return f"it needs the cell {key}, which is not part of the run"
        return ""


class Costs:
    """Expected seconds of cells, better with every result that is learned.

    A cell is expected to take what the same work took with other seeds; else what the same
    method took on that data; else what it took on other data; else a plain guess.

    Parameters
    ----------
    results : iterable of CellResult
        Results to learn from; failures teach nothing.

    Examples
    --------
    >>> from hgkt.experiments.base import DataSpec
    >>> cub = DataSpec("CUB", "CUB")
    >>> cells = [Cell("evaluate", cub, "ridge", seed=seed) for seed in (0, 1)]
    >>> costs = Costs()
    >>> costs.is_guess(cells[1])
    True
    >>> costs.learn(CellResult(cells[0], seconds=12.0))
    >>> costs.seconds(cells[1])
    12.0
    """

    def __init__(self, results: Iterable[CellResult] = ()) -> None:
        self._sums: dict[str, tuple[float, int]] = {}
        for result in results:
            self.learn(result)

    def learn(self, result: CellResult) -> None:
        """Take a result's time into account."""
        for level in _levels(result.cell) if result.ok else ():
            total, count = self._sums.get(level, (0.0, 0))
            self._sums[level] = (total + result.seconds, count + 1)

    def seconds(self, cell: Cell) -> float:
        """Return how long a cell is expected to take."""
        for level in _levels(cell):
            if level in self._sums:
                total, count = self._sums[level]
                return total / count
        return _guess(cell)

    def is_guess(self, cell: Cell) -> bool:
        """Whether nothing like the cell has been learned."""
        return not any(level in self._sums for level in _levels(cell))


def _levels(cell: Cell) -> list[str]:
    """Return what cells of similar cost share, the most similar first."""
    data = [cell.data.name, cell.data.features]
    kind = [cell.task, cell.method, cell.preset]
    details = plain([dict(cell.params), dict(cell.options)])
    same = [[*kind, *data, details], [*kind, *data], kind]
    return [json.dumps(level, sort_keys=True) for level in same]


def _guess(cell: Cell) -> float:
    """Return more for a method that goes through its data many times."""
    from hgkt.estimators.methods import METHODS

    known = cell.method in METHODS
    loops = known and _LOOPS & set(METHODS.load(cell.method)._get_param_names())
    return _TRAINED if loops else _USUAL


@dataclass
class RunState:
    """Where a run stands; what a progress display shows.

    Parameters
    ----------
    n_total : int
        Cells to run now; those that were there do not count.
    n_there : int
        Cells whose results were in the store.
    n_done, n_failed : int
        Cells that have ended, and how many of them failed.
    running : dict of str to Cell
        Cells under way, by key.
    last : CellResult or None
        What has just ended.
    seconds_left : float or None
        Expected, from the same costs that order the cells; None before anything is known.
    """

    n_total: int
    n_there: int
    n_done: int = 0
    n_failed: int = 0
    running: dict[str, Cell] = field(default_factory=dict)
    last: CellResult | None = None
    seconds_left: float | None = None


RunProgress = Callable[[RunState], None]


class Tracker:
    """Keeps the `RunState`, the order and the estimate of the time left.

    Parameters
    ----------
    todo : sequence of Cell
        Cells to run.
    n_there : int
        Cells whose results were there.
    costs : Costs
        What is known of their times; it learns more.
    progress : callable, optional
        Called with the state whenever it changes.
    """

    def __init__(
        self, todo: Sequence[Cell], n_there: int, costs: Costs, progress: RunProgress | None
    ) -> None:
        self.state = RunState(len(todo), n_there)
        self.n_workers = 1
        self._costs, self._progress = costs, progress
        self._left = {cell.key: cell for cell in todo}
        self._begun: dict[str, float] = {}
        self._guessed = self._taken = 0.0
        self._report()

    def ordered(self) -> list[Cell]:
        """Return the cells with the longest first: short ones fill the gaps at the end."""
        return sorted(self._left.values(), key=self._costs.seconds, reverse=True)

    def started(self, cell: Cell) -> None:
        """Note that a cell runs."""
        self.state.running[cell.key] = cell
        self.state.last = None
        self._begun[cell.key] = time.monotonic()
        self._report()

    def ended(self, result: CellResult) -> None:
        """Note what a cell gave."""
        key = result.cell.key
        if self._costs.is_guess(result.cell) and result.ok:
            self._guessed += self._costs.seconds(result.cell)
            self._taken += result.seconds
        self._costs.learn(result)
        self.state.running.pop(key, None)
        self._left.pop(key, None)
        self.state.n_done += 1
        self.state.n_failed += not result.ok
        self.state.last = result
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self.state.seconds_left = self._seconds_left()
            self._progress(self.state)

    def _seconds_left(self) -> float:
        # Guesses are off by the same factor on the same machine; it shows as cells end.
        factor = self._taken / self._guessed if self._guessed else 1.0
        left = [self._cell_left(key, cell, factor) for key, cell in self._left.items()]
        return max(sum(left) / self.n_workers, max(left, default=0.0))

    def _cell_left(self, key: str, cell: Cell, factor: float) -> float:
        expected = self._costs.seconds(cell) * (factor if self._costs.is_guess(cell) else 1.0)
        elapsed = time.monotonic() - self._begun[key] if key in self._begun else 0.0
        # What takes longer than expected will hardly end this second.
        return max(expected - elapsed, _LATE * elapsed)
