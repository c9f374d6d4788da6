"""Tables of README, docs/closed_form.md and docs/choices.md: HGKT and its parts."""

from __future__ import annotations

from collections.abc import Sequence

from hgkt.estimators import METHODS
from page_tables.markdown import RESULTS, absent, mean, result_cells, table
from page_tables.records import Records
from page_tables.shown import (
    CHOICES,
    CLOSED_FORM,
    NETWORK,
    RELATIONS,
    SENTENCES,
    Evaluation,
    choice,
    label,
    main,
)

_N_COMPETITORS = 3
_ALWAYS = (NETWORK, "exem")


def summary(records: Records) -> str:
    """Return HGKT both ways and EXEM beside the best competing methods by H with γ."""
    shown: list[tuple[str, str, Evaluation]] = []
    for data in ("CUB", "AWA1"):
        own = [("**hgkt** (default)", main(data, CLOSED_FORM))]
        own += [(name, row) for name, row in RELATIONS[data] if name == SENTENCES]
        own += [(label(name).replace("`", ""), main(data, name)) for name in _ALWAYS
                if name in METHODS]  # fmt: skip
        others = [name for name in METHODS if name not in (CLOSED_FORM, *_ALWAYS)]
        found = {name: records.runs(main(data, name)) for name in others}
        best = sorted((n for n in found if found[n]), key=lambda n: -mean(found[n], "H"))
        own += [(name, main(data, name)) for name in best[:_N_COMPETITORS]]
        shown += [(data, name, row) for name, row in own]
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
    found = [(data, name, records.runs(row)) for data, name, row in shown]
    there = [(data, name, runs) for data, name, runs in found if runs]
    lines = [[data, name, str(len(runs)), *result_cells(runs)] for data, name, runs in there]
    missing = [f"{name} on {data}" for data, name, runs in found if not runs]
    text = table(["data", head, "seeds", *RESULTS], lines, text=[head])
    return text + absent(missing, len(shown))


def choices(records: Records) -> str:
    """Return the network with one choice changed at a time."""
    lines, missing = [], []
    for data in ("CUB", "AWA1"):
        for name in CHOICES:
            runs = records.runs(choice(name, data))
            if runs:
                lines.append([data, name, str(len(runs)), *result_cells(runs)])
            else:
                missing.append(f"{name} on {data}")
    header = ["data", "choice", "seeds", *RESULTS]
    return table(header, lines, text=["choice"]) + absent(missing, 2 * len(CHOICES))


TABLES = {"summary": summary, "relations": relations, "choices": choices}
