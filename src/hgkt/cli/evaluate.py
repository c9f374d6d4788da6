"""`hgkt methods` and `hgkt evaluate`: every method, and one measured on a data set."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hgkt._files import check_writable
from hgkt._plain import plain, short
from hgkt.cli._options import DataOptions, MethodOptions, with_options
from hgkt.cli._output import emit, progress_bar, say, show_figures, show_table
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
_FACTS = ("validation", "timings", "method", "parameters", "data", "seed", *_GROUPS, "unknown")
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
def methods_command() -> None:
    """Show the methods by name, and where they were published.

    Example: hgkt methods
    """
    from hgkt.estimators.methods import METHODS

    keys = ("summary", "family", "reference")
    entries = [
        {"name": name} | {key: getattr(entry, key) for key in keys}
        for name, entry in METHODS.items()
    ]
    columns = ("name", "what", "published")
    rows = [
        (entry["name"], entry["summary"], short_reference(entry["reference"])) for entry in entries
    ]
    emit({"methods": entries}, lambda: show_table(columns, rows))


def short_reference(reference: str) -> str:
    """Return a reference without the title: the first author, and where and when.

    Examples
    --------
    >>> short_reference("Lampert, Nickisch, Harmeling, Attribute-Based Classification, TPAMI 2014")
    'Lampert et al., TPAMI 2014'
    >>> short_reference("Wang et al., Heterogeneous Graph-based Knowledge Transfer, 2019")
    'Wang et al., 2019'
    """
    first, *others = reference.split(", ")
    if len(others) > 1 and not first.endswith("et al."):
        first += " et al."
    return ", ".join([first, *others[-1:]])


@with_options
def evaluate_command(
    source: DataOptions,
    options: MethodOptions,
    folds: Annotated[int | None, typer.Option(min=1)] = None,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    metric: str = "auto",
    unknown: Annotated[int, typer.Option("--unknown-classes", min=0)] = 0,
    out_folder: Annotated[Path | None, typer.Option("--out")] = None,
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
        began, seeded = time.perf_counter(), replace(options, seed=seed)
        with progress_bar() as progress:
            record = evaluate(
                seeded.estimator(dataset),
                dataset,
                **seeded.choices(),
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
    emit(document, lambda: _render(document))
    if troubles:
        raise DataError(troubles[0])


def _document(record: Any, seconds: float) -> dict[str, Any]:
    metrics = record.metrics.to_dict()
    return {
        **{name: metrics[name] for name in _HEAD},
        "seconds": seconds,
        "selected": record.selected,
        **{key: getattr(record.uncalibrated, name) for key, name in _BESIDE.items()},
        **metrics,
        "calibration": record.calibration,
        "uncalibrated": record.uncalibrated.to_dict(),
        "calibrated": record.calibrated and record.calibrated.to_dict(),
        **{name: plain(getattr(record, name)) for name in _FACTS},
        "taxonomy": record.taxonomy and record.taxonomy.to_dict(),
    }


def _summary(runs: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """One run as it is; of several the means, standard deviations and the runs themselves."""
    import pandas as pd

    first = runs[0]
    if len(runs) == 1:
        return first | {"seconds": seconds}
    frame: Any = pd.DataFrame(runs)
    figures = frame[[*first["uncalibrated"], *_BESIDE]]
    return {
        **figures.mean().to_dict(),
        "seconds": seconds,
        # Of a sample: the seeds stand for all the seeds one could have taken.
        "std": figures.std().to_dict(),
        **{
            name: pd.DataFrame([*frame[name].dropna()]).mean().to_dict() or None for name in _BLOCKS
        },
        **{name: first[name] for name in ("method", "preset", "data")},
        **{name: [*frame[name]] for name in ("selected", "calibration", "seed", "record")},
        "runs": runs,
    }


def _render(document: dict[str, Any]) -> None:
    std, runs = document.get("std"), document.get("runs", [document])
    spread = [f" ±{std[name]:.1f}" if std else "" for name in _FIGURES]
    cells = zip(_FIGURES, spread, strict=True)
    rows = [["result", *(f"{document[name]:.1f}{more}" for name, more in cells)]]
    for block in _BLOCKS:
        values = document[block]
        if values is not None and any(values[name] != document[name] for name in _FIGURES):
            rows.append([block, *(f"{values[name]:.1f}" for name in _FIGURES)])
    title = f"{document['method']} on {document['data']['name']} (%, mean over classes)"
    show_figures(title, ("ts", "tr", "H", "ZSL", "AUSUC", "H*"), rows)
    say(*_MEANINGS)
    _show_confidence(runs)
    _show_taxonomy([run["taxonomy"] for run in runs if run["taxonomy"] is not None])
    for run in runs:
        chosen = ", ".join(f"{name}={short(value)}" for name, value in run["selected"].items())
        where = "" if run["record"] is None else f"; record {run['record']}"
        picked = f"; chosen on validation classes: {chosen}" if chosen else ""
        say(f"seed {run['seed']}: {run['seconds']:.1f} s{picked}{where}")


# ---------------------------------------------------------------------- below the result
def _show_confidence(runs: list[dict[str, Any]]) -> None:
    """Show means over runs; nothing where there is no confidence."""
    from hgkt.evaluation.confidence import COLUMNS

    if runs[0]["confidence_seen"] is None:
        return
    rows = [
        [words, *_means([run[name] for run in runs], COLUMNS)] for name, words in _GROUPS.items()
    ]
    show_figures("confidence (%, log loss and sizes apart)", COLUMNS.values(), rows)
    if runs[0]["unknown"] is not None:
        first, found = runs[0]["unknown"], [run["unknown"] for run in runs]
        title = f"{first['n_unknown']} classes never added (%)"
        show_figures(title, _UNKNOWN.values(), [[first["score"], *_means(found, _UNKNOWN)]])


def _show_taxonomy(reports: list[dict[str, Any]]) -> None:
    """Show accuracy by level and back-off, means over runs; nothing where there are no groups."""
    if not reports:
        return
    n_levels = len(reports[0]["levels"])
    levels = [
        [f"level {n} of {n_levels}, {found[0]['n_nodes']} nodes", *_means(found, ["accuracy"])]
        for n, found in enumerate(zip(*(report["levels"] for report in reports), strict=True), 1)
    ]
    show_figures("taxonomy (%)", ("accuracy",), levels)
    floors = [
        [f"at least {found[0]['at_least']:g}", *_means(found, ["coverage", "risk", "classes"])]
        for found in zip(*(report["back_off"] for report in reports), strict=True)
    ]
    show_figures("back-off (%)", ("answered", "wrong", "with a class"), floors)
    steps = [report["distance"] for report in reports if report["distance"] is not None]
    if steps:
        say(f"steps from a wrong class to the right one: {np.mean(steps):.1f}")


def _means(parts: Sequence[dict[str, Any]], names: Iterable[str]) -> list[str]:
    """Return means over runs as they are shown; without an answer (None) nothing is wrong."""
    return [
        f"{np.mean([part[name] or 0.0 for part in parts]):.{2 if 'log' in name else 1}f}"
        for name in names
    ]
