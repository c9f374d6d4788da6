"""`hgkt evaluate`: a method on a data set by the generalized zero-shot protocol."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hgkt.cli._common import (
    AttributesOption,
    DataOption,
    Device,
    DeviceOption,
    FeaturesOption,
    JsonOption,
    ParamOption,
    RootOption,
    SeedOption,
    emit,
    out,
    parse_params,
    progress_bar,
)
from hgkt.cli._estimator import (
    CalibrateOption,
    FoldsOption,
    MethodOption,
    PresetOption,
    SelectOption,
    estimator_builder,
)

_FIGURES = ("ts", "tr", "H", "zsl", "ausuc", "H_star")
_BLOCKS = ("uncalibrated", "calibrated")


def evaluate_command(
    data: DataOption = "digits",
    root: RootOption = None,
    features: FeaturesOption = "res101",
    attributes: AttributesOption = "att",
    method: MethodOption = "hgkt",
    preset: PresetOption = None,
    param: ParamOption = None,
    select: SelectOption = False,
    folds: FoldsOption = None,
    calibrate: CalibrateOption = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Repeat with this many seeds from --seed on.")
    ] = 1,
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Write a run record for every seed."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a method, add the unseen classes and measure ts, tr, H, ZSL and AUSUC, in percent.

    Example: hgkt evaluate --data CUB --root data --features efflite2 --select
    """
    from hgkt.data import load_dataset
    from hgkt.evaluation import evaluate

    start = time.perf_counter()
    params = parse_params(param)
    build = estimator_builder(method, preset, params, str(device))
    build(seed)  # a wrong parameter is told before the data is read
    dataset = load_dataset(data, root=root, features=features, attributes=attributes)
    runs = []
    for number in range(seed, seed + seeds):
        began = time.perf_counter()
        with progress_bar() as progress:
            record = evaluate(
                build(number, dataset),
                dataset,
                select=select,
                calibrate="auto" if calibrate is None else calibrate,
                n_folds=folds,
                random_state=number,
                progress=progress,
            )
        path = None if out_folder is None else record.save(out_folder)
        seconds = time.perf_counter() - began
        runs.append(_document(record, seconds) | {"preset": preset, "record": path})
    total = time.perf_counter() - start
    document = _summary(runs, total)
    emit(document, as_json, lambda: _render(document))


def _document(record: Any, seconds: float) -> dict[str, Any]:
    metrics = record.metrics.to_dict()
    return {
        **{name: metrics[name] for name in ("ts", "tr", "H", "zsl", "ausuc")},
        "seconds": seconds,
        "selected": record.selected,
        **{name: value for name, value in metrics.items() if name not in _FIGURES[:5]},
        "calibration": record.calibration,
        "uncalibrated": record.uncalibrated.to_dict(),
        "calibrated": None if record.calibrated is None else record.calibrated.to_dict(),
        "validation": record.validation,
        "timings": record.timings,
        "method": record.method,
        "parameters": record.parameters,
        "data": record.data,
        "seed": record.seed,
    }


def _summary(runs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """One run as it is; of several the means, standard deviations and the runs themselves."""
    if len(runs) == 1:
        return runs[0] | {"seconds": seconds}
    names = [name for name, value in runs[0]["uncalibrated"].items() if isinstance(value, float)]
    mean, std = _mean_std(runs, names)
    head: dict[str, Any] = {name: mean[name] for name in ("ts", "tr", "H", "zsl", "ausuc")}
    head |= {"seconds": seconds, "selected": [run["selected"] for run in runs]}
    head |= {name: value for name, value in mean.items() if name not in head}
    head |= {"calibration": [run["calibration"] for run in runs], "std": std}
    for block in _BLOCKS:
        parts = [run[block] for run in runs]
        head[block] = None if None in parts else _mean_std(parts, names)[0]
    head |= {name: runs[0][name] for name in ("method", "preset", "data")}
    return head | {
        "seed": [run["seed"] for run in runs],
        "record": [run["record"] for run in runs],
        "runs": runs,
    }


def _mean_std(
    runs: list[dict[str, Any]], names: list[str]
) -> tuple[dict[str, float], dict[str, float]]:
    table = np.array([[run[name] for name in names] for run in runs])
    # Sample standard deviation: the seeds stand for all the seeds one could have taken.
    means, stds = table.mean(axis=0).tolist(), table.std(axis=0, ddof=1).tolist()
    return dict(zip(names, means, strict=True)), dict(zip(names, stds, strict=True))


def _render(document: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        title=f"{document['method']} on {document['data']['name']} (%, mean over classes)",
        caption="H*: the best H over all calibrations, an oracle",
        box=SIMPLE,
        pad_edge=False,
    )
    table.add_column("")
    for name in ("ts", "tr", "H", "ZSL", "AUSUC", "H*"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("result", *(_cell(document, name, document.get("std")) for name in _FIGURES))
    for block in _BLOCKS:
        values = document[block]
        if values is not None and any(values[name] != document[name] for name in _FIGURES):
            table.add_row(block, *(_cell(values, name) for name in _FIGURES))
    out.print(table)
    for run in document.get("runs", [document]):
        chosen = ", ".join(f"{name}={_short(value)}" for name, value in run["selected"].items())
        where = "" if run["record"] is None else f"; record {run['record']}"
        picked = f"; chosen on validation classes: {chosen}" if chosen else ""
        line = f"seed {run['seed']}: {run['seconds']:.1f} s{picked}{where}"
        out.print(line, soft_wrap=True, markup=False)


def _cell(values: dict[str, Any], name: str, std: dict[str, float] | None = None) -> str:
    return f"{values[name]:.1f}" + ("" if std is None else f"±{std[name]:.1f}")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)
