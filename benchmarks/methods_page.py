"""Write the tables of docs/methods.md from the records; the prose around them stays.

python benchmarks/methods_page.py [--docs docs] [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from hgkt.baselines.published import PUBLISHED
from hgkt.estimators import METHODS

Record = dict[str, Any]
Groups = dict[tuple[str, str], list[Record]]

NO_INTRA, NO_INTER = "hgkt, no intra-class relation", "hgkt, no inter-class relation"
PAPER = "hgkt, preset paper"
_NAMES = {"H": "H", "ausuc": "AUSUC", "zsl": "ZSL"}
_COMPETITORS = tuple(name for name in PUBLISHED if name != "hgkt")


def read_records(path: Path) -> Groups:
    """Return the records of a JSON-lines file by (data set, label); the last of a key counts."""
    by_key = {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}
    groups: Groups = {}
    for row in by_key.values():
        if "metrics" in row:
            groups.setdefault((row["data_name"], row["label"]), []).append(row)
    for rows in groups.values():
        rows.sort(key=lambda row: row["seed"])
    return groups


def mean(rows: Sequence[Record], name: str, part: str = "metrics") -> float:
    """Return the mean of a metric over seeds."""
    return statistics.fmean(row[part][name] for row in rows)


def cell(rows: Sequence[Record], name: str, part: str = "metrics") -> str:
    """Return mean ± standard deviation over seeds; a single seed has no deviation."""
    if not all(row[part] for row in rows):
        return "–"
    spread = ""
    if len(rows) > 1:
        spread = f" ± {statistics.stdev(row[part][name] for row in rows):.1f}"
    return f"{mean(rows, name, part):.1f}{spread}"


def table(header: Sequence[str], lines: Iterable[Sequence[str]], text: Collection[str] = ()) -> str:
    """Return a Markdown table: text in the first column and those named, else numbers."""
    marks = ["---" if i == 0 or name in text else "--:" for i, name in enumerate(header)]
    rows = [header, marks, *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _printed(method: str, data: str) -> list[str]:
    """Return what the paper prints: ts, tr, H, ZSL."""
    zsl, ts, tr, h = PUBLISHED.get(method, {}).get(data, (None, None, None, None))
    return ["–" if value is None else f"{value:.1f}" for value in (ts, tr, h, zsl)]


def results_table(groups: Groups, data: str) -> str:
    """Return every method on one data set, highest H first, beside what the paper prints."""
    found = {name: groups[data, name] for name in METHODS if (data, name) in groups}
    order = sorted(found, key=lambda name: -mean(found[name], "H"))
    header = ["method", "seeds", "ts", "tr", "H", "ZSL", "AUSUC", "H with γ",
              "paper: ts", "tr", "H", "ZSL"]  # fmt: skip
    lines = []
    for name in order:
        rows = found[name]
        ours = [cell(rows, metric) for metric in ("ts", "tr", "H", "zsl", "ausuc")]
        lines.append([f"`{name}`", str(len(rows)), *ours, cell(rows, "H", "calibrated"),
                      *_printed(name, data)])  # fmt: skip
    text = table(header, lines)
    missing = [f"`{name}`" for name in METHODS if name not in found]
    return f"{text}\n\nNot run: {', '.join(missing)}." if missing else text


def _ranks(values: dict[str, float]) -> dict[str, int]:
    order = sorted(values, key=lambda name: -values[name])
    return {name: position for position, name in enumerate(order, start=1)}


def _correlation(first: dict[str, int], second: dict[str, int]) -> float:
    """Return Spearman's rank correlation of two rankings of the same names."""
    n = len(first)
    return 1 - 6 * sum((first[name] - second[name]) ** 2 for name in first) / (n * (n * n - 1))


def ranks_table(groups: Groups, data: str) -> str:
    """Return the ranks of the paper's competing methods here and there, by H and by AUSUC."""
    names = [name for name in _COMPETITORS if (data, name) in groups and data in PUBLISHED[name]]
    ours = {name: mean(groups[data, name], "H") for name in names}
    printed = {name: PUBLISHED[name][data][3] for name in names}
    here, there = _ranks(ours), _ranks(printed)
    area = _ranks({name: mean(groups[data, name], "ausuc") for name in names})
    header = ["method", "by H here", "by H in the paper", "difference", "by AUSUC here"]
    lines = [
        [f"`{name}`", str(here[name]), str(there[name]), f"{there[name] - here[name]:+d}",
         str(area[name])]
        for name in sorted(names, key=here.__getitem__)
    ]  # fmt: skip
    odd = max(names, key=lambda name: abs(there[name] - here[name]))
    rest = [_ranks({k: v for k, v in values.items() if k != odd}) for values in (ours, printed)]
    note = (
        f"Rank correlation (Spearman) of the two orders by H: {_correlation(here, there):.2f}; "
        f"without `{odd}` {_correlation(*rest):.2f}."
    )
    return f"{table(header, lines)}\n\n{note}"


def comparison_table(methods: Groups, choices: Groups) -> str:
    """Return HGKT, the same without one relation, its network, and CN-ZSL."""
    header = ["data", "model", "ts", "tr", "H", "H without γ", "H with γ", "ZSL", "AUSUC"]
    lines = []
    for data in ("CUB", "AWA1"):
        wanted = [(label, methods.get((data, label))) for label in ("hgkt", NO_INTER, NO_INTRA)]
        wanted.append((PAPER, choices.get((data, "paper preset"))))
        wanted += [(label, methods.get((data, label))) for label in ("cn-zsl", "dem")]
        for label, rows in wanted:
            if not rows:
                continue
            cells = [cell(rows, "ts"), cell(rows, "tr"), cell(rows, "H"),
                     cell(rows, "H", "uncalibrated"), cell(rows, "H", "calibrated"),
                     cell(rows, "zsl"), cell(rows, "ausuc")]  # fmt: skip
            lines.append([data, label, *cells])
    return table(header, lines, text=["model"])


def _value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _chosen(rows: Sequence[Record] | None) -> str:
    if not rows:
        return "–"
    return ", ".join(f"{name}={_value(value)}" for name, value in rows[0]["selected"].items())


def selection_table(groups: Groups) -> str:
    """Return by what each method was selected, among how many settings, and what was chosen."""
    lines = []
    for name in METHODS:
        rows = groups.get(("CUB", name))
        if not rows:
            continue
        validation = rows[0]["validation"]
        lines.append([f"`{name}`", _NAMES[validation["metric"]], str(validation["n_settings"]),
                      _chosen(rows), _chosen(groups.get(("AWA1", name)))])  # fmt: skip
    header = ["method", "selected by", "settings", "chosen on CUB", "chosen on AWA1"]
    return table(header, lines, text=[name for name in header if name != "settings"])


def checks_table(path: Path, groups: Groups) -> str:
    """Return methods with one thing changed, each below the same method (first seed) as it was."""
    lines: list[list[str]] = []
    shown = set()
    for row in map(json.loads, path.read_text().splitlines()):
        name = row["label"]
        before = (name, "as above", groups["CUB", name][0]) if name not in shown else None
        shown.add(name)
        for label, change, record in filter(None, [before, (name, row["change"], row)]):
            cells = [cell([record], metric) for metric in ("ts", "tr", "H", "zsl", "ausuc")]
            cells.insert(3, cell([record], "H", "calibrated"))
            lines.append([f"`{label}`", change, *cells])
    header = ["method", "change", "ts", "tr", "H", "H with γ", "ZSL", "AUSUC"]
    lines.sort(key=lambda line: line[0])
    return table(header, lines, text=["change"])


def families_table() -> str:
    """Return the registered methods by family."""
    families: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        families.setdefault(entry.family, []).append(f"`{name}`")
    rows = ["| family | methods |", "| --- | --- |"]
    return "\n".join(
        [*rows, *(f"| {key} | {', '.join(names)} |" for key, names in families.items())]
    )


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def costs_table(document: Record) -> str:
    """Return what each method costs, cheapest fit first; what was given up comes last."""
    costs = document["methods"]
    done = sorted(
        (n for n in costs if "fit_cpu_s" in costs[n]), key=lambda n: costs[n]["fit_cpu_s"]
    )
    lines = [
        [name if "," in name else f"`{name}`", _number(costs[name]["fit_cpu_s"]),
         _number(costs[name]["fit_wall_s"]), f"{costs[name]['images_per_cpu_s']:,.0f}",
         f"{costs[name]['peak_mib']:,.0f}"]
        for name in done
    ]  # fmt: skip
    text = table(["method", "fit, CPU s", "fit, wall s", "predict, images/s", "memory, MiB"], lines)
    notes = [
        f"- {name} was given up: {costs[name]['skipped']}." for name in costs if name not in done
    ]
    return "\n".join([text, "", *notes]) if notes else text


def tables(docs: Path) -> dict[str, Callable[[], str]]:
    """Return what makes the text between each pair of markers."""
    methods = read_records(docs / "results" / "methods.jsonl")
    choices = read_records(docs / "results" / "choices.jsonl")
    costs = json.loads((docs / "results" / "costs.json").read_text())
    return {
        "families": families_table,
        "results on CUB": lambda: results_table(methods, "CUB"),
        "results on AWA1": lambda: results_table(methods, "AWA1"),
        "ranks on CUB": lambda: ranks_table(methods, "CUB"),
        "comparison": lambda: comparison_table(methods, choices),
        "selection": lambda: selection_table(methods),
        "checks": lambda: checks_table(docs / "results" / "methods_checks.jsonl", methods),
        "costs": lambda: costs_table(costs),
    }


def fill(page: str, docs: Path) -> str:
    """Return the page with every table made anew; a marker that is missing is an error."""
    for name, make in tables(docs).items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        parts = re.split(re.escape(begin) + r".*?" + re.escape(end), page, flags=re.DOTALL)
        n_found = len(parts) - 1
        if n_found != 1:
            raise SystemExit(f"expected one pair of markers {begin} and {end}; found {n_found}")
        page = f"{parts[0]}{begin}\n{make()}\n{end}{parts[1]}"
    return page


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the page, or say with --check whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path(__file__).resolve().parents[1] / "docs")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it differs")
    args = parser.parse_args(arguments)
    path = args.docs / "methods.md"
    page = path.read_text(encoding="utf-8")
    new = fill(page, args.docs)
    if args.check and new != page:
        sys.exit(f"{path.name} is behind the records; run python benchmarks/methods_page.py")
    if not args.check:
        path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
