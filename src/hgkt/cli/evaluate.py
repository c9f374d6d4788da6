"""`hgkt evaluate`: a method on a data set by the generalized zero-shot protocol."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hgkt._files import check_writable
from hgkt._plain import plain, short
from hgkt.cli._options import DataOptions, MethodOptions, with_options
from hgkt.cli._output import emit, figures_table, out, progress_bar, say
from hgkt.exceptions import DataError, HGKTError

_HEAD = ("ts", "tr", "H", "zsl", "ausuc")
_BESIDE = {f"{name}_uncalibrated": name for name in ("ts", "tr", "H")}
_FIGURES = (*_HEAD, "H_star")
_BLOCKS = ("uncalibrated", "calibrated")
_MEANINGS = (
    "ts, tr: accuracy on unseen and on seen classes, each among all classes; H: harmonic mean",
    "ZSL: accuracy on unseen classes among these alone; AUSUC: area under the curve of tr over ts",
    "H*: the best H over all calibrations, an oracle",
)
_GROUPS = {"confidence_seen": "seen rows", "confidence_unseen": "unseen rows"}
_UNKNOWN = {
    "auroc": "AUROC",
    "auroc_softmax": "softmax",
    "auroc_mahalanobis": "Mahalanobis",
    "rejected_known": "known rejected",
    "rejected_unknown": "unknown rejected",
    "oscr": "OSCR",
    "oscr_softmax": "softmax",
}


@with_options
def evaluate_command(
    source: DataOptions,
    options: MethodOptions,
    folds: Annotated[int | None, typer.Option(min=1)] = None,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    metric: str = "auto",
    unknown: Annotated[int, typer.Option("--unknown-classes", min=0)] = 0,
    out_folder: Annotated[Path | None, typer.Option("--out")] = None,
    as_json: bool = False,
) -> None:
    """Measure a method on a data set: ts, tr, H, ZSL and AUSUC.

    In percent. The method is fitted on the seen classes, then the unseen ones are added. How right
    the confidence of answers is stands below: calibration error, log loss, 90 % sets.

    Example: hgkt evaluate --data CUB --root data --features efflite2 --select

    Parameters
    ----------
    folds : N, default 3, or 6 where classes are few
        Class folds to choose on.
    seeds : N
        Repeat with this many seeds from --seed on.
    metric : NAME
        What --select maximises: auto (AUSUC), H or zsl.
    unknown : N
        Never add N unseen classes, and see how their rows are told from known ones.
    out_folder : FOLDER
        Write a run record for every seed.
    """
    from hgkt.evaluation import evaluate

    start = time.perf_counter()
    if out_folder is not None:
        check_writable(out_folder)
    options.check()  # a wrong parameter is told before the data is read
    dataset = source.load()
    runs: list[dict[str, Any]] = []
    troubles: list[str] = []
    for seed in range(options.seed, options.seed + seeds):
        began = time.perf_counter()
        with progress_bar() as progress:
            record = evaluate(
                options.estimator(dataset, seed),
                dataset,
                **options.choices() | {"random_state": seed},
                metric=metric,
                n_folds=folds,
                progress=progress,
                unknown_classes=unknown,
            )
        seconds = time.perf_counter() - began
        path = None
        if out_folder is not None:
            try:
                path = record.save(out_folder)
            except HGKTError as error:  # told after the results, which are not lost
                troubles.append(str(error))
        runs.append(_document(record, seconds) | {"preset": options.preset, "record": path})
    document = _summary(runs, time.perf_counter() - start)
    emit(document, as_json, lambda: _render(document))
    if troubles:
        raise DataError(troubles[0])


def _document(record: Any, seconds: float) -> dict[str, Any]:
    metrics = record.metrics.to_dict()
    return {
        **{name: metrics.pop(name) for name in _HEAD},
        "seconds": seconds,
        "selected": record.selected,
        **{key: getattr(record.uncalibrated, name) for key, name in _BESIDE.items()},
        **metrics,
        "calibration": record.calibration,
        "uncalibrated": record.uncalibrated.to_dict(),
        "calibrated": None if record.calibrated is None else record.calibrated.to_dict(),
        **{
            name: getattr(record, name)
            for name in ("validation", "timings", "method", "parameters", "data", "seed")
        },
        **_confidence_document(record),
        "taxonomy": None if record.taxonomy is None else record.taxonomy.to_dict(),
    }


def _summary(runs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """One run as it is; of several the means, standard deviations and the runs themselves."""
    first = runs[0]
    if len(runs) == 1:
        return first | {"seconds": seconds}
    names = list(first["uncalibrated"])
    mean = _over(runs, [*_BESIDE, *names], np.mean)
    head: dict[str, Any] = {name: mean.pop(name) for name in _HEAD}
    head |= {"seconds": seconds, "selected": [run["selected"] for run in runs], **mean}
    head["calibration"] = [run["calibration"] for run in runs]
    # Sample standard deviation: the seeds stand for all the seeds one could have taken.
    head["std"] = _over(runs, [*_BESIDE, *names], lambda column: np.std(column, ddof=1))
    for block in _BLOCKS:
        parts = [run[block] for run in runs]
        head[block] = None if None in parts else _over(parts, names, np.mean)
    head |= {name: first[name] for name in ("method", "preset", "data")}
    return (
        head | {name: [run[name] for run in runs] for name in ("seed", "record")} | {"runs": runs}
    )


def _over(runs: list[dict[str, Any]], names: list[str], reduce: Any) -> dict[str, float]:
    return {name: float(reduce([run[name] for run in runs])) for name in names}


def _render(document: dict[str, Any]) -> None:
    title = f"{document['method']} on {document['data']['name']} (%, mean over classes)"
    table = figures_table(title, ("ts", "tr", "H", "ZSL", "AUSUC", "H*"))
    std = document.get("std")
    spread = [f"±{std[name]:.1f}" if std else "" for name in _FIGURES]
    cells = zip(_FIGURES, spread, strict=True)
    table.add_row("result", *(f"{document[name]:.1f}{more}" for name, more in cells))
    for block in _BLOCKS:
        values = document[block]
        if values is not None and any(values[name] != document[name] for name in _FIGURES):
            table.add_row(block, *(f"{values[name]:.1f}" for name in _FIGURES))
    out.print(table)
    say(*_MEANINGS)
    _print_confidence(document.get("runs", [document]))
    _print_taxonomy(document.get("runs", [document]))
    for run in document.get("runs", [document]):
        chosen = ", ".join(f"{name}={short(value)}" for name, value in run["selected"].items())
        where = "" if run["record"] is None else f"; record {run['record']}"
        picked = f"; chosen on validation classes: {chosen}" if chosen else ""
        say(f"seed {run['seed']}: {run['seconds']:.1f} s{picked}{where}")


# ---------------------------------------------------------------------- confidence
def _confidence_document(record: Any) -> dict[str, Any]:
    """Return ``confidence_seen``, ``confidence_unseen`` and ``unknown`` of a run record."""
    parts = {name: getattr(record, name) for name in (*_GROUPS, "unknown")}
    return {name: None if part is None else plain(asdict(part)) for name, part in parts.items()}


def _print_confidence(runs: list[dict[str, Any]]) -> None:
    """Print the tables, means over runs; nothing where there is no confidence."""
    from hgkt.evaluation.confidence import COLUMNS

    if runs[0]["confidence_seen"] is None:
        return
    table = figures_table("confidence (%, log loss and sizes apart)", COLUMNS.values())
    for name, words in _GROUPS.items():
        table.add_row(words, *_means([run[name] for run in runs], COLUMNS))
    out.print(table)
    if runs[0]["unknown"] is not None:
        first = runs[0]["unknown"]
        table = figures_table(f"{first['n_unknown']} classes never added (%)", _UNKNOWN.values())
        table.add_row(first["score"], *_means([run["unknown"] for run in runs], _UNKNOWN))
        out.print(table)


def _print_taxonomy(runs: list[dict[str, Any]]) -> None:
    """Print accuracy by level and back-off, means over runs; nothing where there are no groups."""
    reports = [run["taxonomy"] for run in runs if run["taxonomy"] is not None]
    if not reports:
        return
    table = figures_table("taxonomy (%)", ("accuracy",))
    levels = reports[0]["levels"]
    for number, level in enumerate(levels):
        found = [report["levels"][number] for report in reports]
        words = f"level {level['level']} of {len(levels)}, {level['n_nodes']} nodes"
        table.add_row(words, *_means(found, {"accuracy": ""}))
    out.print(table)
    table = figures_table("back-off (%)", ("answered", "wrong", "with a class"))
    for number, floor in enumerate(reports[0]["back_off"]):
        found = [report["back_off"][number] for report in reports]
        # Without an answer nothing is wrong.
        found = [part | {"risk": part["risk"] or 0.0} for part in found]
        row = _means(found, dict.fromkeys(["coverage", "risk", "classes"], ""))
        table.add_row(f"at least {floor['at_least']:g}", *row)
    out.print(table)
    steps = [report["distance"] for report in reports if report["distance"] is not None]
    if steps:
        say(f"steps from a wrong class to the right one: {np.mean(steps):.1f}")


def _means(parts: list[dict[str, Any]], columns: dict[str, str]) -> list[str]:
    return [
        f"{np.mean([part[name] for part in parts]):.{2 if 'log' in name else 1}f}"
        for name in columns
    ]
