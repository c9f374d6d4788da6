"""Tables of docs/methods.md: every method beside the others and beside the paper."""

from __future__ import annotations

from collections.abc import Sequence

from hgkt.estimators import METHODS
from hgkt.experiments.tables.published import PUBLISHED
from page_tables.markdown import amount, cell, mean, metric_cells, settings, table
from page_tables.records import Records, Run
from page_tables.shown import CHECKS, NETWORK, RELATIONS, Evaluation, main

_SELECTED_BY = {"H": "H", "ausuc": "AUSUC", "zsl": "ZSL"}
_COMPETITORS = tuple(name for name in PUBLISHED if not name.startswith("hgkt"))


def families(records: Records) -> str:
    """Return the registered methods by family."""
    found: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        found.setdefault(entry.family, []).append(f"`{name}`")
    lines = [[family, ", ".join(names)] for family, names in found.items()]
    return table(["family", "methods"], lines, text=["methods"])


def printed(method: str, data: str) -> list[str]:
    """Return what the paper prints, ZSL, ts, tr, H; its HGKT is the network."""
    names = {NETWORK: "hgkt", "hgkt": ""}
    numbers = PUBLISHED.get(names.get(method, method), {}).get(data, (None,) * 4)
    return ["–" if number is None else f"{number:.1f}" for number in numbers]


def results(records: Records, data: str) -> str:
    """Return every method on one data set, highest H first, beside what the paper prints."""
    found = {name: records.runs(main(data, name)) for name in METHODS}
    order = sorted((n for n in found if found[n]), key=lambda n: -mean(found[n], "H"))
    header = ["method", "seeds", "ZSL", "ts", "tr", "H", "AUSUC", "H without γ", "H with γ",
              "paper: ZSL", "ts", "tr", "H"]  # fmt: skip
    lines = []
    for name in order:
        runs = found[name]
        chosen = [cell(runs, "H", "uncalibrated"), cell(runs, "H", "calibrated")]
        label = f"`{name}` γ" if calibrated(runs) else f"`{name}`"
        own = [label, str(len(runs)), *metric_cells(runs), *chosen]
        lines.append([*own, *printed(name, data)])
    missing = [f"`{name}`" for name in METHODS if not found[name]]
    text = table(header, lines)
    return f"{text}\n\nNot run: {', '.join(missing)}." if missing else text


def calibrated(runs: Sequence[Run]) -> bool:
    """Tell whether the figures of a method are with γ."""
    return any(run["calibration"] for run in runs)


def ranks(records: Records, data: str = "CUB") -> str:
    """Return the ranks of the paper's competing methods here and there, by H and by AUSUC."""
    runs = {
        name: records.runs(main(data, name)) for name in _COMPETITORS if data in PUBLISHED[name]
    }
    runs = {name: found for name, found in runs.items() if found}
    ours = {name: mean(found, "H") for name, found in runs.items()}
    theirs = {name: PUBLISHED[name][data][3] for name in runs}
    here, there = _ranks(ours), _ranks(theirs)
    area = _ranks({name: mean(found, "ausuc") for name, found in runs.items()})
    header = ["method", "by H here", "by H in the paper", "difference", "by AUSUC here"]
    lines = [
        [f"`{name}`", str(here[name]), str(there[name]), f"{there[name] - here[name]:+d}",
         str(area[name])]
        for name in sorted(runs, key=here.__getitem__)
    ]  # fmt: skip
    odd = max(runs, key=lambda name: abs(there[name] - here[name]))
    rest = [_ranks({k: v for k, v in values.items() if k != odd}) for values in (ours, theirs)]
    note = (
        f"Rank correlation (Spearman) of the two orders by H: {_correlation(here, there):.2f}; "
        f"without `{odd}` {_correlation(*rest):.2f}."
    )
    return f"{table(header, lines)}\n\n{note}"


def _ranks(values: dict[str, float]) -> dict[str, int]:
    order = sorted(values, key=lambda name: -values[name])
    return {name: position for position, name in enumerate(order, start=1)}


def _correlation(first: dict[str, int], second: dict[str, int]) -> float:
    """Return Spearman's rank correlation of two rankings of the same names."""
    n = len(first)
    return 1 - 6 * sum((first[name] - second[name]) ** 2 for name in first) / (n * (n * n - 1))


def comparison(records: Records) -> str:
    """Return HGKT, the same without one relation, its network, and two strong competitors."""
    header = ["data", "model", "ZSL", "ts", "tr", "H", "AUSUC", "H without γ", "H with γ"]
    lines = []
    for data in ("CUB", "AWA1"):
        shown = [(label, row) for label, row in RELATIONS[data] if row.attributes == "att"]
        shown += [(f"`{name}`", main(data, name)) for name in (NETWORK, "cn-zsl", "dem")]
        for label, asked in shown:
            runs = records.runs(asked)
            both = [cell(runs, "H", part) for part in ("uncalibrated", "calibrated")]
            lines.append([data, label, *metric_cells(runs), *both])
    return table(header, lines, text=["model"])


def selection(records: Records) -> str:
    """Return by what each method was selected, among how many settings, and what was chosen."""
    lines = []
    for name in METHODS:
        runs = {data: records.runs(main(data, name)) for data in ("CUB", "AWA1")}
        if runs["CUB"]:
            how = runs["CUB"][0]["validation"]
            chosen = [settings(found[0]["selected"]) if found else "–" for found in runs.values()]
            by = _SELECTED_BY[how["metric"]]
            lines.append([f"`{name}`", by, str(how["n_settings"]), *chosen])
    header = ["method", "selected by", "settings", "chosen on CUB", "chosen on AWA1"]
    return table(header, lines, text=[name for name in header if name != "settings"])


def checks(records: Records) -> str:
    """Return methods with one thing changed, each below the same method (first seed) as it was."""
    rows: list[tuple[str, str, Evaluation]] = []
    for change, asked in sorted(CHECKS, key=lambda check: check[1].method):
        if asked.method not in [method for method, _, _ in rows]:
            rows.append((asked.method, "as above", main("CUB", asked.method)))
        rows.append((asked.method, change, asked))
    lines = []
    for method, change, asked in rows:
        first = records.runs(asked)[:1]
        lines.append([f"`{method}`", change, *metric_cells(first), cell(first, "H", "calibrated")])
    header = ["method", "change", "ZSL", "ts", "tr", "H", "AUSUC", "H with γ"]
    return table(header, lines, text=["change"])


def costs(records: Records) -> str:
    """Return what each method costs, cheapest fit first; what was given up comes last."""
    found = records.script("costs", method="")["methods"]
    records.check_versions("costs.json", {n: c.get("mathematics", 1) for n, c in found.items()})
    done = {name: cost for name, cost in found.items() if "fit_cpu_s" in cost}
    lines = [
        [f"`{name}`", amount(cost["fit_cpu_s"]), amount(cost["fit_wall_s"]),
         f"{cost['images_per_cpu_s']:,.0f}", f"{cost['peak_mib']:,.0f}"]
        for name, cost in sorted(done.items(), key=lambda item: item[1]["fit_cpu_s"])
    ]  # fmt: skip
    text = table(["method", "fit, CPU s", "fit, wall s", "predict, images/s", "memory, MiB"], lines)
    notes = [f"- `{n}` was given up: {found[n]['skipped']}." for n in found if n not in done]
    return "\n".join([text, "", *notes]) if notes else text


TABLES = {
    "families": families,
    "results on CUB": lambda records: results(records, "CUB"),
    "results on AWA1": lambda records: results(records, "AWA1"),
    "ranks on CUB": ranks,
    "comparison": comparison,
    "selection": selection,
    "checks": checks,
    "costs": costs,
}
