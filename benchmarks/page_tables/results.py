"""Tables of README, docs/closed_form.md and docs/choices.md: HGKT and its parts."""

from __future__ import annotations

from dataclasses import replace

from hgkt.estimators import METHODS
from page_tables.markdown import METRICS, mean, metric_cells, settings, table
from page_tables.methods import calibrated
from page_tables.records import Records
from page_tables.shown import CHOICES, CLOSED_FORM, NETWORK, RELATIONS, SENTENCES, main

_N_COMPETITORS = 3


def summary(records: Records) -> str:
    """Return HGKT both ways beside the best competing methods by H."""
    lines = []
    for data in ("CUB", "AWA1"):
        others = {n: records.runs(main(data, n)) for n in METHODS if not n.startswith(CLOSED_FORM)}
        best = sorted((n for n in others if others[n]), key=lambda n: -mean(others[n], "H"))
        shown = [("**hgkt** (default)", main(data, CLOSED_FORM))]
        shown += [(label, row) for label, row in RELATIONS[data] if label == SENTENCES]
        shown += [(name, main(data, name)) for name in best[:_N_COMPETITORS]]
        shown.append((f"{NETWORK} (as published)", main(data, NETWORK)))
        for label, asked in shown:
            runs = records.runs(asked)
            mark = " γ" if calibrated(runs) else ""
            lines.append([data, label + mark, str(len(runs)), *metric_cells(runs)])
    return table(["data", "method", "seeds", *METRICS], lines, text=["method"])


def relations(records: Records) -> str:
    """Return the default without one of its relations, with other attributes, and CN-ZSL."""
    lines = []
    for data, rows in RELATIONS.items():
        shown = list(rows)
        if data in ("CUB", "AWA1"):
            shown.append(("`cn-zsl`", main(data, "cn-zsl")))
        for label, asked in shown:
            runs = records.runs(asked)
            lines.append([data, label, str(len(runs)), *metric_cells(runs)])
    return table(["data", "model", "seeds", *METRICS], lines, text=["model"])


def choices(records: Records) -> str:
    """Return the network with one choice changed at a time."""
    lines = []
    for data in ("CUB", "AWA1"):
        for label, row in CHOICES.items():
            runs = records.runs(replace(row, data=data))
            chosen = settings(runs[0]["selected"]) if runs else "–"
            lines.append([data, label, *metric_cells(runs), chosen])
    chosen_head = "selected (first seed)"
    header = ["data", "choice", *METRICS, chosen_head]
    return table(header, lines, text=["choice", chosen_head])


TABLES = {"summary": summary, "relations": relations, "choices": choices}
