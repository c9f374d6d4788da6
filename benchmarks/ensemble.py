"""What the parts of the ensemble are worth on classes that no choice has seen; no test row is read.

    python benchmarks/ensemble.py --root DATA [--data CUB,CUB:sent,AWA1,EMOJI] [--out FILE]

The validation classes of each published fold, or of three random ones, play the unseen ones.
Everything is chosen on class folds of the classes that are left, as `ClassFoldSearch` chooses it on
all seen classes. At most 250 rows per class are used. `CUB:sent` is CUB described by sentence
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _script import FEATURES, run_on_sets, tested
from hgkt.calibration.folds import class_folds
from hgkt.closed_form.ensemble import N_MEMBERS, Member, MemberPool
from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, split_fold

MAX_ROWS = 250  # per class: of AWA1 some have a thousand


@dataclass(frozen=True)
class LesserPool(MemberPool):
    """A pool without some of the variants of its best members."""

    relevance: bool = True
    observed: bool = True

    def variants(self, member: Member, learnable: bool) -> list[Member]:
        """Return the variants that are left."""
        found = super().variants(member, learnable and self.relevance)
        return [other for other in found if self.observed or not other.observed]


Change = Callable[[MemberPool], MemberPool]

VARIANTS: dict[str, Change] = {
    "ensemble": lambda pool: pool,
    "chosen greedily from nothing": lambda pool: replace(pool, n_first=0),
    "the best eight, alike": lambda pool: replace(pool, n_first=N_MEMBERS),
    "one member": lambda pool: replace(pool, n_first=1, n_members=1),
    "one metric": lambda pool: replace(pool, n_metrics=1),
    # Distances allow one metric only.
    "six metrics": lambda pool: replace(pool, n_metrics=6 if pool.n_metrics > 1 else 1),
    "without relevance": lambda pool: LesserPool(**vars(pool), relevance=False),
    "without observed means": lambda pool: LesserPool(**vars(pool), observed=False),
}


class Variant(HGKTClassifier):
    """The closed form, its ensemble chosen from other pools."""

    change: Change = staticmethod(lambda pool: pool)

    def member_pools(self, n_classes: int) -> list[MemberPool]:
        """Return the changed pools."""
        return [type(self).change(pool) for pool in super().member_pools(n_classes)]


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield AUSUC and H of every variant, averaged over the outer folds."""
    place, _, attributes = name.partition(":")
    data = load_dataset(place, root=root, features=FEATURES[place], attributes=attributes or "att")
    X, y = data.rows("train")
    some = drawn(y, MAX_ROWS)
    X, y = X[some], y[some]
    table = data.attributes_of(data.seen_classes)
    folds = data.class_folds() or class_folds(np.unique(y).tolist())
    for variant, change in VARIANTS.items():
        Variant.change = staticmethod(change)
        found, sizes = [], []
        for number, (train, outer) in enumerate(folds):
            rows = split_fold(y, train, outer, 0.2, [number])
            search = ClassFoldSearch(Variant(device="cpu"), random_state=number)
            search.fit(X[rows.fit], y[rows.fit], {c: table[c] for c in train})
            model = search.best_estimator_.add_classes({c: table[c] for c in outer})
            parts = [(X[r], y[r]) for r in (rows.val_seen, rows.val_unseen)]
            found.append(tested(model, *parts, model.gamma_))
            sizes.append(len(model.members))
        means = {m: float(np.mean([getattr(f, m) for f in found])) for m in ("ausuc", "H")}
        yield {"data": name, "variant": variant, "AUSUC": means["ausuc"], "H": means["H"],
               "members": float(np.mean(sizes))}  # fmt: skip


def drawn(y: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Return rows of at most n of each class at random, in their order."""
    rng = np.random.default_rng(0)
    kept = [rng.permutation(np.flatnonzero(y == name))[:n] for name in np.unique(y)]
    return np.sort(np.concatenate(kept))


if __name__ == "__main__":
    run_on_sets(__doc__, "ensemble", "CUB,CUB:sent,AWA1,EMOJI", results)
