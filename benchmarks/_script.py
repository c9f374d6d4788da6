"""What the scripts of this folder share: arguments, one thread, and records on disk."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS = DOCS / "results"
sys.path.append(str(DOCS / "_ext"))  # what pages show is listed there

FEATURES = {"CUB": "efflite2", "AWA1": "rgsift", "EMOJI": "efflite0"}
"""Feature file of each benchmark folder that documentation shows."""


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Variables with which processes that start now compute each matrix product on one thread."""


def without_installation() -> None:
    """Let this process and those it starts find hgkt where it is not installed."""
    source = str(DOCS.parent / "src")
    sys.path.insert(0, source)
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])


@contextmanager
def served(model: Path, *options: str, log: Path | None = None) -> Iterator[tuple[int, int]]:
    """Start `hgkt serve` on a model folder; yield its port and process number.

    Parameters
    ----------
    model : Path
        The folder.
    *options
        Further words of the command.
    log : Path, optional
        Where it writes what it says on stderr; by default to this process's own.
    """
    command = [sys.executable, "-m", "hgkt", "serve", "--model", str(model), "--port", "0"]
    with open(log, "wb") if log else nullcontext() as errors:
        process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "COLUMNS": "1000"},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)$", process.stdout.readline().strip())
        if found is None:
            raise RuntimeError(f"the server did not start: {log.read_text() if log else ''}")
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


Labelled = tuple[Any, Any]
"""Features (n, D) and the class of each row."""


def arguments(
    description: str | None, record: str = "", root: bool = True
) -> argparse.ArgumentParser:
    """Return a parser with the data's root and, where a record is written, its file.

    Parameters
    ----------
    description : str
        The script's docstring.
    record : str
        Name of its record in docs/results, without suffix.
    root : bool
        Whether it reads data sets of the benchmark.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if root:
        parser.add_argument("--root", required=True, help="folder that holds the data sets")
    if record:
        parser.add_argument("--out", type=Path, default=RESULTS / f"{record}.json")
    return parser


def load(name: str, root: str, **options: Any) -> Any:
    """Return a data set of the benchmark with the features that pages show, or the digits."""
    from hgkt.data import load_dataset

    where = {} if name == "digits" else {"root": root, "features": FEATURES[name]}
    return load_dataset(name, **where, **options)


def one_thread() -> None:
    """Compute on one thread from now on, so that CPU seconds are comparable."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def run_on_sets(
    description: str | None,
    record: str,
    sets: str,
    results: Callable[[str, str], Iterable[dict[str, Any]]],
) -> None:
    """Read the arguments, run `results` (name of the set, root) on each set, write the record.

    Parameters
    ----------
    description : str
        The script's docstring.
    record : str
        Name of its record in docs/results, without suffix.
    sets : str
        The data sets that are run by default, joined by commas.
    results : callable
        Yields the rows of the record.
    """
    parser = arguments(description, record)
    parser.add_argument("--data", default=sets, help="sets with published folds, joined by commas")
    args = parser.parse_args()
    one_thread()
    rows = [row for name in args.data.split(",") for row in results(name, args.root)]
    write_record(args.out, {"rows": rows})


def tested(model: Any, seen: Labelled, unseen: Labelled, gamma: float) -> Any:
    """Return the `GZSLMetrics` of a fitted model on rows of seen and of added classes."""
    from hgkt.evaluation import gzsl_metrics

    columns = model.candidates()  # seen classes first
    scored = [
        (model.score_classes(rows, False)[:, columns], truth) for rows, truth in (seen, unseen)
    ]
    n_seen = len(model.seen_classes_)
    return gzsl_metrics(*scored[0], *scored[1], model.classes_[columns], n_seen, gamma)


def write_record(path: Path, content: dict[str, Any], method: str = "hgkt") -> None:
    """Write what a script measured, with versions and machine, in one step.

    Parameters
    ----------
    path : Path
        The file.
    content : dict
        What was measured; arrays become plain data.
    method : str
        Whose mathematics the figures depend on.
    """
    from hgkt._files import write_file
    from hgkt._plain import json_text
    from hgkt.evaluation.records import machine, versions
    from page_tables.records import mathematics

    about = {"versions": {**versions(), "mathematics": mathematics(method)}, "machine": machine()}
    write_file(path, json_text({**about, **content}, indent=1))
