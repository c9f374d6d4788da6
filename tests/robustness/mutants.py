"""Change the code at random and count how often the tests notice: mutation testing by room.

mutmut makes the changes and runs the tests that reach each one; this script gives every room a
tree and a fast choice of tests of its own, draws a sample, and sums up::

    python tests/robustness/mutants.py --sample 40 --rooms graph,transport
    python tests/robustness/mutants.py --jobs 16 --report mutants.json      # everything: hours

Some of the changes that survive are such that no test can notice them; the rate counts them too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mutmut.configuration import reset_config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import change_cwd
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parents[2]
NOTICED = {"killed", "timeout", "segfault"}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

# The tests that a room is held to: its own, what calls it most directly, and its doctests.
ROOMS = {
    "transport": ["tests/transport"],
    "graph": ["tests/graph"],
    "network": ["tests/network", "tests/estimators/test_hgkt_network.py"],
    "closed_form": ["tests/closed_form", "tests/estimators/test_hgkt.py"],
    "estimators": [
        "tests/estimators",
        "tests/closed_form/test_transfer.py",
        "tests/network/test_transfer.py",
    ],
    "evaluation": ["tests/evaluation"],
}
# Tests of seconds that notice nothing which faster ones do not.
SLOW = [
    "tests/network/test_training.py::test_sampled_training_reaches_the_minimum_of_the_quotient",
    "tests/network/test_checkpoint.py::test_killed_run_resumes_to_the_same_bits",
    "tests/estimators/test_hgkt_network.py::test_every_open_choice_trains_and_saves"
    "[{'representative': 'sinkhorn'",
    "tests/estimators/test_contract.py::test_scikit_learn_checks_pass[hgkt-network]",
]
# Of the tests over all methods, those of the two that estimators/ itself brings.
KEYWORDS = "not test_contract or hgkt"
# mutmut 3.8 reads an attribute that pytest 9.2 no longer has, and its copies of a function repeat
# the doctest; that of the original copy calls the public name, and so whichever mutant is active.
CONFTEST = """
import re

def pytest_itemcollected(item):
    item._nodeid = item.nodeid

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if not re.search(r"__mutmut_\\d", item.nodeid)]
"""


@dataclass(frozen=True)
class Mutant:
    """One change and what became of it."""

    name: str
    file: str
    status: str
    before: str
    after: str


@dataclass(frozen=True)
class RoomResult:
    """The sample of one room; `rate` is the percentage noticed."""

    n_mutants: int
    n_sampled: int
    statuses: dict[str, int]
    rate: float
    seconds: float
    survivors: list[Mutant]


def run_room(room: str, work: Path, sample: int | None, seed: int, jobs: int) -> RoomResult:
    """Mutate one room in a copy of the tree and run its tests against a sample.

    Parameters
    ----------
    room : str
        A key of `ROOMS`.
    work : Path
        Where the copy is made; an earlier one is replaced.
    sample : int, optional
        How many mutants to draw; None for all.
    seed : int
        Seed of the draw.
    jobs : int
        Number of processes.
    """
    start = time.perf_counter()
    _copy_tree(room, work)
    files = dict(_mutants_of(room, work))
    chosen = names = sorted(files)
    if sample is not None and sample < len(names):
        chosen = sorted(random.Random(f"{seed} {room}").sample(names, sample))
    _run_mutmut(work, [] if chosen == names else chosen, jobs)
    results = [_result(name, files[name], work) for name in chosen]
    survivors = [mutant for mutant in results if mutant.status not in NOTICED]
    return RoomResult(
        n_mutants=len(names),
        n_sampled=len(results),
        statuses=dict(Counter(mutant.status for mutant in results)),
        rate=round(100 * (1 - len(survivors) / max(len(results), 1)), 1),
        seconds=round(time.perf_counter() - start, 1),
        survivors=survivors,
    )


def _copy_tree(room: str, work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    (work / "mutants" / "src").mkdir(parents=True)  # on the path from the start, see _run_mutmut
    for folder in ("src", "tests"):
        shutil.copytree(
            ROOT / folder, work / folder, ignore=shutil.ignore_patterns("__pycache__", ".*")
        )
    (work / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/hgkt/{room}/*"],
        "also_copy": ["conftest.py"],
        "pytest_add_cli_args_test_selection": [*ROOMS[room], f"src/hgkt/{room}"],
        "pytest_add_cli_args": [
            "-pno:cacheprovider",
            f"-k={KEYWORDS}",
            *(f"--deselect={test}" for test in SLOW),
        ],
        "process_isolation": "forkserver",  # a child of a process that ran torch may hang
        "timeout_constant": 4.0,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (work / "pyproject.toml").write_text(
        "\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8"
    )


def _mutants_of(room: str, work: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of every mutant of a room and the file it is in."""
    with change_cwd(work):
        reset_config()
        for path in sorted(Path("src/hgkt", room).rglob("*.py")):
            mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
            for name in mutated.mutant_names:
                yield get_mutant_name(path, name), str(path)


def _run_mutmut(work: Path, names: Sequence[str], jobs: int) -> None:
    environment = {
        "HGKT_DATA": str(ROOT.parent / "shared" / "data"),
        **os.environ,
        "PYTHONPATH": str(work / "mutants" / "src"),  # before an installed hgkt, in children too
        "OMP_NUM_THREADS": "1",
        "CI": "1",  # hypothesis draws the same examples every time
    }
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(jobs)]
    log = work / "mutmut.log"
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            [*command, *names], cwd=work, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").splitlines()
        tail = "\n".join([line for line in lines if line and line[0] not in SPINNER][-40:])
        raise SystemExit(f"mutmut failed in {work}:\n{tail}")


def _result(name: str, file: str, work: Path) -> Mutant:
    meta = json.loads((work / "mutants" / f"{file}.meta").read_text(encoding="utf-8"))
    status = status_by_exit_code[meta["exit_code_by_key"][name]]
    if status in NOTICED:
        return Mutant(name, file, status, "", "")
    with change_cwd(work):
        lines = get_diff_for_mutant(name, path=file).splitlines()[2:]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return Mutant(name, file, status, before, after)


def main() -> None:
    """Run the rooms that are asked for and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", default=",".join(ROOMS), help="rooms, separated by commas")
    parser.add_argument("--sample", type=int, help="mutants per room; all of them by default")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutants", help="folder")
    parser.add_argument("--report", type=Path, help="JSON file with every survivor")
    options = parser.parse_args()
    rooms = options.rooms.split(",")
    if unknown := [room for room in rooms if room not in ROOMS]:
        parser.error(f"no room {unknown[0]!r}; choose from: {', '.join(ROOMS)}")
    report: dict[str, object] = {"sample": options.sample, "seed": options.seed}
    results: dict[str, RoomResult] = {}
    print(f"{'room':<12}{'mutants':>8}{'sample':>8}{'noticed':>9}{'seconds':>9}")
    for room in rooms:
        work = options.work.resolve() / room
        results[room] = run_room(room, work, options.sample, options.seed, options.jobs)
        _show(room, results[room])
        if options.report:
            report["rooms"] = {name: asdict(result) for name, result in results.items()}
            text = json.dumps(report, indent=1, ensure_ascii=False)
            options.report.write_text(text + "\n", encoding="utf-8")


def _show(room: str, result: RoomResult) -> None:
    print(
        f"{room:<12}{result.n_mutants:>8}{result.n_sampled:>8}{result.rate:>8}%{result.seconds:>9}"
    )
    for mutant in result.survivors:
        print(f"  {mutant.status}: {mutant.name}")
        print(f"    - {mutant.before}\n    + {mutant.after}", flush=True)


if __name__ == "__main__":
    main()
