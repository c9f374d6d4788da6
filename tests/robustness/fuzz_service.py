"""Attack a real service and send it mutated requests; watch its memory, its health and its log.

Three parts, one after the other, on one server process: every request that once took the service
down (`fuzzing/attacks.py`), requests that schemathesis makes from the API's description, and good
requests changed at random. Meanwhile another process asks for ``/health`` fifty times a second,
looks at the server's memory, and asks a server that does nothing, which shows what the machine
itself takes::

    python tests/robustness/fuzz_service.py                       # 100,000 mutated requests
    python tests/robustness/fuzz_service.py --short --requests 500 --out /tmp/fuzz.json

Prints one JSON document and ends with 1 where a bar is missed: a worker grows by a gigabyte, an
answer is 5xx but not 503, the log has a traceback, or beside an attack on the queues a single row
takes over 2 s or a keyed change over 5 s. Times of ``/health`` are reported, and judged
by who knows how busy the machine was.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from _records import arguments, write_record

GIGABYTE = 1_000_000_000
ROW_MS, CHANGE_MS = 2000.0, 5000.0
SCHEMATHESIS_CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"


def main() -> int:
    """Run all parts, write the record and print it."""
    parser = arguments(__doc__, "fuzz_service", root=False)
    parser.add_argument("--requests", type=int, default=100_000, help="mutated requests")
    parser.add_argument("--schemathesis", type=int, default=60, help="seconds for schemathesis")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--short", action="store_true", help="small attacks, and no images")
    args = parser.parse_args()
    record = fuzz(args)
    write_record(args.out, record)
    print(args.out.read_text("utf-8"))
    return 0 if all(record["held"].values()) else 1


def fuzz(args: argparse.Namespace) -> dict[str, Any]:
    """Return what was seen."""
    from fuzzing.attacks import run_attacks
    from fuzzing.mutations import send_mutations
    from fuzzing.service import running
    from fuzzing.watch import Watch

    images = not args.short
    # Slow clients are waited for so long; the short form has no time for that.
    if args.short:
        os.environ["HGKT_SERVE_CLIENT_SECONDS"] = "1"
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), images) as service,
        Watch(service.port, service.process) as watch,
    ):
        attacks = list(run_attacks(service, 0.01 if args.short else 1.0, watch.lap))
        described = made_by_schemathesis(service, args.schemathesis, args.seed)
        described |= watch.lap()
        start = time.monotonic()
        statuses = send_mutations(service, args.requests, args.seed, args.clients)
        mutated = {
            "n_requests": statuses.total(),
            "seconds": time.monotonic() - start,
            "statuses": dict(sorted(statuses.items())),
            **watch.lap(),
        }
        healthy = service.call("GET", "/ready")[0] == 200
        log = service.log.read_text("utf-8", "replace")
    parts = [*attacks, described, mutated]
    return {
        "seed": args.seed,
        "short": args.short,
        "attacks": attacks,
        "schemathesis": described,
        "mutated": mutated,
        "n_tracebacks": log.count("Traceback"),
        "first_traceback": "".join(log.partition("Traceback")[1:])[:3000],
        "health": {
            "worst_ms": max(part["health_ms"] for part in parts),
            "n_probes": sum(part["n_probes"] for part in parts),
            "n_over_100_ms": sum(part["n_slow_probes"] for part in parts),
            "idle_server_worst_ms": max(part["idle_server_ms"] for part in parts),
            "n_idle_over_100_ms": sum(part["n_slow_idle_probes"] for part in parts),
        },
        "peak_bytes": max(part["peak_bytes"] for part in parts),
        "held": {
            "memory": max(part["peak_bytes"] for part in parts) < GIGABYTE,
            "statuses": not any(attack["unexpected"] for attack in attacks)
            and not _server_errors(statuses)
            and described["n_failures"] == 0,
            "log": "Traceback" not in log,
            "rows": max(part.get("row_ms", 0.0) for part in attacks) < ROW_MS,
            "changes": max(part.get("change_ms", 0.0) for part in attacks) < CHANGE_MS,
            "ready": healthy,
        },
    }


def _server_errors(statuses: Counter[str]) -> list[str]:
    """Return 5xx but the stated ones, and answers that were due and did not come."""
    return [each for each in statuses if each == "0" or (each[0] == "5" and each != "503")]


def made_by_schemathesis(service: Any, seconds: int, seed: int) -> dict[str, Any]:
    """Let schemathesis make requests from the description for some seconds."""
    from fuzzing.service import KEY

    if not seconds:
        return {"n_requests": 0, "seconds": 0.0, "n_failures": 0}
    before, start = _n_requests(service), time.monotonic()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"http://127.0.0.1:{service.port}/openapi.json",
            *("--header", f"X-API-Key: {KEY}", "--seed", str(seed), "--max-time", str(seconds)),
            *("--checks", SCHEMATHESIS_CHECKS, "--continue-on-failure", "--warnings", "off"),
            *("--phases", "examples,coverage,fuzzing", "--no-color"),
        ],
        capture_output=True,
        text=True,
    )
    return {
        "n_requests": _n_requests(service) - before,
        "seconds": time.monotonic() - start,
        "n_failures": 0 if done.returncode == 0 else 1,
        "said": "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:],
    }


def _n_requests(service: Any) -> int:
    """Return how many requests the service has counted, those of the watch left out."""
    text = service.call("GET", "/metrics")[1].decode()
    lines = [line for line in text.splitlines() if line.startswith("hgkt_requests_total")]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if '"health"' not in line))


if __name__ == "__main__":
    sys.exit(main())
