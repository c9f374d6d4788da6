"""What a service withstands: from the record of ``benchmarks/fuzz_service.py``."""

from __future__ import annotations

from typing import Any

from page_tables.markdown import amount, table
from page_tables.records import Records


def fuzz(records: Records) -> str:
    """Return what each attack was answered with, and what it cost."""
    found = records.script("fuzz_service", method="")
    lines = [_line(part["attack"].replace("_", " "), part) for part in found["attacks"]]
    for name, title in (("schemathesis", "made by schemathesis"), ("mutated", "mutated")):
        lines.append(_line(f"{found[name]['n_requests']:,} requests {title}", found[name]))
    health = found["health"]
    summary = (
        f"No traceback in the log: {'yes' if found['held']['log'] else 'no'}; no 5xx but 503: "
        f"{'yes' if found['held']['statuses'] else 'no'}. Of {health['n_probes']:,} questions for "
        f"`/health`, {health['n_over_100_ms']:,} took over 100 ms, the slowest "
        f"{amount(health['worst_ms'])} ms. Of those to a server that does nothing, asked at the "
        f"same time on the same machine, {health['n_idle_over_100_ms']:,} did, the slowest "
        f"{amount(health['idle_server_worst_ms'])} ms."
    )
    header = ["attack", "answers", "seconds", "MB above the start", "slowest `/health`, ms"]
    where = f"Measured on {found['machine']['n_cpus']} processors, shared with other programs."
    return f"{table(header, lines, text=['answers'])}\n\n{summary} {where}"


def _line(name: str, part: dict[str, Any]) -> list[str]:
    answers = ", ".join(
        f"{'closed' if status == '0' else status} × {count:,}"
        for status, count in part.get("statuses", {}).items()
    )
    cost = [f"{max(0.0, part['peak_bytes']) / 1e6:,.0f}", amount(part["health_ms"])]
    return [name, answers or "as described", amount(part["seconds"]), *cost]


TABLES = {"fuzz": fuzz}
