"""Cosines or distances where classes are few: every pair of seen digits in turn plays the unseen.

    python benchmarks/pairs.py [--out FILE]

Everything is chosen on class folds of the six digits that are left; no test row is read, and the
two hidden digits of the data set are not used.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from _script import arguments, one_thread, tested, write_record
from hgkt.closed_form.ensemble import MemberPool
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, split_fold

VARIANTS = {"cosines": ("cosine",), "distances": ("euclidean",),
            "validation chooses": ("cosine", "euclidean")}  # fmt: skip


class Compared(HGKTClassifier):
    """The closed form, with only some ways to compare an instance and a class."""

    allowed: ClassVar[tuple[str, ...]] = ()

    def member_pools(self, n_classes: int) -> list[MemberPool]:
        """Return the pools that compare in one of the ways allowed."""
        pools = super().member_pools(n_classes)
        return [pool for pool in pools if pool.base.metric in type(self).allowed]


def result(X: Any, y: Any, table: dict[Any, Any], pair: tuple[Any, Any]) -> dict[str, Any]:
    """Return AUSUC, H and what was chosen with one pair of digits held out."""
    train = [name for name in table if name not in pair]
    rows = split_fold(y, train, list(pair), 0.3, [1])
    search = ClassFoldSearch(Compared(device="cpu"))
    search.fit(X[rows.fit], y[rows.fit], {name: table[name] for name in train})
    model = search.best_estimator_.add_classes({name: table[name] for name in pair})
    parts = [(X[part], y[part]) for part in (rows.val_seen, rows.val_unseen)]
    found = tested(model, *parts, model.gamma_)
    return {"AUSUC": found.ausuc, "H": found.H, "metric": model.metric}


def main() -> None:
    """Run every variant on every pair and write the record."""
    args = arguments(__doc__, "pairs", root=False).parse_args()
    one_thread()
    data = load_dataset("digits")
    X, y = (np.asarray(part) for part in data.rows("train"))
    table = dict(sorted(data.attributes_of(data.seen_classes).items()))
    pairs, rows = list(combinations(table, 2)), []
    for name, allowed in VARIANTS.items():
        Compared.allowed = allowed
        found = [result(X, y, table, pair) for pair in pairs]
        means = {key: float(np.mean([f[key] for f in found])) for key in ("AUSUC", "H")}
        share = float(np.mean([f["metric"] == "euclidean" for f in found]))
        rows.append({"variant": name, **means, "distances": share, "n_pairs": len(pairs)})
        print(rows[-1], flush=True)
    write_record(args.out, {"rows": rows})


if __name__ == "__main__":
    main()
