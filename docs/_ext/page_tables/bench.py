"""Tables of what things cost: from what `benchmarks/run.py NAME --json` printed, and from cells."""

from __future__ import annotations

from typing import Any

from page_tables.markdown import amount, count, fill, filled, measured_on, table, with_place
from page_tables.records import Records, Run
from page_tables.shown import CLOSED_FORM, NETWORK, main

_EVALUATED = [("CUB", CLOSED_FORM), ("AWA1", CLOSED_FORM), ("CUB", NETWORK)]
_LARGE = [
    ("AwA2", 37_322, 50), ("ImageNet-1k", 1_281_167, 1_000), ("ImageNet-21k", 14_197_122, 21_841),
    ("a hundred million", 100_000_000, 21_000),
]  # fmt: skip
# Of `hgkt.gather`: three folds, at most 32 leaves, eight files to one, rows of a shard, a sample.
_N_GROUPS, _N_WORKERS, _FAN_IN, _SHARD_ROWS, _SAMPLE = 4, 32, 8, 65_536, 20_000


def representatives(records: Records) -> str:
    """Return the exact selection of representatives beside POT."""
    found = records.bench("representatives")
    lines = [
        ["exact", f"**{amount(found['cpu_seconds'])}**", "1", "0", "0"],
        ["one sort of the same numbers", amount(found["sort_cpu_seconds"]),
         amount(1 / found["times_sort"]), "", ""],
    ]  # fmt: skip
    for run in found["pot"]:
        name = fill("POT `{solver}`, reg {reg:g}, {iterations} iterations", run)
        seconds, times = (amount(run[key]) for key in ("cpu_seconds_extrapolated", "ratio"))
        times = times if run["reached"] else f"at least {times}"
        lines.append([name, seconds, times, f"{run['bins']:.2f}", f"{100 * run['excess']:.2f} %"])
    header = ["", "CPU seconds", "times ours", "bins off the exact one", "excess over the optimum"]
    memory = fill(
        "By the clock the exact selection took {seconds:amount} s. Extra memory: {extra_mb:.0f} MB "
        "on top of {input_mb:.0f} MB of input, {peak_over_input:.2f} times the input in all.",
        found,
    )
    return with_place(f"{table(header, lines)}\n\n{memory}", found)


def serve(records: Records) -> str:
    """Return the service under load beside the estimator itself."""
    found = records.bench("serve")
    forms = {"json": "JSON", "octets": "octets"}
    columns = {
        "body": "{body}", "rows": "{rows}", "clients": "{clients}",
        "requests/s": "{requests_per_s:amount}", "refused": "{n_failures:amount}",
        "p50 ms": "{p50_ms:amount}", "p99 ms": "{p99_ms:amount}",
        "rows/s": "{rows_per_s:amount}", "direct rows/s": "{direct_rows_per_s:amount}",
        "CPU ms": "{server_cpu_ms:amount}", "direct CPU ms": "{direct_cpu_ms:amount}",
        "`/health` p99 ms": "{health_p99_ms:amount}",
        "`/health` longest ms": "{health_max_ms:amount}", "ratio": "{ratio:.2f}",
    }  # fmt: skip
    loads = [{**load, "body": forms[load["form"]]} for load in found["loads"]]
    return with_place(filled(columns, loads), found)


def chaos(records: Records) -> str:
    """Return what was left of the service after kills and stops at random moments."""
    found = records.script("chaos", method="")
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    columns = {
        "database": "{name}", "workers": "{workers}", "workers killed": "{kills_of_workers:,}",
        "parents killed": "{kills_of_parents:,}", "changes acknowledged": "{acknowledged:,}",
        "sent again": "{sent_again:,}", "lost": "{lost:,}", "half applied": "{half_applied:,}",
        "wrong answers": "{wrong_answers:,}", "orphans": "{orphans:,}",
        "folders left": "{folders_left:,}",
    }  # fmt: skip
    rows = [{**row, "name": names[row["database"]]} for row in found["arrangements"]]
    stops = found["stops"]
    served = [row for row in stops if not row["during_start"]]
    said = (
        f"{found['kills']:,} kills in all. Told to stop {len(stops)} times, "
        f"{len(stops) - len(served)} of them while it started, it ended within "
        f"{max(row['seconds'] for row in stops):.1f} s, where {stops[0]['limit']:g} s are allowed; "
        f"of {sum(row['answers'] for row in served):,} requests of clients that honour `/ready` "
        f"{sum(row['failed'] for row in served)} failed."
    )
    return f"{filled(columns, rows)}\n\n{said}"


def speed(records: Records) -> str:
    """Return how long evaluations, fits and adds take."""
    fits, adds = records.bench("fit"), records.bench("add-class")
    evaluated = [records.runs(main(data, method)) for data, method in _EVALUATED]
    lines = [_evaluation(runs[0]) for runs in evaluated if runs] + _fits(fits) + _adds(adds)
    places = "; ".join(
        f"`make bench NAME={found['name']}` on {measured_on(found['environment'])}"
        for found in (fits, adds)
    )
    text = table(["what", "measured"], lines, text=["measured"])
    return f"{text}\n\nMeasured with {places}."


def _evaluation(run: Run) -> list[str]:
    how, times = run["validation"], run["timings"]
    folds = count(how["n_folds"], "fold")
    searched = f"{how['n_settings']} settings × {folds}, refit and test"
    said = f"{amount(times['total'])} s, of which the fit {amount(times['fit'])} s"
    where = f"device {run['parameters']['device']}, {run['machine']['n_cpus']} processors"
    return [f"`{run['method']}` on {run['data']['name']}: {searched}", f"{said} ({where})"]


def _fits(found: dict[str, Any]) -> list[list[str]]:
    lines = []
    for size in found["sizes"]:
        fits = {r["method"]: r["cpu_seconds"] for r in found["fits"] if r["data"] == size["name"]}
        (_, ours), *others = fits.items()
        what = f"a fit at {size['name']}'s size, {size['n_instances']:,} × {size['n_features']:,}"
        rest = ", ".join(f"{amount(seconds)} s ({name})" for name, seconds in others)
        lines.append([what, f"{amount(ours)} CPU s against {rest}"])
    return lines


def _adds(found: dict[str, Any]) -> list[list[str]]:
    n_attributes = found["sizes"]["n_attributes"][0]
    lines = []
    for transfer in dict.fromkeys(record["transfer"] for record in found["by_classes"]):
        for kind in ("added", "seen"):
            rows = [
                (record[f"n_{kind}"], record["median_cpu_ms"])
                for record in found["by_classes"]
                if (record["transfer"], record["n_attributes"]) == (transfer, n_attributes)
                and (record["n_added"] > 0) == (kind == "added")
            ]
            numbers = " / ".join(f"{number:,}" for number, _ in rows)
            times = " / ".join(amount(milliseconds) for _, milliseconds in rows)
            what = f"{transfer}: adding a class beside {numbers} {kind}"
            lines.append([what, f"{times} CPU ms"])
    return lines


def gather(records: Records) -> str:
    """Return a pass over rows beside reading them and the product it needs."""
    found = records.bench("gather")
    width, names = found["sizes"]["n_features"], {
        "reading": "reading with pyarrow alone", "product": "XᵀX of rows in memory",
        "gathering": "gathering", "gathering with folds": "gathering with three class folds",
    }  # fmt: skip
    lines = [
        [names[rate["what"]], amount(rate["rows_per_core_s"]),
         amount(rate["rows_per_core_s"] * width * 4 / 1e6)]
        for rate in found["rates"]
    ]  # fmt: skip
    said = fill(
        "Gathering reaches {share_of_bound:percent} of the bound, {bound}; the aim is "
        "{target:percent}. One process that streamed {streamed[n_rows]:,} rows, "
        "{streamed[gigabytes]:.1f} GB, held {streamed[peak_mb]:,.0f} MB at most, where "
        "{most_mb:,.0f} MB are the aim; that last grew in the first {streamed[grew_last_at]:,} "
        "rows.",
        found,
    )
    header = ["", "rows per second of a core", "MB/s"]
    return with_place(f"{table(header, lines)}\n\n{said}", found)


def scale(records: Records) -> str:
    """Return what a pass over larger data costs, computed from what was measured."""
    found = records.bench("gather")
    rate = next(r["rows_per_core_s"] for r in found["rates"] if r["what"] == "gathering with folds")
    moment = found["sizes"]["n_features"] ** 2 * 8 / 1e6
    row = found["sizes"]["n_features"] * 4 / 1e6
    # After the first file a process has summed one block and added nothing to it.
    block = found["streamed"]["points"][0]["peak_mb"]
    besides = block - _summing_mb(found["sizes"]["n_classes"], 1, moment, row)
    lines = []
    for name, n_rows, n_classes in _LARGE:
        sizes = (n_classes, _N_GROUPS, moment, row)
        memory = besides + max(_summing_mb(*sizes), _adding_mb(*sizes))
        part = _N_GROUPS * moment / 2 + n_classes * 2 * row + max(_SAMPLE, 2 * n_classes) * row
        levels = _levels(n_rows)
        adding = part / found["partial"]["mb"] * found["partial"]["load_and_add_s"]
        seconds = n_rows / rate / levels[0] + adding * sum(min(n, _FAN_IN) for n in levels[:-1])
        lines.append([
            name, f"{n_rows:,}", f"{n_classes:,}", amount(n_rows * row / 1e3),
            amount(n_rows / rate / 3600), amount(seconds / 60), amount(memory / 1e3),
            amount(2 * (sum(levels) - 1) * part / 1e3),
        ])  # fmt: skip
    header = [
        "data", "rows", "classes", "GB read", "core hours", f"minutes, {_N_WORKERS} workers",
        "GB per worker", "GB of sums moved",
    ]  # fmt: skip
    return table(header, lines)


def _levels(n_rows: int) -> list[int]:
    """Return how many partial sums each level of the tree has, leaves first."""
    levels = [min(_N_WORKERS, -(-n_rows // _SHARD_ROWS))]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // _FAN_IN))
    return levels


def _summing_mb(n_classes: int, n_groups: int, moment: float, row: float) -> float:
    """Return the memory of a partial sum whose sample, 1.25 full, is being cut."""
    return n_groups * moment + n_classes * 2 * row + 2.25 * max(_SAMPLE, 2 * n_classes) * row


def _adding_mb(n_classes: int, n_groups: int, moment: float, row: float) -> float:
    """Return the memory of two partial sums and of the sample that is left of theirs."""
    sums = n_groups * moment + n_classes * 2 * row
    return 2 * sums + 3 * max(_SAMPLE, 2 * n_classes) * row


def scale_predict(records: Records) -> str:
    """Return what predicting many rows costs, computed from what was measured."""
    found, passes = records.bench("predict"), records.bench("gather")["rates"]
    reading = next(rate["rows_per_core_s"] for rate in passes if rate["what"] == "reading")
    width = found["sizes"]["n_features"]
    lines = []
    for name, n_rows, n_classes in _LARGE:
        batch = min(found["batches"], key=lambda batch: abs(batch["n_classes"] - n_classes))
        more = n_rows / batch["n_rows"] * max(n_classes / batch["n_classes"], 1.0)
        best, five = (
            n_rows / reading + more * batch[f"{way}_cpu_seconds"] for way in ("predict", "ranking")
        )
        table_gb = 4 * (n_classes * width + width**2) / 1e9
        lines.append([
            name, f"{n_rows:,}", f"{n_classes:,}", amount(4 * n_rows * width / 1e9),
            amount(best / 3600), amount(five / 3600), amount(best / 60 / _N_WORKERS),
            amount(five / 60 / _N_WORKERS), amount(table_gb),
        ])  # fmt: skip
    header = [
        "data", "rows", "classes", "GB read", "core hours", "the same, 5 best",
        f"minutes, {_N_WORKERS} workers", "the same, 5 best", "GB of classes and metric per worker",
    ]  # fmt: skip
    return table(header, lines)


def fuzz(records: Records) -> str:
    """Return what each attack was answered with, and what it cost."""
    found = records.script("fuzz_service", method="")
    lines = [_attack(part["attack"].replace("_", " "), part) for part in found["attacks"]]
    for name, title in (("schemathesis", "made by schemathesis"), ("mutated", "mutated")):
        lines.append(_attack(f"{found[name]['n_requests']:,} requests {title}", found[name]))
    health = found["health"]
    timed = [part for part in found["attacks"] if "row_ms" in part]
    rows, changes = (max(part[n] for part in timed) / 1000 for n in ("row_ms", "change_ms"))
    summary = (
        f"No traceback in the log: {'yes' if found['held']['log'] else 'no'}; no 5xx but 503: "
        f"{'yes' if found['held']['statuses'] else 'no'}. Of {health['n_probes']:,} questions for "
        f"`/health`, {health['n_over_100_ms']:,} took over 100 ms, the slowest "
        f"{amount(health['worst_ms'])} ms. Of those to a server that does nothing, asked at the "
        f"same time on the same machine, {health['n_idle_over_100_ms']:,} did, the slowest "
        f"{amount(health['idle_server_worst_ms'])} ms. Beside the attacks on the queues the "
        f"slowest single row took {amount(rows)} s, the slowest keyed change {amount(changes)} s."
    )
    header = ["attack", "answers", "seconds", "MB above the start", "slowest `/health`, ms"]
    where = f"Measured on {found['machine']['n_cpus']} processors, shared with other programs."
    return f"{table(header, lines, text=['answers'])}\n\n{summary} {where}"


def _attack(name: str, part: dict[str, Any]) -> list[str]:
    answers = ", ".join(
        f"{'closed' if status == '0' else status} × {count:,}"
        for status, count in part.get("statuses", {}).items()
    )
    cost = [f"{max(0.0, part['peak_bytes']) / 1e6:,.0f}", amount(part["health_ms"])]
    return [name, answers or "as described", amount(part["seconds"]), *cost]


TABLES = {
    "gather": gather, "scale": scale, "scale predict": scale_predict,
    "representatives": representatives, "serve": serve, "chaos": chaos,
    "fuzz": fuzz, "speed": speed,
}  # fmt: skip
