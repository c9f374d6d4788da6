"""What the parts of the mixture are worth on classes that no choice has seen; no test row is read.

    python benchmarks/mixture.py --root DATA [--data CUB,AWA1] [--out FILE]

The validation classes of each published fold play the unseen ones. Everything is chosen on class
folds of the classes that are left, as `ClassFoldSearch` chooses it on all seen classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from _script import FEATURES, run_on_sets, tested
from hgkt.closed_form.family import MixtureFamily
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, split_fold

VARIANTS: dict[str, Callable[[MixtureFamily], MixtureFamily]] = {
    "mixture": lambda family: family,
    "the best single closed form": lambda family: replace(
        family, n_members=(1,), weighs_attributes=False
    ),
    "mixture, one metric": lambda family: replace(family, max_metrics=1),
    "mixture, attributes weigh the same": lambda family: replace(family, weighs_attributes=False),
    "mixture of 20": lambda family: replace(family, n_members=(20,)),
    "mixture of 160": lambda family: replace(family, n_members=(160,)),
}


class Variant(HGKTClassifier):
    """The closed form, its mixture chosen from another family."""

    change: Callable[[MixtureFamily], MixtureFamily] = staticmethod(lambda family: family)

    def mixture_families(self) -> list[MixtureFamily]:
        """Return the changed families."""
        return [type(self).change(family) for family in super().mixture_families()]


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield AUSUC and H of every variant, averaged over the outer folds."""
    data = load_dataset(name, root=root, features=FEATURES[name])
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    for variant, change in VARIANTS.items():
        Variant.change = staticmethod(change)
        found = []
        for number, (train, outer) in enumerate(data.class_folds()):
            rows = split_fold(y, train, outer, 0.2, [number])
            search = ClassFoldSearch(Variant(device="cpu"), random_state=number)
            search.fit(X[rows.fit], y[rows.fit], {c: table[c] for c in train})
            model = search.best_estimator_.add_classes({c: table[c] for c in outer})
            parts = [(X[r], y[r]) for r in (rows.val_seen, rows.val_unseen)]
            found.append(tested(model, *parts, model.gamma_))
        means = {m: float(np.mean([getattr(f, m) for f in found])) for m in ("ausuc", "H")}
        yield {"data": name, "variant": variant, "AUSUC": means["ausuc"], "H": means["H"]}


def main() -> None:
    """Run every variant on every set and write the record."""
    run_on_sets(__doc__, "mixture", "CUB", results)


if __name__ == "__main__":
    main()
