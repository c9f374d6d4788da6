"""How long a cell will take: from what others took, else from a table of methods."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hgkt._plain import plain
from hgkt.experiments.base import Cell, CellResult

# Seconds of a selection on CUB (1,408 features) on one core, from docs/results/methods.jsonl.
_SECONDS = {
    "hgkt": 20.0, "dap": 285.0, "iap": 35.0, "conse": 55.0, "cmt": 160.0, "cmt-star": 140.0,
    "sse": 120.0, "latem": 295.0, "ale": 45.0, "devise": 85.0, "sje": 85.0, "eszsl": 29.0,
    "sync": 115.0, "sae": 14.0, "gfzsl": 9.0, "dem": 22.0, "psrzsl": 35.0, "cn-zsl": 45.0,
    "ridge": 9.0,
}  # fmt: skip
_NETWORK = 500.0  # the paper's network: its grid of μ, k and steps
_USUAL = 60.0
# Images × classes relative to CUB, roughly.
_SIZES = {"digits": 0.05, "SUN": 2.0, "CUB": 1.0, "AWA1": 1.5, "AWA2": 2.0, "APY": 0.5}


class Costs:
    """Expected seconds of cells, better with every result that is learned.

    A cell is expected to take what the same work took with other seeds; else what the same
    method took on that data; else what it took on other data, by size; else a table's guess.

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
    >>> costs.seconds(cells[1])
    9.0
    >>> costs.learn(CellResult(cells[0], seconds=12.0))
    >>> costs.seconds(cells[1])
    12.0
    """

    def __init__(self, results: Iterable[CellResult] = ()) -> None:
        self._sums: dict[str, tuple[float, int]] = {}
        for result in results:
            self.learn(result)

    def learn(self, result: CellResult) -> None:
        """Take a result's time into account.

        Parameters
        ----------
        result : CellResult
            What a cell gave.
        """
        if not result.ok:
            return
        for level in _levels(result.cell):
            total, count = self._sums.get(level, (0.0, 0))
            self._sums[level] = (total + result.seconds / _size(result.cell), count + 1)

    def seconds(self, cell: Cell) -> float:
        """Return how long a cell is expected to take.

        Parameters
        ----------
        cell : Cell
            The work.
        """
        for level in _levels(cell):
            if level in self._sums:
                total, count = self._sums[level]
                return total / count * _size(cell)
        return _size(cell) * _guess(cell)

    def is_guess(self, cell: Cell) -> bool:
        """Whether nothing like the cell has been learned.

        Parameters
        ----------
        cell : Cell
            The work.
        """
        return not any(level in self._sums for level in _levels(cell))


def _levels(cell: Cell) -> list[str]:
    """Return what cells of similar cost share, the most similar first."""
    data = [cell.data.name, cell.data.features]
    kind = [cell.task, cell.method, cell.preset]
    details = plain([dict(cell.params), dict(cell.options)])
    same = [[*kind, *data, details], [*kind, *data], kind]
    return [json.dumps(level, sort_keys=True) for level in same]


def _guess(cell: Cell) -> float:
    if cell.preset == "paper":
        return _NETWORK
    return _SECONDS.get(cell.method, _USUAL)


def _size(cell: Cell) -> float:
    return _SIZES.get(cell.data.name, 1.0)
