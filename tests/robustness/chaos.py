"""Kill the service at random moments while clients change classes, and look what is left.

    python tests/robustness/chaos.py --kills 1000

Clients add classes over HTTP, in batches of three, remove and rename them and have them grow, each
request with an idempotency key; one that gets no answer is sent again until it has one. Meanwhile
workers and parents are killed with SIGKILL. Whenever no process is left, the database is looked
at: what was acknowledged must be there, nothing may be there by half, the log must lead to what
there is, and no process and no temporary folder may outlive the next start. Then the service is
told to stop at random moments of its life, its start included, under the load of clients that
honour /ready.

The same seed gives the same plan; the moments also depend on the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from _chaos_clients import Changer, Predictor
from _chaos_service import RunningService, save_tiny_model
from _records import arguments, write_record

N_CHANGERS, N_PREDICTORS = 6, 6
ARRANGEMENTS = (("sqlite", 1), ("sqlite", 3), ("postgresql", 3))
_PARENT_SHARE = 0.08  # of the kills where there are several workers


@dataclass
class Count:
    """What happened in one arrangement, and what was wrong."""

    database: str
    workers: int
    kills_of_parents: int = 0
    kills_of_workers: int = 0
    acknowledged: int = 0
    sent_again: int = 0
    lost: int = 0
    half_applied: int = 0
    wrong_answers: int = 0
    orphans: int = 0
    folders_left: int = 0
    seconds: float = 0.0
    told: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """All kills."""
        return self.kills_of_parents + self.kills_of_workers

    @property
    def sound(self) -> bool:
        """Whether nothing was wrong."""
        wrong = self.lost + self.half_applied + self.wrong_answers + self.orphans
        return not wrong + self.folders_left and not self.told


# ---------------------------------------------------------------------- kills
def kill_at_random(
    model: Path, database: str, n_workers: int, n_kills: int, seed: int, seconds: float
) -> Count:
    """Kill a service `n_kills` times, or for so many seconds; return what was found."""
    kind = database.partition(":")[0]
    count = Count(kind, n_workers)
    rng = random.Random(f"{seed} {kind} {n_workers}")
    service = RunningService(model, database, n_workers)
    clients = [Changer(service.port, number, seed) for number in range(N_CHANGERS)]
    start = time.monotonic()
    try:
        for client in clients:
            client.start()
        while count.kills < n_kills and time.monotonic() - start < seconds:
            service.start()
            _kill_until_parent(service, clients, count, n_kills, rng)
            count.orphans += service.orphans()
            _check(model, database, clients, count)
        service.start()  # what is still under way is answered
        service.wait_until_ready()
        for client in clients:
            client.finish()
        count.folders_left = service.stop()
        count.orphans += service.orphans()
        _check(model, database, clients, count)
    finally:
        for client in clients:
            client.stop_now()
        service.close()
    count.acknowledged = sum(client.n_acknowledged for client in clients)
    count.sent_again = sum(client.n_again for client in clients)
    count.wrong_answers = sum(len(client.wrong) for client in clients)
    count.told += [line for client in clients for line in client.wrong[:3]]
    count.seconds = time.monotonic() - start
    return count


def _kill_until_parent(
    service: RunningService,
    clients: list[Changer],
    count: Count,
    n_kills: int,
    rng: random.Random,
) -> None:
    """Kill workers, and in the end the parent."""
    while True:
        parent = service.n_workers == 1 or rng.random() < _PARENT_SHARE
        _wait_for_a_moment(service, clients, rng)
        if parent or count.kills + 1 >= n_kills:
            count.kills_of_parents += 1
            service.kill()
            return
        workers = service.workers()
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                count.kills_of_workers += 1


def _wait_for_a_moment(service: RunningService, clients: list[Changer], rng: random.Random) -> None:
    """Wait a little: without looking, which hits the start, or until some changes were made."""
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0.0, 1.0))
        return
    wanted = sum(client.n_acknowledged for client in clients) + rng.randrange(1, 12)
    deadline = time.monotonic() + 60
    while sum(client.n_acknowledged for client in clients) < wanted:
        if time.monotonic() > deadline or not service.running():
            raise RuntimeError(f"no change was made for 60 s: {service.log()[-2000:]}")
        time.sleep(0.001)
    time.sleep(rng.uniform(0.0, 0.02))


def _check(model: Path, database: str, clients: list[Changer], count: Count) -> None:
    """Compare the database with what clients were told; no service runs."""
    from hgkt.serving.events import ClassTable, replay
    from hgkt.serving.registry import ClassRegistry

    with contextlib.closing(ClassRegistry(database, _identity(model))) as registry:
        state, log = registry.table(), registry.events(limit=10**9)
    there = {entry.name for entry in state.entries}
    growth = {name: sums.n_examples for name, sums in state.growth.items()}
    for client in clients:
        lost, half = client.compare(there, growth)
        count.lost += lost
        count.half_applied += half
    replayed, _ = replay(ClassTable(), log)
    revisions = sorted({event.revision for event in log})
    whole = revisions == list(range(1, state.revision + 1))
    same = replayed.classes.keys() == state.classes.keys() and all(
        replayed.classes[name].same_as(entry) for name, entry in state.classes.items()
    )
    counts = {event.entry.name: event.n_examples for event in log}  # after the last of each
    if not whole or not same or any(counts[name] != growth[name] for name in growth):
        count.half_applied += 1


@cache
def _identity(model: Path) -> str:
    from hgkt.estimators import load_model
    from hgkt.serving.edition import model_identity

    return model_identity(load_model(model))


# ---------------------------------------------------------------------- stops
def stop_at_random(model: Path, database: str, n_stops: int, seed: int) -> list[dict[str, Any]]:
    """Stop a service under load at random moments, start included; return what each was like."""
    rng = random.Random(f"{seed} stops")
    rows = []
    for number in range(n_stops):
        n_workers, grace = (1, 3)[number % 2], 1.0
        service = RunningService(model, database, n_workers, grace=grace, shutdown_timeout=5.0)
        service.start()
        early = number % 4 == 3  # while it starts
        clients = [Predictor(service.port, n, rng.random()) for n in range(N_PREDICTORS)]
        if not early:
            service.wait_until_ready()
            for client in clients:
                client.start()
        delay = rng.uniform(0.0, 3.0)
        time.sleep(delay)
        begun = time.monotonic()
        os.kill(service.number, signal.SIGTERM)
        code = service.wait(30.0)
        seconds = time.monotonic() - begun
        for client in clients:
            client.finish()
        rows.append(
            {
                "workers": n_workers,
                "during_start": early,
                "seconds": round(seconds, 2),
                "limit": grace + 5.0 + 2.0,
                "exit_code": code,
                "answers": sum(client.n_answers for client in clients),
                "failed": sum(len(client.wrong) for client in clients),
                "told": [line for client in clients for line in client.wrong[:1]],
                "orphans": service.orphans(),
            }
        )
        service.close()
        print(f"stop {number + 1}: {rows[-1]}", file=sys.stderr)
    return rows


# ---------------------------------------------------------------------- databases
@contextlib.contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    """Yield an address per kind; PostgreSQL is a real server where the package pgserver is."""
    found = {"sqlite": f"sqlite:///{folder / 'classes.sqlite'}"}
    try:
        import pgserver
    except ImportError:
        yield found
        return
    # Run by root, the server is another user, who may not enter every folder.
    with tempfile.TemporaryDirectory(prefix="hgkt-pg-", ignore_cleanup_errors=True) as data:
        server = pgserver.get_server(data, cleanup_mode="stop")
        try:
            yield {**found, "postgresql": server.get_uri()}
        finally:
            server.cleanup()


def run(n_kills: int, n_stops: int, seed: int, seconds: float) -> dict[str, Any]:
    """Run all arrangements, each with a share of the kills; return the record."""
    counts, stops = [], []
    with tempfile.TemporaryDirectory(prefix="hgkt-chaos-") as name, databases(Path(name)) as found:
        arrangements = [item for item in ARRANGEMENTS if item[0] in found]
        for number, (kind, n_workers) in enumerate(arrangements):
            model = save_tiny_model(Path(name) / f"model-{number}", number)
            share = n_kills // len(arrangements) + (number < n_kills % len(arrangements))
            patience = seconds / len(arrangements)
            count = kill_at_random(model, found[kind], n_workers, share, seed, patience)
            counts.append(count)
            print(f"{kind}, {n_workers} workers: {asdict(count)}", file=sys.stderr)
        if n_stops:
            model = save_tiny_model(Path(name) / "model-stops", len(arrangements))
            stops = stop_at_random(model, found["sqlite"], n_stops, seed)
    sound = all(count.sound for count in counts) and all(
        row["exit_code"] in (0, -signal.SIGTERM if row["during_start"] else 0)
        and not row["failed"] and not row["orphans"]
        and row["seconds"] <= row["limit"] for row in stops
    )  # fmt: skip
    return {
        "seed": seed,
        "kills": sum(count.kills for count in counts),
        "arrangements": [asdict(count) for count in counts],
        "stops": stops,
        "sound": sound,
    }


def main() -> None:
    """Run, write the record, and end with exit code 1 where something was wrong."""
    parser = arguments(__doc__, "chaos", root=False)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--stops", type=int, default=20, help="SIGTERMs under load")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="no longer than this")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    record = run(args.kills, args.stops, args.seed, args.seconds)
    write_record(args.out, record)
    print(json.dumps({key: record[key] for key in ("kills", "sound")}))
    if not record["sound"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
