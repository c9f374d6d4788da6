"""Table of data sets: what was found, compared with the paper's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hgkt.data.catalog import CATALOG, Facts
from hgkt.experiments.base import (
    Block,
    Cell,
    CellResult,
    Context,
    DataSpec,
    Experiment,
    Results,
    TableBlock,
    Value,
)
from hgkt.experiments.tables._results import FAILED, NOT_RUN
from hgkt.experiments.tables.published import PUBLISHED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hgkt.data import GZSLDataset

TASK = "statistics"
_COLUMNS = {
    "Attributes": "n_attributes",
    "Classes · seen": "n_seen_classes",
    "Classes · unseen": "n_unseen_classes",
    "Images · train": "n_train",
    "Images · test seen": "n_test_seen",
    "Images · test unseen": "n_test_unseen",
    "Features": "n_features",
}
_NOTE = (
    "The second number is what the paper's table of data sets prints. The fingerprint is "
    "SHA-256 over class names and the three parts of the split."
)


def describe_data(
    cell: Cell, dataset: GZSLDataset
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Count a data set and look it over: the task behind this table.

    Parameters
    ----------
    cell : Cell
        The work; it has no options.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``data`` with counts and fingerprints, ``findings`` as pairs of level and sentence.
    arrays : dict
        Empty.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> spec = DataSpec("digits", "digits")
    >>> values, _ = describe_data(Cell(TASK, spec), load_dataset("digits"))
    >>> values["data"]["n_seen_classes"], values["findings"][0]
    (8, ['ok', 'shapes, labels, splits and attributes are valid'])
    """
    from hgkt.data import check_dataset

    findings = [[finding.level, finding.sentence] for finding in check_dataset(dataset)]
    data = {**dataset.summary(), "fingerprint": dataset.fingerprint()}
    return {"data": data, "findings": findings}, {}


def plan(context: Context) -> list[Cell]:
    """Return one cell a data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [_cell(data) for data in context.data]


def render(context: Context, results: Results) -> list[Block]:
    """Make the table of counts and the list of all that was looked at.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    rows = [_row(data, results.get(_cell(data).key)) for data in context.data]
    for name in context.missing:
        facts = _facts(name)
        values = [_count(None, facts, key, ()) for key in _COLUMNS.values()]
        rows.append([name, *values, "not found", ""])
    columns = ["Data set", *_COLUMNS, "Checked", "Split"]
    missing = ", ".join(context.missing)
    note = _NOTE + (f" Not found: {missing}." if missing else "")
    table = TableBlock("table-data", "Classes and images", columns, rows, note)
    return [table, _findings(context, results)]


def _cell(data: DataSpec) -> Cell:
    return Cell(TASK, data)


def _facts(name: str) -> Facts | None:
    """Return the counts of the paper's table; data sets it does not have give None."""
    return CATALOG.get(name.upper()) if name.upper() in PUBLISHED["hgkt"] else None


def _row(data: DataSpec, result: CellResult | None) -> list[Value | str]:
    facts = _facts(data.name)
    keys = (_cell(data).key,) if result else ()
    found = result.values["data"] if result and result.ok else {}
    values: list[Value | str] = [
        _count(found.get(key), facts, key, keys, "" if not result else result.error)
        for key in _COLUMNS.values()
    ]
    if result is None:
        return [data.name, *values, "not looked at", ""]
    if not result.ok:
        return [data.name, *values, Value(FAILED, keys=keys, failed=result.error), ""]
    split = Value(found["fingerprint"]["split"][:12], keys=keys)
    return [data.name, *values, Value(_verdict(result, facts), keys=keys), split]


def _count(
    number: int | None, facts: Facts | None, key: str, keys: tuple[str, ...], error: str = ""
) -> Value:
    published = getattr(facts, key, None) if facts else None
    if number is None:
        text = FAILED if error else NOT_RUN
        return Value(text, published=published, keys=keys, failed=error)
    return Value(f"{number:,}", float(number), None, published, keys=keys)


def _verdict(result: CellResult, facts: Facts | None) -> str:
    """Return ✓, or what differs from the paper's table, and how many remarks there are."""
    found = result.values["data"]
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


def _findings(context: Context, results: Results) -> TableBlock:
    rows: list[list[Value | str]] = []
    for data in context.data:
        result = results.get(_cell(data).key)
        if result is not None and result.ok:
            marks = {"ok": "✓", "warning": "remark", "error": "error"}
            rows += [
                [data.name, marks[level], Value(sentence, keys=(_cell(data).key,))]
                for level, sentence in result.values["findings"]
            ]
    columns = ["Data set", "", "What was found"]
    return TableBlock("table-data-details", "What was looked at", columns, rows)


EXPERIMENT = Experiment(
    "Data sets",
    "The paper evaluates on five data sets with the split of Xian et al.: classes, images and "
    "attributes as counted in what was found here, with the published counts beside them. "
    "Parameters are chosen on classes held out of the seen ones, by the published folds where "
    "there are any.",
    plan,
    render,
)
