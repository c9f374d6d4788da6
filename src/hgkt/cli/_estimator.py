"""From --method, --preset, --param, --seed and --device to an estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import GZSLClassifier

MethodOption = Annotated[
    str, typer.Option("--method", "-m", help="Method: a name of `hgkt methods`.")
]
PresetOption = Annotated[
    str | None, typer.Option("--preset", help="Preset of parameters: default or paper (hgkt only).")
]
SelectOption = Annotated[
    bool, typer.Option("--select", help="Choose parameters on validation classes.")
]
FoldsOption = Annotated[
    int | None,
    typer.Option(
        "--folds",
        min=1,
        help="Class folds of --select. [default: 3; 1 for hgkt's network]",
        show_default=False,
    ),
]
CalibrateOption = Annotated[
    bool | None,
    typer.Option(
        "--calibrate/--no-calibrate",
        help="Choose a calibration on validation classes. [default: as the method wants]",
        show_default=False,
    ),
]


def estimator_builder(
    method: str, preset: str | None, params: dict[str, Any], device: str
) -> Callable[..., Any]:
    """Return a function from seed (and data set) to estimator; unknown parameters are refused.

    Parameters
    ----------
    method : str
        A name of the registry.
    preset : str or None
        A preset, for methods that have some.
    params : dict
        Parameters that the user set; they win over everything else.
    device : str
        Where to compute, for methods that can choose.
    """
    from hgkt.estimators.methods import build_method

    build_method(method, preset, params)  # what is wrong is said before any data is read

    def build(seed: int, dataset: GZSLDataset | None = None) -> GZSLClassifier:
        common = {"device": device, "random_state": seed, "attribute_blocks": _blocks(dataset)}
        model: GZSLClassifier = build_method(method, preset, params, **common)
        return model

    return build


def _blocks(dataset: GZSLDataset | None) -> list[int] | None:
    """Widths of the data set's attribute blocks, where there is more than one."""
    blocks = [] if dataset is None else list(dataset.about.get("attribute_blocks") or [])
    return blocks if len(blocks) > 1 else None
