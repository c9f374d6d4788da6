"""Tables of README, docs/closed_form.md and docs/choices.md: HGKT and its parts."""

from __future__ import annotations

from collections.abc import Sequence

from hgkt.estimators import METHODS
from page_tables.markdown import RESULTS, cell, mean, of_runs, result_cells
from page_tables.records import Records, Run
from page_tables.shown import (
    BY_H,
    CHOICES,
    CLOSED_FORM,
    NETWORK,
    RELATIONS,
    Evaluation,
    choice,
    main,
    selected_by_h,
)


def summary(records: Records) -> str:
    """Return HGKT and the competing method with the highest H with γ, on each data set."""
    shown: list[tuple[str, str, Evaluation]] = []
    for data in ("CUB", "AWA1"):
        others = [name for name in METHODS if name not in (CLOSED_FORM, NETWORK)]
        found = {name: records.runs(main(data, name)) for name in others}
        best = sorted((n for n in found if found[n]), key=lambda n: -mean(found[n], "H"))
        names = [("**hgkt** (default)", CLOSED_FORM), *((name, name) for name in best[:1])]
        shown += [(data, shown_as, main(data, name)) for shown_as, name in names]
    return _table(records, shown, "method")


def relations(records: Records) -> str:
    """Return the default without one of its relations, with other attributes, and CN-ZSL."""
    shown = []
    for data, rows in RELATIONS.items():
        shown += [(data, name, row) for name, row in rows]
        if data in ("CUB", "AWA1"):
            shown.append((data, "`cn-zsl`", main(data, "cn-zsl")))
    return _table(records, shown, "model")


def _table(records: Records, shown: Sequence[tuple[str, str, Evaluation]], head: str) -> str:
    found = [([data, name], f"{name} on {data}", records.runs(row)) for data, name, row in shown]
    return of_runs(
        ["data", head, "seeds", *RESULTS], found, [head],
        lambda runs: [str(len(runs)), *result_cells(runs)],
    )  # fmt: skip


def choices(records: Records) -> str:
    """Return the network with one choice changed at a time."""
    shown = [(data, name, choice(name, data)) for data in ("CUB", "AWA1") for name in CHOICES]
    return _table(records, shown, "choice")


def by_h(records: Records) -> str:
    """Return the network selected by H without calibration, the measure of the paper's tables."""
    shown = []
    for data in ("CUB", "AWA1"):
        rows = {("AUSUC", "both relations"): main(data, NETWORK)}
        rows |= {("H, γ = 0", name): selected_by_h(name, data) for name in BY_H}
        for (metric, name), row in rows.items():
            runs = records.runs(row)
            validated = "–" if metric == "AUSUC" else cell(runs, "score", "validation")
            missing = f"{name} on {data}, selected by {metric}"
            shown.append(([data, metric, name, validated], missing, runs))
    words = ["selected by", "model"]
    header = ["data", *words, "H, validation classes", "H, γ = 0", "ts", "tr", "AUSUC"]
    return of_runs(header, shown, words, _uncalibrated)


def _uncalibrated(runs: Sequence[Run]) -> list[str]:
    return [*(cell(runs, name, "uncalibrated") for name in ("H", "ts", "tr")), cell(runs, "ausuc")]


TABLES = {"summary": summary, "relations": relations, "choices": choices, "by H": by_h}
