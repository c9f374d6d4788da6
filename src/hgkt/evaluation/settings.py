"""What a search keeps of each setting that it tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SettingResult:
    """What one setting reached on the validation classes, in percent.

    Parameters
    ----------
    stage : int
        Stage of the search, counted from 0.
    params : dict
        The setting: the grid's values and those fixed by earlier stages.
    values : tuple of float
        The metric on each fold.
    mean : float
        Mean of `values`: what is compared.
    calibration : float
        The γ with the highest mean H over the folds; NaN for members of a mixture.
    H : float
        Mean H over the folds at the calibration that would be in force; NaN as well.
    zsl : float
        Mean ZSL accuracy over the folds; NaN as well.
    """

    stage: int
    params: dict[str, Any]
    values: tuple[float, ...]
    mean: float
    calibration: float
    H: float
    zsl: float


def settings_frame(results: Iterable[SettingResult]) -> pd.DataFrame:
    """Return settings as a table, one row each, with a column for every fold.

    Parameters
    ----------
    results : iterable of SettingResult
        As `ClassFoldSearch.cv_results_` has them.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for result in results:
        folds = {f"fold_{k}": value for k, value in enumerate(result.values)}
        row = {"stage": result.stage, **result.params, "mean": result.mean, **folds}
        rest = {name: getattr(result, name) for name in ("calibration", "H", "zsl")}
        rows.append({**row, **rest})
    return pd.DataFrame(rows)
