"""Where a number comes from: what the panel of the page and the record files say of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from hgkt.estimators.methods import METHODS
from hgkt.experiments.plan import Cell, CellResult, Results

Group = tuple[str, tuple[tuple[str, str], ...]]
"""A heading and its lines of name and text."""

_MAX_ITEMS = 12
_RECORD = ("metrics", "uncalibrated", "calibrated", "selected", "taken", "validation",
           "parameters", "data", "timings", "versions", "machine", "format", "method", "seed",
           "calibration", "per_class", "by_zsl", "taxonomy")  # fmt: skip
_BESIDE = (("H at γ = 0", "uncalibrated", "H"), ("H at the γ chosen", "calibrated", "H"),
           ("ZSL, selected by ZSL", "by_zsl", "zsl"))  # fmt: skip
_NAMES = {"zsl": "ZSL", "ausuc": "AUSUC", "H_star": "H* (oracle)", "n_settings": "settings tried",
          "n_folds": "validation folds", "metric": "chosen by", "score": "validation score, %",
          "n_cpus": "processors"}  # fmt: skip


def record_document(result: CellResult) -> dict[str, Any]:
    """Return what ``records/KEY.json`` holds; where the data lies on this machine is left out.

    Parameters
    ----------
    result : CellResult
        A result.

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "/somewhere"), method="eszsl")
    >>> document = record_document(CellResult(cell, {"H": 40.0}))
    >>> document["values"], "location" in document["cell"]["data"]
    ({'H': 40.0}, False)
    """
    cell = asdict(result.cell)
    del cell["data"]["location"]
    return {
        "format": "hgkt-report-record-1",
        "key": result.cell.key,
        "cell": cell,
        "ok": result.ok,
        "error": result.error,
        "seconds": result.seconds,
        "values": result.values,
        "versions": result.versions or result.values.get("versions") or {},
        "machine": result.machine or result.values.get("machine") or {},
    }


def embedded_records(results: Results, keys: Iterable[str]) -> dict[str, list[Any]]:
    """Return what the page carries as JSON: groups that repeat are stored once.

    Parameters
    ----------
    results : mapping
        Results by key.
    keys : iterable of str
        Those the page speaks of.

    Returns
    -------
    dict
        ``{"groups": [(heading, ((name, text), …)), …], "records": [(key, title, error, [group
        numbers]), …]}``.
    """
    pool: dict[Group, int] = {}
    records = []
    for key in keys:
        result = results[key]
        numbers = [pool.setdefault(group, len(pool)) for group in describe(result)]
        records.append((key, title_of(result.cell), result.error, numbers))
    return {"groups": list(pool), "records": records}


def describe(result: CellResult) -> tuple[Group, ...]:
    """Put a result, failed or not, into words: headed lists of names and texts.

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), method="eszsl", seed=2)
    >>> [heading for heading, lines in describe(CellResult(cell, error="boom"))]
    ['Configuration', 'Data']
    """
    values, cell = result.values, result.cell
    validation = {k: v for k, v in (values.get("validation") or {}).items() if k != "calibration"}
    data = values.get("data") or {}
    times = {**(values.get("timings") or {}), "cell": result.seconds}
    groups = {
        "Result": _lines(_results(values)),
        "Chosen on validation classes": (
            *_lines(values.get("selected") or values.get("taken")), *_lines(validation)
        ),
        "Configuration": _lines(_configuration(cell)),
        "Data": _lines({
            **{k: v for k, v in asdict(cell.data).items() if v and k != "location"},
            **{f"SHA-256 of {name}": v for name, v in (data.get("fingerprint") or {}).items()},
            **{name: count for name, count in data.items() if name.startswith("n_")},
        }),
        "Run time": tuple((name, _seconds(item)) for name, item in times.items() if item),
        "Versions": _lines(result.versions or values.get("versions")),
        "Machine": _lines(result.machine or values.get("machine")),
        "All parameters": _lines(values.get("parameters")),
    }  # fmt: skip
    return tuple((heading, lines) for heading, lines in groups.items() if lines)


def title_of(cell: Cell) -> str:
    """Return what heads a cell in the panel.

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> title_of(Cell("evaluate", DataSpec("digits", "digits"), method="eszsl", seed=2))
    'eszsl · digits · seed 2'
    """
    method = f"{cell.method}, preset {cell.preset}" if cell.preset else cell.method
    what = method or cell.task.rpartition(":")[2]
    return " · ".join([what, cell.data.name, f"seed {cell.seed}"])


def _results(values: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(values.get("metrics") or {})
    if "calibration" in values:
        found["γ in force"] = values["calibration"]
    for words, part, name in _BESIDE:
        if isinstance(values.get(part), dict):
            found[words] = values[part].get(name)
    return found | {name: item for name, item in values.items() if name not in _RECORD}


def _configuration(cell: Cell) -> dict[str, Any]:
    reference = METHODS[cell.method].reference if cell.method in METHODS else ""
    named = {"task": cell.task, "method": cell.method, "reference": reference}
    return {
        **{name: text for name, text in (named | {"preset": cell.preset}).items() if text},
        **{f"set by hand: {name}": text_of(item) for name, item in cell.params.items()},
        **{f"option: {name}": text_of(item) for name, item in cell.options.items()},
        **({"parameters taken from cell": ", ".join(cell.needs)} if cell.needs else {}),
        "seed": cell.seed,
        "cell": cell.key,
    }


def _seconds(seconds: Any) -> str:
    return f"{seconds:.3g} s" if isinstance(seconds, int | float) else text_of(seconds)


def _lines(items: Any, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Return a dict as lines; dicts inside become names with dots."""
    lines: list[tuple[str, str]] = []
    for name, item in (items or {}).items() if isinstance(items, dict) else ():
        full = f"{prefix}{_NAMES.get(name, name)}"
        if isinstance(item, dict):
            lines += _lines(item, f"{full}.")
        else:
            lines.append((full, text_of(item)))
    return tuple(lines)


def text_of(item: Any) -> str:
    """Return a JSON value as text: numbers with six digits, long lists by their length.

    Parameters
    ----------
    item : JSON value
        Of parameters, options or results.

    Examples
    --------
    >>> text_of(0.123456789), text_of([1, 2]), text_of(list(range(100))), text_of(None)
    ('0.123457', '[1, 2]', '100 values', 'none')
    """
    if item is None or item != item:  # as JSON has it, NaN is nothing
        return "none"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, float):
        return f"{item:.6g}"
    if isinstance(item, list | tuple):
        if len(item) > _MAX_ITEMS:
            return f"{len(item)} values"
        return "[" + ", ".join(text_of(part) for part in item) + "]"
    if isinstance(item, dict):
        return ", ".join(f"{name} = {text_of(part)}" for name, part in item.items())
    return str(item)
