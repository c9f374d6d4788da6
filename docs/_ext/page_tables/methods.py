"""Tables of docs/methods.md: every method beside the others and beside the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from hgkt.estimators import METHODS
from hgkt.estimators.methods import attribute_methods, build_method
from hgkt.evaluation import PairedDifference
from hgkt.experiments.rows import PUBLISHED
from hgkt.experiments.tables import DIFFERENCES, difference_of, difference_text
from page_tables.markdown import (
    RESULTS,
    absent,
    filled,
    mean,
    of_runs,
    result_cells,
    settings,
    table,
)
from page_tables.records import Records, Run
from page_tables.shown import (
    CHECKS,
    CLOSED_FORM,
    NETWORK,
    RELATIONS,
    SETS,
    Evaluation,
    label,
    main,
    rows,
)

PRINTED = ("CUB", "AWA1")
"""Data sets of the paper among those shown."""

_FEWEST = 3
_COMPETITORS = tuple(name for name in PUBLISHED if not name.startswith("hgkt"))


def families(records: Records) -> str:
    """Return the registered methods by family."""
    found: dict[str, list[str]] = {}
    for name, entry in METHODS.items():
        found.setdefault(entry.family, []).append(f"`{name}`")
    lines = [[family, ", ".join(names)] for family, names in found.items()]
    return table(["family", "methods"], lines, text=["methods"])


def printed(row: Evaluation, data: str) -> list[str]:
    """Return what the paper prints, ZSL, ts, tr, H; its HGKT is the network."""
    method = {NETWORK: "hgkt", "hgkt": ""}.get(row.method, row.method)
    numbers = PUBLISHED.get("" if row.preset else method, {}).get(data, (None,) * 4)
    return ["–" if number is None else f"{number:.1f}" for number in numbers]


def results(records: Records, data: str) -> str:
    """Return every method on one data set, highest H with γ first, beside what the paper prints."""
    asked = rows(data)
    found = {name: records.runs(row) for name, row in asked.items()}
    order = sorted((n for n in found if found[n]), key=lambda n: -mean(found[n], "H"))
    paper = [f"paper: {name}" for name in ("ZSL", "ts", "tr", "H")] if data in PRINTED else []
    lines = [
        [marked(name, asked[name].method), str(len(found[name])), *result_cells(found[name]),
         *(printed(asked[name], data) if paper else [])]
        for name in order
    ]  # fmt: skip
    missing = [marked(name, asked[name].method) for name in found if not found[name]]
    text = table(["method", "seeds", *RESULTS, *paper], lines) + absent(missing, len(found))
    return f"{text}\n\n† trained again whenever classes come or go ([what that takes](#costs))."


def marked(text: str, method: str) -> str:
    """Return the text of a row with a dagger, where the method trains again for a new class.

    Examples
    --------
    >>> marked("`ridge`", "ridge"), marked("`cada-vae`, as released", "cada-vae")
    ('`ridge`', '`cada-vae`, as released†')
    """
    return f"{text}†" if METHODS.load(method).retrains_on_add else text


def paired(records: Records) -> str:
    """Return hgkt minus every other method, paired over classes and seeds."""
    heads = [(data, head, metric) for data in SETS for head, metric in DIFFERENCES.items()]
    lines, missing = [], []
    ours = {data: by_seed(records.runs(main(data, CLOSED_FORM))) for data in SETS}
    theirs = {data: rows(data) for data in SETS}
    names = [name for name in theirs[SETS[0]] if name != label(CLOSED_FORM)]
    for name in names:
        runs = {data: by_seed(records.runs(theirs[data][name])) for data in SETS}
        found = [difference_of(ours[data], runs[data], metric) for data, _, metric in heads]
        if any(found):
            lines.append([name, *(_difference(one) for one in found)])
        else:
            missing.append(name)
    header = ["hgkt minus", *(f"{data} {head}" for data, head, _ in heads)]
    return table(header, lines) + absent(missing, len(names))


def by_seed(runs: Sequence[Run]) -> dict[int, Run]:
    """Return runs by their seed."""
    return {run["seed"]: run for run in runs}


def _difference(found: PairedDifference | None) -> str:
    if found is None:
        return "–"
    text = difference_text(found)
    return f"**{text}**" if found.distinct else text


def ranks(records: Records, data: str = "CUB") -> str:
    """Return the ranks of the paper's competing methods here and there, by H and by AUSUC."""
    runs = {
        name: records.runs(main(data, name)) for name in _COMPETITORS if data in PUBLISHED[name]
    }
    n_rows, missing = len(runs), [label(name) for name in runs if not runs[name]]
    runs = {name: found for name, found in runs.items() if found}
    if len(runs) < _FEWEST:
        return "Too few methods have a record yet." + absent(missing, n_rows)
    values = pd.DataFrame({
        # The paper calibrates nothing.
        "here": {name: mean(found, "H", "uncalibrated") for name, found in runs.items()},
        "there": {name: PUBLISHED[name][data][3] for name in runs},
        "area": {name: mean(found, "ausuc") for name, found in runs.items()},
    })  # fmt: skip
    order = values.rank(ascending=False, method="first").astype(int)
    lines = [
        [f"`{row.Index}`", str(row.here), str(row.there), f"{row.there - row.here:+d}",
         str(row.area)]
        for row in order.sort_values("here").itertuples()
    ]  # fmt: skip
    header = ["method", "by H, γ = 0, here", "by H in the paper", "difference", "by AUSUC here"]
    odd = (order["there"] - order["here"]).abs().idxmax()
    whole, rest = (
        found["here"].corr(found["there"], method="spearman") for found in (order, order.drop(odd))
    )
    note = (
        f"Rank correlation (Spearman) of the two orders by H: {whole:.2f}; "
        f"without `{odd}` {rest:.2f}."
    )
    return f"{table(header, lines)}\n\n{note}" + absent(missing, n_rows)


def comparison(records: Records) -> str:
    """Return HGKT, the same without one relation, its network, and two strong competitors."""
    shown = []
    for data in ("CUB", "AWA1"):
        asked = [(name, row) for name, row in RELATIONS[data] if row.attributes == "att"]
        asked += [(label(name), main(data, name)) for name in (NETWORK, "cn-zsl", "dem")]
        shown += [([data, name], f"{name} on {data}", records.runs(row)) for name, row in asked]
    return of_runs(["data", "model", *RESULTS], shown, ["model"])


def selection(records: Records) -> str:
    """Return by what each method was selected, among how many settings, and what was chosen."""
    lines, missing = [], []
    for name in attribute_methods():
        runs = {data: records.runs(main(data, name)) for data in ("CUB", "AWA1")}
        if not any(runs.values()):
            missing.append(label(name))
            continue
        first = next(found[0] for found in runs.values() if found)
        tried = numbers_tried(name)
        chosen = [_chosen(found[0]["selected"], tried) if found else "–" for found in runs.values()]
        lines.append([f"`{name}`", str(first["validation"]["n_settings"]), *chosen])
    header = ["method", "settings", "chosen on CUB", "chosen on AWA1"]
    return table(header, lines, text=header[2:]) + absent(missing, len(attribute_methods()))


def _chosen(selected: dict[str, Any], tried: Mapping[str, list[float]]) -> str:
    """Return chosen settings, with a star at those that end their grid."""
    starred = at_ends(tried, selected)
    shown = [
        settings({name: value}) + "\\*" * (name in starred) for name, value in selected.items()
    ]
    return ", ".join(shown)


def grid_ends(records: Records) -> str:
    """Return what validation gives past the end of a grid, where its last value was chosen."""
    found = records.script("grid_ends", method="")["rows"]
    records.check_versions("grid_ends.json", {row["method"]: row["mathematics"] for row in found})
    lines = []
    for row in sorted(found, key=lambda row: (SETS.index(row["data"]), row["method"])):
        chosen, *further = row["tried"]
        cells = [f"{one['value']:g}: {one['ausuc'] - chosen['ausuc']:+.2f}" for one in further]
        first = f"{chosen['value']:g}: {chosen['ausuc']:.2f}"
        lines.append([f"`{row['method']}`", row["data"], f"`{row['parameter']}`", first, *cells])
    header = ["method", "data", "parameter", "chosen", "one step further", "two steps further"]
    return table(header, lines, text=header[1:3])


def checks(records: Records) -> str:
    """Return methods with one thing changed, each below the same method as it was."""
    asked: dict[tuple[str, str], Evaluation] = {}
    for change, row in sorted(CHECKS, key=lambda check: check[1].method):
        asked.setdefault((row.method, "as above"), main("CUB", row.method))
        asked[row.method, change] = row
    shown = [
        ([f"`{method}`", change], f"`{method}` {change}", records.runs(row))
        for (method, change), row in asked.items()
    ]
    return of_runs(["method", "change", *RESULTS], shown, ["change"])


def costs(records: Records) -> str:
    """Return what each method costs, cheapest fit first; what was given up comes last."""
    found = records.script("costs", method="")["methods"]
    records.check_versions("costs.json", {n: c.get("mathematics", 1) for n, c in found.items()})
    done = {name: cost for name, cost in found.items() if "fit_cpu_s" in cost}
    columns = {
        "method": "{label}", "fit, CPU s": "{fit_cpu_s:amount}",
        "fit, wall s": "{fit_wall_s:amount}", "predict, images/s": "{images_per_cpu_s:,.0f}",
        "memory, MiB": "{peak_mib:,.0f}", "one class more, CPU ms": "{add_ms:amount}",
    }  # fmt: skip
    for name, cost in done.items():
        seconds = cost.get("add_class_cpu_s")  # not measured yet where records are older
        cost |= {"label": marked(f"`{name}`", name), "add_ms": seconds and 1000 * seconds}
    text = filled(columns, sorted(done.values(), key=lambda cost: cost["fit_cpu_s"]))
    notes = [f"- `{n}` was given up: {found[n]['skipped']}." for n in found if n not in done]
    return "\n".join([text, "", *notes]) if notes else text


# ---------------------------------------------------------------------- ends of grids
def numbers_tried(method: str) -> dict[str, list[float]]:
    """Return the numbers that selection tries of each parameter, in order; three or more.

    Parameters
    ----------
    method : str
        Registered name.
    """
    tried: dict[str, set[float]] = {}
    for stage in build_method(method).default_stages():
        for grid in stage if isinstance(stage, list) else [stage]:
            for parameter, values in grid.items():
                tried.setdefault(parameter, set()).update(v for v in values if _is_number(v))
    return {name: sorted(values) for name, values in tried.items() if len(values) > 2}


def at_ends(tried: Mapping[str, list[float]], selected: Mapping[str, Any]) -> list[str]:
    """Return the parameters whose chosen value ends its grid.

    Nothing at all (0) and the least or whole of a thing (1) end it by nature and do not count.

    Parameters
    ----------
    tried : mapping
        What `numbers_tried` found.
    selected : mapping
        What was chosen.
    """
    return [
        name
        for name, value in selected.items()
        if name in tried
        and _is_number(value)
        and value not in (0, 1)
        and value in (tried[name][0], tried[name][-1])
    ]


def beyond(numbers: list[float], chosen: float, n_steps: int = 2) -> list[float]:
    """Return the numbers that would come next, by the ratio of the last step.

    Parameters
    ----------
    numbers : list of float
        The grid, in order.
    chosen : float
        Its first or its last number.
    n_steps : int
        How many to return.
    """
    near = numbers[1] if chosen == numbers[0] else numbers[-2]
    ratio = chosen / near if near else 0.1
    further = [chosen * ratio**step for step in range(1, n_steps + 1)]
    whole = all(isinstance(number, int) for number in numbers)
    return [round(number) for number in further] if whole else further


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TABLES = {
    "families": families,
    "results on CUB": lambda records: results(records, "CUB"),
    "results on AWA1": lambda records: results(records, "AWA1"),
    "results on digits": lambda records: results(records, "digits"),
    "paired differences": paired,
    "ranks on CUB": ranks,
    "comparison": comparison,
    "selection": selection,
    "grid ends": grid_ends,
    "checks": checks,
    "costs": costs,
}
