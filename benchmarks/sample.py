"""What a bounded sample of rows changes in the choice of a model, on data that fit into memory.

    python benchmarks/sample.py --root DATA [--data CUB,AWA1] [--out FILE]

Sums are gathered once with all rows kept, and once for each smaller sample. The model is selected
and calibrated on the published folds from each, and tested as always; the sums are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from _script import FEATURES, run_on_sets, tested
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, gather

SAMPLES = (20_000, 5_000, 2_000, 1_000, 500)


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield for every sample what was chosen, what validation said and what tests say."""
    data = load_dataset(name, root=root, features=FEATURES[name])
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    model = HGKTClassifier(device="cpu")
    batches = [(X[k : k + 4096], y[k : k + 4096]) for k in range(0, len(y), 4096)]
    tests = data.rows("test_seen"), data.rows("test_unseen")
    done = set()
    for sample in (len(y), *SAMPLES):
        options = model.gather_options(select=True)
        stats = gather(batches, folds=data.class_folds(), sample=sample, **options)
        n_kept = len(stats.rows()[1])
        if n_kept in done:
            continue
        done.add(n_kept)
        start = time.perf_counter()
        search = ClassFoldSearch(model).fit_statistics(stats, table)
        best = search.best_estimator_.add_classes(data.attributes_of(data.unseen_classes))
        mixture = search.best_params_["mixture"]
        found = tested(best, *tests, best.gamma_)
        yield {
            "data": name,
            "n_rows": len(y),
            "n_kept": n_kept,
            "metrics": [[term["feature_map"], term["shrinkage"]] for term in mixture["metrics"]],
            "n_kernels": len(mixture["kernels"]),
            "norm_power": search.best_params_["norm_power"],
            "ausuc": search.best_score_,
            "gamma": best.gamma_,
            "seconds": time.perf_counter() - start,
            "test": {"H": found.H, "ts": found.ts, "tr": found.tr, "ausuc": found.ausuc},
        }


if __name__ == "__main__":
    run_on_sets(__doc__, "sample", "CUB,AWA1", results)
