"""Sums over the examples of grown classes, among the arrays of a saved model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, check_map
from hgkt.estimators.state_rules import Rule
from hgkt.exceptions import DataError
from hgkt.statistics import ExampleSums
from hgkt.statistics.examples import MappedSums

_COUNTS, _TOTALS, _FACTORS = "kept/counts", "kept/totals/", "kept/factors/"


def kept_arrays(
    kept: Mapping[Any, ExampleSums], classes: Sequence[Any]
) -> dict[str, NDArray[np.float64]]:
    """Return the sums of some of the classes as arrays: rows of one class after another.

    Parameters
    ----------
    kept : mapping of class to ExampleSums
    classes : sequence
        All seen classes, as the model has them.
    """
    found = [kept[name] for name in classes if name in kept]
    if not found:
        return {}
    counts = [kept[name].n_examples if name in kept else 0 for name in classes]
    arrays = {_COUNTS: np.array(counts, dtype=np.float64)}
    for kind in found[0].maps:
        if all(kind in sums.maps for sums in found):
            parts = [sums.maps[kind] for sums in found]
            arrays[f"{_TOTALS}{kind}"] = np.stack([part.total for part in parts])
            arrays[f"{_FACTORS}{kind}"] = np.concatenate([part.factor for part in parts])
    return arrays


def kept_rules(names: Collection[str], needed: Sequence[FeatureMap]) -> dict[str, Rule]:
    """Return what the arrays of `kept_arrays` must look like, where there are any.

    Parameters
    ----------
    names : collection of str
        The arrays that are there.
    needed : sequence of feature map
        Those of the model: sums under them must not be missing.
    """
    if not any(name.startswith("kept/") for name in names):
        return {}
    rules = {_COUNTS: Rule("L", low=0.0)}
    own = {str(kind) for kind in ExampleSums(1, dict.fromkeys(needed, _NOTHING)).maps}
    for kind in own | {name.removeprefix(_TOTALS) for name in names if name.startswith(_TOTALS)}:
        rules[f"{_TOTALS}{kind}"] = Rule("n_kept D")
        rules[f"{_FACTORS}{kind}"] = Rule("n_factors D")
    return rules


def kept_from(arrays: Mapping[str, NDArray[Any]], classes: Sequence[Any]) -> dict[Any, ExampleSums]:
    """Read what `kept_arrays` returned."""
    if _COUNTS not in arrays:
        return {}
    counts = arrays[_COUNTS].astype(int)
    rows = np.flatnonzero(counts).tolist()
    kinds = {k.removeprefix(_TOTALS): v for k, v in arrays.items() if k.startswith(_TOTALS)}
    width = next(iter(kinds.values())).shape[1]
    stops = np.cumsum(np.minimum(counts[rows], width))
    for kind, totals in kinds.items():
        if len(totals) != len(rows) or len(arrays[f"{_FACTORS}{kind}"]) != stops[-1]:
            raise DataError("the sums of its grown classes do not fit the numbers of examples")
    factors = {kind: np.split(arrays[f"{_FACTORS}{kind}"], stops[:-1]) for kind in kinds}
    return {
        classes[row]: ExampleSums(
            int(counts[row]),
            {_read_map(k): MappedSums(kinds[k][i], factors[k][i]) for k in kinds},
        )
        for i, row in enumerate(rows)
    }


def _read_map(name: str) -> FeatureMap:
    try:
        kind: FeatureMap = float(name)
    except ValueError:
        kind = name
    check_map("the feature map of kept sums", kind)
    return kind


_NOTHING = MappedSums(np.zeros(0), np.zeros((0, 0)))
