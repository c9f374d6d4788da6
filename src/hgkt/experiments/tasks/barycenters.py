"""The task "barycenters": the exact barycenter and Sinkhorn's on the same histograms."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.experiments.tasks import Outputs
from hgkt.experiments.tasks.network import Division, final_division, network_of, train_network
from hgkt.experiments.tasks.representatives import neighbors_of, shared_edges

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.experiments.base import Cell


@dataclass(frozen=True)
class Sizes:
    """How much of a data set Sinkhorn is given; its cost grows with all four.

    Parameters
    ----------
    n_classes, n_instances, max_iter : int
        At most so many classes, instances of a class and iterations.
    work : float
        At most so many kernel entries: classes × instances × iterations × D².
    """

    n_classes: int = 8
    n_instances: int = 40
    max_iter: int = 300
    work: float = 1e10

    def within(self, n_classes: int, n_features: int) -> Sizes:
        """Return sizes that keep to `work`: fewer classes first, then fewer instances.

        Examples
        --------
        >>> Sizes(8, 40, 100, work=1e8).within(10, 100)
        Sizes(n_classes=2, n_instances=40, max_iter=100, work=100000000.0)
        """
        one = float(self.max_iter) * n_features**2
        n_instances = int(np.clip(self.work / one / 2, 5, self.n_instances))
        affordable = int(self.work / (one * n_instances))
        n_kept = min(max(2, affordable), self.n_classes, n_classes)
        return Sizes(n_kept, n_instances, self.max_iter, self.work)


def run_barycenters(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Compare barycenters, the representatives next to them, the graph and the network.

    A representative is the instance of the class nearest to the barycenter by the exact distance,
    so that the barycenter alone is exchanged. Classes that Sinkhorn is not given keep their exact
    representative.

    Parameters
    ----------
    cell : Cell
        ``options``: those of `Sizes`, and ``reg``, the regularisation.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``exact`` and ``sinkhorn``: ``objective`` (mean W₂² of the histograms to the barycenter),
        ``seconds`` per class, ``metrics`` of the network; ``same_representative`` and
        ``same_edges`` in percent; the sizes and how many iterations ``converged``.
    arrays : dict of ndarray
        ``objectives`` (n_classes, 2), exact first; ``barycenters`` (2, D) of the first class.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> small = {"n_classes": 2, "n_instances": 5, "max_iter": 20, "reg": 0.01}
    >>> cell = Cell("barycenters", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_steps": 1, "n_hidden": 8}, options=small)
    >>> values, arrays = run_barycenters(cell, load_dataset("digits"))
    >>> bool((arrays["objectives"][:, 0] <= arrays["objectives"][:, 1]).all())
    True
    """
    from hgkt.transport import select_representatives

    division = final_division(dataset)
    model = network_of(cell, dataset)
    options = dict(cell.options)
    reg = float(options.pop("reg", 1e-3))
    n_seen = len(division.seen)
    sizes = Sizes(**options).within(n_seen, division.X.shape[1])
    picked = np.sort(np.random.default_rng(cell.seed).permutation(n_seen)[: sizes.n_classes])
    classes = [_compare(division, code, sizes, reg, cell.seed) for code in picked.tolist()]
    exact = select_representatives(division.X, division.codes, n_seen).indices
    entropic = exact.copy()
    for code, found in zip(picked.tolist(), classes, strict=True):
        # Both from the same instances: the barycenter is all that differs.
        exact[code], entropic[code] = found.rows
    tables = [neighbors_of(model, division, chosen) for chosen in (exact, entropic)]
    tests = [
        next(iter(train_network(model, division, (), chosen).metrics.values()))
        for chosen in (exact, entropic)
    ]
    objectives = np.array([found.objectives for found in classes])
    seconds = np.array([found.seconds for found in classes]).mean(axis=0)
    same = [found.rows[0] == found.rows[1] for found in classes]
    values: dict[str, Any] = {
        **asdict(sizes),
        "n_seen": n_seen,
        "reg": reg,
        "converged": 100.0 * float(np.mean([found.converged for found in classes])),
        "same_representative": 100.0 * float(np.mean(same)),
        "same_edges": shared_edges(tables[0][picked], tables[1][picked]),
    }
    for position, name in enumerate(("exact", "sinkhorn")):
        values[name] = {
            "objective": float(objectives[:, position].mean()),
            "seconds": float(seconds[position]),
            **tests[position].to_dict(),
        }
    return values, {"objectives": objectives, "barycenters": np.stack(classes[0].centers)}


@dataclass(frozen=True)
class _Comparison:
    """One class: exact first, Sinkhorn second."""

    centers: tuple[NDArray[np.float64], NDArray[np.float64]]
    objectives: tuple[float, float]
    seconds: tuple[float, float]
    rows: tuple[int, int]
    converged: bool


def _compare(division: Division, code: int, sizes: Sizes, reg: float, seed: int) -> _Comparison:
    from hgkt.transport import entropic_barycenter, line_barycenter, line_distances, to_simplex

    members = np.flatnonzero(division.codes == code)
    rng = np.random.default_rng([seed, code])
    members = np.sort(rng.permutation(members)[: sizes.n_instances])
    histograms = to_simplex(division.X[members].astype(np.float64))
    start = time.perf_counter()
    exact = line_barycenter(histograms)
    middle = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        entropic = entropic_barycenter(histograms, "squared", reg, max_iter=sizes.max_iter)
    end = time.perf_counter()
    distances = [line_distances(histograms, center) for center in (exact, entropic)]
    near = [int(members[np.argmin(found)]) for found in distances]
    return _Comparison(
        (exact, entropic),
        (float(distances[0].mean()), float(distances[1].mean())),
        (middle - start, end - middle),
        (near[0], near[1]),
        not any("converge" in str(warning.message) for warning in caught),
    )
