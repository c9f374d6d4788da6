"""Classes grow up behind a service: the figures of `growing.py`, by HTTP.

    python benchmarks/growing_http.py --root DATA [--work FOLDER] [--seeds 1] [--out FILE]

The model of CUB that `growing.py` recorded is fitted and served by `hgkt serve`. The unseen classes
are added over HTTP; then each gets the images that `growing.py` gives it, one request per class and
step. After each step the service predicts the test images, and H of its answers stands beside H of
the same model fed with `partial_fit`. For every further draw the service is rolled back to the
classes without images.

All changes carry idempotency keys: with the same `--work` a run that was interrupted goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _script import FEATURES, RESULTS, arguments, one_thread, without_installation, write_record
from growing import SINGLE, Images, grow, harmonic_of_answers, protocol
from hgkt.client import Client
from hgkt.data import GZSLDataset, load_dataset
from hgkt.estimators import HGKTClassifier, load_model

DATA = "CUB"


def recorded() -> dict[str, Any]:
    """Return what `growing.py` recorded of the single closed form on CUB."""
    record = json.loads((RESULTS / "growing.json").read_text("utf-8"))
    return next(
        each for each in record["results"] if (each["data"], each["model"]) == (DATA, SINGLE)
    )


def saved_model(folder: Path, dataset: GZSLDataset) -> HGKTClassifier:
    """Fit the recorded model, without the unseen classes, and save it."""
    if not (folder / "config.json").is_file():
        known = recorded()
        model = HGKTClassifier(**known["params"], device="cpu", calibration=known["law"])
        X, y = dataset.rows("train")
        model.fit(X, y, dataset.attributes_of(dataset.seen_classes)).save(folder)
    model = load_model(folder)
    assert isinstance(model, HGKTClassifier)
    return model


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Client]:
    """Run `hgkt serve` on a model folder; yield a client."""
    command = [sys.executable, "-m", "hgkt", "serve", "--model", str(folder), "--port", "0"]
    process = subprocess.Popen([*command, "--grace", "0"], stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"http://\S+$", line.strip())
        if found is None:
            raise RuntimeError(f"the service did not start: {line}")
        with Client(found[0], timeout=300) as client:
            yield client.wait_until_ready()
    finally:
        process.terminate()
        process.wait(timeout=60)


def figures(
    client: Client, model: HGKTClassifier, dataset: GZSLDataset, seed: int
) -> Iterator[dict[str, Any]]:
    """Grow the classes of one draw over HTTP and beside it; yield H of both after each step."""
    table = dataset.attributes_of(dataset.unseen_classes)
    added = client.add_classes(table, idempotency_key="classes")
    revision = client.rollback(added.revision, idempotency_key=f"rollback-{seed}").revision
    images = Images(
        *dataset.rows("train"), *dataset.rows("test_seen"), *dataset.rows("test_unseen")
    )
    drawn = protocol(images.y_new, seed)
    model.add_classes({name: row for name, row in table.items() if name not in model.classes_})
    beside = grow(model, images, seed, class_means=False)
    for (n, rows), scores in zip(drawn.steps, beside, strict=True):
        start = time.perf_counter()
        labels = images.y_new[rows]
        for name in dict.fromkeys(labels.tolist()):
            X = images.X_new[rows[labels == name]]
            key = f"{seed}-{n}-{name}"
            revision = client.grow_class(name, X, idempotency_key=key[:200]).revision
        seconds = time.perf_counter() - start
        found = [
            client.predict(X, revision=revision) for X in (images.X_old, images.X_new[drawn.left])
        ]
        H = harmonic_of_answers(found[0], images.y_old, found[1], images.y_new[drawn.left])
        row = {"n_images": n, "seed": seed, "revision": revision, "seconds": seconds,
               "H": H, "H_partial_fit": scores.as_answered()["H"]}  # fmt: skip
        print(json.dumps(row), file=sys.stderr)
        yield row


def main() -> None:
    """Run, write the record, and end with exit code 1 where a figure differs."""
    parser = arguments(__doc__, "growing_http")
    parser.add_argument("--work", type=Path, help="folder for model and registry; kept")
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    without_installation()
    os.environ["OMP_NUM_THREADS"] = "1"
    one_thread()
    with contextlib.ExitStack() as stack:
        work = args.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        dataset = load_dataset(DATA, root=args.root, features=FEATURES[DATA])
        model = saved_model(work / "model", dataset)
        client = stack.enter_context(serving(work / "model"))
        rows = [row for seed in range(args.seeds) for row in figures(client, model, dataset, seed)]
    write_record(args.out, {"data": DATA, "model": SINGLE, "rows": rows})
    if any(abs(row["H"] - row["H_partial_fit"]) > 1e-6 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
