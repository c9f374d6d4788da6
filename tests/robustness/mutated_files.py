"""Damage files of every kind that hgkt reads, and count what reading them does.

    python tests/robustness/mutated_files.py [--files 10000] [--seed 0] [--jobs 2] [--out FILE]

Each file is a valid one with some of its bytes, numbers, members or parts changed; what is changed
follows from the seed. It is read in a process of its own, which reads many. Right is the answer of
the valid file, or one sentence. Where a digest says what is right, any other answer is wrong;
elsewhere a changed number is just another number. A traceback, a crash, over 5 s of processor time,
or more memory than 4 times the size of the valid file and a margin are failures.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from _file_kinds import KINDS, Kind, damage, honest_size
from _records import arguments, forget_peak, one_thread, peak_mb, write_record

SECONDS = 5.0
MARGIN = 64 * 2**20  # bytes: what parsers keep for themselves, and a file may always unfold to
_SPAWN = get_context("spawn")
_WALL_SECONDS = 60.0  # of a process that says nothing any more; the machine may be busy
FAILURES = ("wrong answer", "traceback", "not one sentence", "crash", "hang", "memory")
OUTCOMES = ("right answer", "one sentence", "another answer", *FAILURES)


# ---------------------------------------------------------------------- in the child
class Reader:
    """Reads damaged files of all kinds and says what happened.

    Parameters
    ----------
    folder : Path
        For its files.
    seed : int
        What the damage follows from.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._valid: dict[str, tuple[Kind, Path, str]] = {}

    def result(self, name: str, number: int) -> dict[str, Any]:
        """Damage and read one file."""
        kind, valid, right = self._kind(name)
        path = self._folder / f"damaged{kind.suffix}"
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        copy = shutil.copytree if valid.is_dir() else shutil.copyfile
        copy(valid, path)
        rng = np.random.default_rng([self._seed, sorted(KINDS).index(name), number])
        (kind.mutate or damage)(path, rng)
        forget_peak()
        start, before = time.process_time(), peak_mb()
        outcome, said = _outcome(kind, path, right)
        seconds, taken = time.process_time() - start, int(1e6 * max(0.0, peak_mb() - before))
        if taken > 4 * honest_size(valid) + MARGIN:
            outcome = "memory"
        if seconds > SECONDS:
            outcome = "hang"
        return {"outcome": outcome, "said": said, "seconds": seconds, "bytes": taken}

    def _kind(self, name: str) -> tuple[Kind, Path, str]:
        """Return a kind, its valid file and the right answer; made and read once."""
        if name not in self._valid:
            kind = KINDS[name]
            path = self._folder / f"valid {len(self._valid)}{kind.suffix}"
            kind.make(path)
            self._valid[name] = kind, path, kind.read(path)
        return self._valid[name]


def _outcome(kind: Kind, path: Path, right: str) -> tuple[str, str]:
    from hgkt.exceptions import HGKTError

    try:
        answer = kind.read(path)
    except HGKTError as error:
        said = str(error)
        whole = said and "\n" not in said and len(said) < 2000
        return ("one sentence" if whole else "not one sentence"), said
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"[:300]
    if answer == right:
        return "right answer", ""
    return ("wrong answer" if kind.has_digest else "another answer"), ""


def _serve(seed: int, pipe: Connection) -> None:
    """Read a kind and a number at a time, and answer with what happened."""
    one_thread()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))  # a fuse for the machine
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(Path(folder), seed)
        while True:
            pipe.send(reader.result(*pipe.recv()))


# ---------------------------------------------------------------------- in the parent
class Child:
    """A process that reads files, and is started anew where one of them ended it."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._process: Any = None

    def ask(self, name: str, number: int) -> None:
        """Have it read a file."""
        if self._process is None or not self._process.is_alive():
            self._pipe, other = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_serve, args=(self._seed, other), daemon=True)
            self._process.start()
            other.close()  # so that its end is seen
        self._pipe.send((name, number))

    def answer(self) -> dict[str, Any]:
        """Wait for what happened."""
        outcome, said = "hang", "it did not answer"
        if self._pipe.poll(_WALL_SECONDS):
            with suppress(EOFError, ConnectionResetError):
                return dict(self._pipe.recv())
            self._process.join()
            outcome, said = "crash", f"exit code {self._process.exitcode}"
        self.close()
        return {"outcome": outcome, "said": said, "seconds": 0.0, "bytes": 0}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()


def run(n_files: int, seed: int, jobs: int, kinds: list[str] | None = None) -> dict[str, Any]:
    """Read damaged files, as many of each kind, and return what happened.

    Parameters
    ----------
    n_files : int
        How many.
    seed : int
        What the damage follows from.
    jobs : int
        Number of processes.
    kinds : list of str, optional
        Some of `KINDS`; all by default.
    """
    names = kinds or list(KINDS)
    asked = [(names[number % len(names)], number // len(names)) for number in range(n_files)]
    asked.sort(key=lambda pair: names.index(pair[0]))
    results: list[dict[str, Any]] = []
    children = [Child(seed) for _ in range(jobs)]
    try:
        for start in range(0, len(asked), jobs):
            part = asked[start : start + jobs]
            for child, pair in zip(children, part, strict=False):
                child.ask(*pair)
            for child, (name, number) in zip(children, part, strict=False):
                results.append({"kind": name, "number": number, **child.answer()})
    finally:
        for child in children:
            child.close()
    rows = []
    for name in names:
        own = [found for found in results if found["kind"] == name]
        counts = Counter(found["outcome"] for found in own)
        rows.append({
            "kind": name, "files": len(own), **{outcome: counts[outcome] for outcome in OUTCOMES},
            "longest_seconds": round(max((found["seconds"] for found in own), default=0.0), 3),
            "most_bytes": max((found["bytes"] for found in own), default=0),
        })  # fmt: skip
    failures = [found for found in results if found["outcome"] in FAILURES]
    return {"files": n_files, "seed": seed, "rows": rows, "failures": failures}


def main() -> None:
    """Read the arguments, damage and read files, show and write the record."""
    parser = arguments(__doc__, "mutated_files", root=False)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", help="some kinds, joined by semicolons; no record is written")
    args = parser.parse_args()
    start = time.perf_counter()
    kinds = args.kinds.split(";") if args.kinds else None
    result = run(args.files, args.seed, args.jobs, kinds)
    result["seconds"] = round(time.perf_counter() - start, 1)
    for row in result["rows"]:
        shown = ", ".join(f"{row[o]} {o}" for o in OUTCOMES if row[o])
        print(f"{row['kind']}: {row['files']} files: {shown}")
    for failure in result["failures"][:50]:
        print(failure)
    if kinds is None:
        write_record(args.out, result)
    sys.exit(bool(result["failures"]))


if __name__ == "__main__":
    main()
