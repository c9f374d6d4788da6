"""Table of data sets: what was found, compared with the paper's table."""

from __future__ import annotations

from hgkt.data.catalog import CATALOG, Facts
from hgkt.experiments.base import Cell, CellResult, Context, DataSpec
from hgkt.experiments.blocks import Block, Column, Experiment, Outcome, Plan, TableBlock, Value
from hgkt.experiments.tables.published import PUBLISHED

_COLUMNS = {
    "n_attributes": ("", "Attributes"),
    "n_seen_classes": ("Classes", "seen"),
    "n_unseen_classes": ("Classes", "unseen"),
    "n_train": ("Images", "train"),
    "n_test_seen": ("Images", "test seen"),
    "n_test_unseen": ("Images", "test unseen"),
    "n_features": ("", "Features"),
}
_MARKS = {"ok": "✓", "warning": "remark", "error": "error"}
_NOTE = (
    "The second number is what the paper's table of data sets prints. The fingerprint is "
    "SHA-256 over class names and the three parts of the split."
)


def _plan(context: Context) -> Plan:
    return {data.name: [Cell("statistics", data)] for data in context.data}


def _render(outcome: Outcome) -> list[Block]:
    context = outcome.context
    rows = [_row(outcome, data) for data in context.data]
    for name in context.missing:
        rows.append([name, *_counts(outcome, name), "not found", ""])
    missing = ", ".join(context.missing)
    note = _NOTE + (f" Not found: {missing}." if missing else "")
    heads = [Column(name, group) for group, name in _COLUMNS.values()]
    columns: list[Column | str] = ["Data set", *heads, "Checked", "Split"]
    findings: list[list[Value | str]] = [
        [data.name, _MARKS[level], Value(words=sentence, keys=outcome.keys(data.name))]
        for data in context.data
        for result in outcome.good(data.name)
        for level, sentence in result.values["findings"]
    ]
    return [
        TableBlock("table-data", "Classes and images", columns, rows, note),
        TableBlock("table-data-details", "What was looked at",
                   ["Data set", "", "What was found"], findings, closed=True),
    ]  # fmt: skip


def _row(outcome: Outcome, data: DataSpec) -> list[Value | str]:
    keys, result = outcome.keys(data.name), outcome.first(data.name)
    counts = _counts(outcome, data.name)
    if result is None:
        state = Value(keys=keys, failed=outcome.why(data.name)) if keys else "not looked at"
        return [data.name, *counts, state, ""]
    split = Value(words=result.values["data"]["fingerprint"]["split"][:12], keys=keys)
    return [data.name, *counts, Value(words=_verdict(result), keys=keys), split]


def _facts(name: str) -> Facts | None:
    """Return the counts of the paper's table; data sets it does not have give None."""
    return CATALOG.get(name.upper()) if name.upper() in PUBLISHED["hgkt"] else None


def _counts(outcome: Outcome, name: str) -> list[Value]:
    facts = _facts(name)
    return [
        outcome.value(name, ("data", key), getattr(facts, key, None), ",.0f") for key in _COLUMNS
    ]


def _verdict(result: CellResult) -> str:
    """Return ✓, or what differs from the paper's table, and how many remarks there are."""
    facts, found = _facts(result.cell.data.name), result.values["data"]
    wrong = [sentence for level, sentence in result.values["findings"] if level == "error"]
    expected = facts.counts() if facts else {}
    wrong += [
        f"{key} is {found[key]:,}, the paper has {count:,}"
        for key, count in expected.items()
        if found[key] != count
    ]
    known = facts.split_fingerprints if facts else ()
    if known and found["fingerprint"]["split"] not in known:
        wrong.append("the split is not the published one")
    n_remarks = sum(level == "warning" for level, _ in result.values["findings"])
    words = ["; ".join(wrong) if wrong else "✓"]
    if n_remarks:
        words.append(f"{n_remarks} remark{'s' if n_remarks > 1 else ''} below")
    return "; ".join(words)


EXPERIMENT = Experiment(
    "Data sets",
    "The paper evaluates on five data sets with the split of Xian et al.: classes, images and "
    "attributes as counted in what was found here, with the published counts beside them. "
    "Parameters are chosen on classes held out of the seen ones, by the published folds where "
    "there are any.",
    _plan,
    _render,
)
