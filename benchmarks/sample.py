"""What a bounded sample of rows changes in the choice of a model, on data that fit into memory.

    python benchmarks/sample.py --root DATA [--data CUB,AWA1] [--out FILE]

Sums are gathered with all rows kept, and with each smaller sample. The model is selected and
calibrated on the published folds from each, and tested as always; the sums are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from _script import load, run_on_sets, tested
from hgkt.data import GZSLDataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, gather

SAMPLES = (5_000, 2_000, 1_000, 500)


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield for every sample what was chosen, what validation said and what tests say."""
    data = load(name, root)
    for sample in (len(data.train), *SAMPLES):
        yield {"data": name, "sample": sample, **result(data, sample)}


def result(data: GZSLDataset, sample: int) -> dict[str, Any]:
    """Select on a sample of so many rows, and test."""
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu")
    batches = [(X[k : k + 4096], y[k : k + 4096]) for k in range(0, len(y), 4096)]
    options = model.gather_options(select=True)
    stats = gather(batches, folds=data.class_folds(), sample=sample, **options)
    start = time.perf_counter()
    search = ClassFoldSearch(model)
    search.fit_statistics(stats, data.attributes_of(data.seen_classes))
    seconds = time.perf_counter() - start
    best = search.best_estimator_.add_classes(data.attributes_of(data.unseen_classes))
    found = tested(best, data.rows("test_seen"), data.rows("test_unseen"), best.gamma_)
    members = search.best_params_["members"]
    metrics = dict.fromkeys((member["feature_map"], member["shrinkage"]) for member in members)
    return {
        "n_rows": len(y),
        "n_kept": len(stats.rows()[1]),
        "metrics": [list(metric) for metric in metrics],
        "n_members": len(members),
        "ausuc": search.best_score_,
        "gamma": best.gamma_,
        "seconds": seconds,
        "test": {"H": found.H, "ts": found.ts, "tr": found.tr, "ausuc": found.ausuc},
    }


if __name__ == "__main__":
    run_on_sets(__doc__, "sample", "CUB,AWA1", results)
