"""Tables of the paper: data sets, conventional and generalized results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from hgkt.data import GZSLDataset
from hgkt.data.catalog import CATALOG, Facts
from hgkt.evaluation.comparison import PairedDifference, paired_difference
from hgkt.evaluation.metrics import ClassAccuracies
from hgkt.experiments.blocks import (
    Block,
    Column,
    Metric,
    Outcome,
    Plan,
    TableBlock,
    Value,
    experiment,
)
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs, build_estimator
from hgkt.experiments.rows import (
    DEFAULT,
    METRICS,
    PUBLISHED,
    MethodRow,
    data_note,
    method_table,
    plan_evaluations,
    retraining_note,
    rows_of,
)
from hgkt.experiments.rows import ZSL as BY_ZSL

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier
    from hgkt.evaluation import SeenUnseenCurve

_ACCURACIES = {name: metric for name, metric in METRICS.items() if name != "ZSL"}


def _results_table(outcome: Outcome, name: str, metrics: dict[str, Metric]) -> TableBlock:
    """Return a table with a row per method and a group of columns per data set."""
    context = outcome.context
    columns = {
        Column(head, data.name) if len(metrics) > 1 else Column(data.name): (data, metric)
        for data in context.data
        for head, metric in metrics.items()
    }
    notes = f"{data_note(context)} {retraining_note(context)}".strip()
    return method_table(outcome, name, None, columns, columns, features=notes)


@experiment("Conventional zero-shot learning", plan_evaluations)
def zsl(outcome: Outcome) -> list[Block]:
    """Test images are of unseen classes, and only unseen classes are candidates. The paper reports
    the best accuracy on four of its five data sets. Every method is run here under one protocol:
    parameters are chosen by this accuracy on validation classes among the seen ones, the model is
    then fitted on all training rows, and the test rows are looked at once.
    """
    return [_results_table(outcome, "table-zsl", {"ZSL": BY_ZSL})]


@experiment("Generalized zero-shot learning", plan_evaluations)
def gzsl(outcome: Outcome) -> list[Block]:
    """Test images are of seen and unseen classes, and all classes are candidates: the paper's main
    table. HGKT appears twice: as the closed form that this package fits by default, and as the
    literal reading of the paper's network. All methods are fitted under one protocol: parameters
    chosen by AUSUC on validation classes, then the calibration γ.
    """
    return [_results_table(outcome, "table-gzsl", _ACCURACIES), *paired_table(outcome)]


DIFFERENCES = {"ΔH": "H", "ΔH, γ = 0": "H_uncalibrated", "ΔZSL": "zsl"}
"""Columns of a table of differences, and what `paired_difference` calls them."""


def accuracies_of(record: Mapping[str, Any]) -> ClassAccuracies | None:
    """Return the accuracies of classes in a run record's dict; ZSL as selected by ZSL.

    Parameters
    ----------
    record : mapping
        As `RunRecord.to_dict` gives it; one of an earlier version has none.
    """
    per_class, by_zsl = record.get("per_class"), record.get("by_zsl")
    if not per_class:
        return None
    return ClassAccuracies(**{**per_class, **({"zsl": by_zsl["per_class"]} if by_zsl else {})})


def difference_of(
    ours: Mapping[int, Mapping[str, Any]], theirs: Mapping[int, Mapping[str, Any]], metric: str
) -> PairedDifference | None:
    """Compare two methods over the seeds that both have, or return None where there are none.

    Parameters
    ----------
    ours, theirs : mapping of seed to run record
        The runs.
    metric : str
        As `paired_difference` takes it.
    """
    seeds = [seed for seed in ours if seed in theirs]
    pairs = [(accuracies_of(ours[seed]), accuracies_of(theirs[seed])) for seed in seeds]
    found = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not found:
        return None
    first, second = zip(*found, strict=True)
    return paired_difference(first, second, metric)


def difference_text(found: PairedDifference) -> str:
    """Return a difference with its interval.

    Examples
    --------
    >>> difference_text(PairedDifference("H", 5.94, 2.1, 9.96, 3, 200))
    '+5.9 (+2.1 to +10.0)'
    """
    return f"{found.difference:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def paired_table(outcome: Outcome) -> list[Block]:
    """Return the table, or nothing where the default model or all others have not run."""
    context = outcome.context
    lines: list[list[Value | str]] = []
    for row in rows_of(context):
        values = [_value(outcome, row, d, m) for d in context.data for m in DIFFERENCES.values()]
        if row != DEFAULT and any(value.keys for value in values):
            lines.append([row.label, *values])
    if not lines:
        return []
    heads = [Column(head, data.name) for data in context.data for head in DIFFERENCES]
    return [TableBlock.of("table-gzsl-paired", None, ["Method", *heads], lines)]


def _value(outcome: Outcome, row: MethodRow, data: DataSpec, metric: str) -> Value:
    slots = [(data.name, DEFAULT.name), (data.name, row.name)]
    ours, theirs = map(outcome.by_seed, slots)
    found = difference_of(ours, theirs, metric)
    if found is None:
        return Value(words="–")
    return Value(words=difference_text(found), best=found.distinct, keys=outcome.keys(*slots))


_COLUMNS = {
    "n_attributes": ("", "Attributes"),
    "n_seen_classes": ("Classes", "seen"),
    "n_unseen_classes": ("Classes", "unseen"),
    "n_train": ("Images", "train"),
    "n_test_seen": ("Images", "test seen"),
    "n_test_unseen": ("Images", "test unseen"),
    "n_features": ("", "Features"),
}


def _plan(context: Context) -> Plan:
    return {data.name: [Cell("statistics", data)] for data in context.data}


@experiment("Data sets", _plan)
def data_sets(outcome: Outcome) -> list[Block]:
    """The paper evaluates on five data sets with the split of Xian et al.: classes, images and
    attributes as counted in what was found here, with the published counts beside them. Parameters
    are chosen on classes held out of the seen ones, by the published folds where there are any.
    """
    context = outcome.context
    rows = [_row(outcome, data) for data in context.data]
    for name in context.missing:
        rows.append([name, *_counts(outcome, name), "not found", ""])
    missing = f"Not found: {', '.join(context.missing)}." if context.missing else ""
    heads = [Column(name, group) for group, name in _COLUMNS.values()]
    columns: list[Column | str] = ["Data set", *heads, "Checked", "Split"]
    return [TableBlock.of("table-data", None, columns, rows, fill={"missing": missing})]


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
    splits = facts.split_fingerprints if facts else ()
    if splits and found["fingerprint"]["split"] not in splits:
        wrong.append("the split is not the published one")
    n_remarks = sum(level == "warning" for level, _ in result.values["findings"])
    remarks = f"; {n_remarks} remark{'s' if n_remarks > 1 else ''}" if n_remarks else ""
    return ("; ".join(wrong) or "✓") + remarks


def evaluate_cell(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Evaluate the cell's method; whatever is chosen is chosen on validation classes.

    Parameters
    ----------
    cell : Cell
        ``options`` are those of `hgkt.evaluation.evaluate` (``select``, by default True,
        ``calibrate``, ``n_folds``, ``metric``, ``stages``).
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        The run record, as `RunRecord.to_dict` gives it, with ``by_zsl``: what the setting that
        is best by ZSL reaches, so that the table of conventional results needs no second search.
    arrays : dict of ndarray
        ``gammas``, ``seen`` and ``unseen`` of the seen–unseen curve on the test rows; accuracies
        are fractions.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), "eszsl", options={"select": False})
    >>> values, arrays = evaluate_cell(cell, load_dataset("digits"))
    >>> values["method"], sorted(arrays)
    ('eszsl', ['gammas', 'seen', 'unseen'])
    """
    from hgkt.evaluation import evaluate

    options = {"select": True, **cell.options}
    arrays: dict[str, NDArray[Any]] = {}

    def keep(model: GZSLClassifier, curve: SeenUnseenCurve) -> None:
        arrays.update(gammas=curve.gammas, seen=curve.seen, unseen=curve.unseen)

    record = evaluate(
        build_estimator(cell, dataset),
        dataset,
        **options,
        random_state=cell.seed,
        on_test=keep,
        by_zsl=True,
    )
    return record.to_dict(), arrays


def describe_data(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Count a data set and look it over.

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
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("statistics", DataSpec("digits", "digits"))
    >>> values, _ = describe_data(cell, load_dataset("digits"))
    >>> values["data"]["n_seen_classes"], values["findings"][0]
    (8, ['ok', 'shapes, labels, splits and attributes are valid'])
    """
    from hgkt.data import check_dataset

    findings = [[finding.level, finding.sentence] for finding in check_dataset(dataset)]
    data = {**dataset.summary(), "fingerprint": dataset.fingerprint()}
    return {"data": data, "findings": findings}, {}
