"""From unknown to class: intents nobody described are found, named, and recognised.

    python benchmarks/inbox.py --root DATA [--cache FOLDER] [--out FILE]

CLINC, a third of the intents of each domain unseen: neither learned nor described. The model is
trained on the train sentences of the others, everything by default. Test sentences that it rejects
(5 % of known ones may be) are grouped; of the ten largest groups classes are made, each under the
name of the intent that most of its sentences have, as a person who reads them would do. Measured on
all other sentences of those intents: what the model never had.

Settings of the groups are compared before that on learned intents alone: a third of them is left
out, and played unknown among validation sentences.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import hgkt
from _script import arguments, one_thread, write_record
from hgkt.estimators.base import GZSLClassifier
from hgkt.evaluation import per_class_accuracy
from hgkt.items import read_texts, train_on_texts
from hgkt.unknown import Group, find_groups

N_SEEDS, N_GROUPS, REJECT, SHARE = 5, 10, 0.05, 3
SETTINGS = [
    {"n_directions": directions, "min_samples": samples, "selection": selection}
    for directions in (50, 100, 384)
    for samples in (1, 3, 5)
    for selection in ("leaf", "eom")
]


class Sentences:
    """All sentences of CLINC with their features and splits, made once."""

    def __init__(self, root: Path, cache: Path | None) -> None:
        parts = json.loads((root / "CLINC" / "data_full.json").read_text("utf-8"))
        domains = json.loads((root / "CLINC" / "domains.json").read_text("utf-8"))
        self.domains = [[name.replace("_", " ") for name in names] for names in domains.values()]
        rows = [
            (text, name.replace("_", " "), split.removeprefix("oos_"))
            for split, part in parts.items()
            for text, name in part
        ]
        self.frame = pd.DataFrame(rows, columns=["text", "class", "split"])
        self.cache = cache
        self.X = read_texts(self.frame, device="cpu", cache=cache).dataset.features
        self.y = self.frame["class"].to_numpy(str)
        self.split = self.frame["split"].to_numpy(str)

    def unseen(self, seed: int) -> list[str]:
        """Draw a third of the intents of each domain."""
        rng = np.random.default_rng(seed)
        drawn = (rng.permutation(sorted(names))[: len(names) // SHARE] for names in self.domains)
        return [str(name) for names in drawn for name in names]

    def model(self, intents: list[str]) -> hgkt.TextClassifier:
        """Train on the train sentences of some intents, everything by default."""
        rows = (self.split == "train") & np.isin(self.y, intents)
        return train_on_texts(self.frame[rows], device="cpu", cache=self.cache)

    def rows(self, split: str, intents: list[str]) -> NDArray[np.intp]:
        """Return the sentences of some intents in a split."""
        return np.flatnonzero((self.split == split) & np.isin(self.y, intents))


def rejected(model: GZSLClassifier, data: Sentences, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return those of some rows that look like no known class."""
    return rows[model.predict(data.X[rows], reject=REJECT) == hgkt.UNKNOWN]


def main_class(labels: NDArray[Any]) -> tuple[str, float]:
    """Return the most frequent label and its share."""
    names, counts = np.unique(labels, return_counts=True)
    return str(names[counts.argmax()]), float(counts.max() / counts.sum())


def compare_settings(data: Sentences, seed: int) -> list[dict[str, Any]]:
    """Return purity and size of the ten largest groups by setting; learned intents alone."""
    learned = sorted({name for names in data.domains for name in names} - set(data.unseen(seed)))
    hidden = np.random.default_rng(seed).permutation(learned)[: len(learned) // SHARE].tolist()
    model = data.model([name for name in learned if name not in hidden]).classifier
    rows = rejected(model, data, data.rows("val", learned))
    found = []
    for setting in SETTINGS:
        groups: list[Group] = find_groups(model, data.X[rows], **setting)
        shares = [main_class(data.y[rows[group.rows]])[1] for group in groups]
        sure = [group.sureness for group in groups]
        found.append({
            **setting, "seed": seed, "n_rejected": len(rows), "n_groups": len(groups),
            "n_items": sum(group.size for group in groups[:N_GROUPS]),
            "purity": float(np.mean(shares[:N_GROUPS])) if shares else 0.0,
            "order": float(pd.Series(sure).corr(pd.Series(shares), method="spearman")),
        })  # fmt: skip
    return found


def measure(data: Sentences, seed: int, with_none: bool) -> dict[str, Any]:
    """Make classes of the ten largest groups of rejected test rows; see the top of the file."""
    everything = sorted({name for names in data.domains for name in names})
    unseen = data.unseen(seed)
    learned = [name for name in everything if name not in unseen]
    text_model = data.model(learned)
    model = text_model.classifier
    rows = rejected(model, data, data.rows("test", [*everything, *(["oos"] if with_none else [])]))
    known = data.rows("test", learned)
    before = float(np.mean(model.predict(data.X[known]) == data.y[known]))
    recall = float(np.isin(data.y[rows], unseen).sum() / len(data.rows("test", unseen)))
    groups = find_groups(model, data.X[rows])
    largest = [rows[group.rows] for group in groups[:N_GROUPS]]
    named = [main_class(data.y[own]) for own in largest]
    made: dict[str, list[NDArray[np.intp]]] = {}
    for (name, _), own in zip(named, largest, strict=True):
        if name in unseen:  # one of "none of the intents" or of known ones would be put aside
            made.setdefault(name, []).append(own)
    used = np.concatenate([own for parts in made.values() for own in parts])
    others = np.setdiff1d(np.flatnonzero(np.isin(data.y, list(made))), used)

    def accuracy() -> float:
        return per_class_accuracy(data.y[others], model.predict(data.X[others]))

    text_model.add_classes(dict.fromkeys(made, ""))
    by_name = accuracy()
    model.grow({n: model.example_sums(data.X[np.concatenate(parts)]) for n, parts in made.items()})
    return {
        "seed": seed, "with_none": with_none, "n_rejected": len(rows), "recall": recall,
        "n_groups": len(groups), "purity": float(np.mean([share for _, share in named])),
        "n_items": len(used), "n_classes": len(made), "n_others": len(others),
        "by_name": by_name, "accuracy": accuracy(), "learned_before": before,
        "learned_after": float(np.mean(model.predict(data.X[known]) == data.y[known])),
    }  # fmt: skip


def main() -> None:
    """Compare settings on learned intents, then measure, and write the record."""
    parser = arguments(__doc__, "inbox")
    parser.add_argument("--cache", type=Path, help="keeps encoded sentences")
    args = parser.parse_args()
    one_thread()
    data = Sentences(Path(args.root), args.cache)
    settings, results = [], []
    for seed in range(N_SEEDS):
        settings += compare_settings(data, seed)
        results += [measure(data, seed, with_none) for with_none in (False, True)]
        print(f"seed {seed}: {results[-2:]}", file=sys.stderr, flush=True)
        write_record(args.out, {"settings": settings, "results": results})


if __name__ == "__main__":
    main()
